// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a session is to be, as a guest asks for it: nothing of it is trusted.

use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::VideoSettings;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::video::{
    CreateVideoSession, MIN_ENCODED_SIZE, RateControl, VideoCaps, VideoCodec, VideoFormat,
};

/// The worst quantizer.
const MAX_QUANTIZER: u32 = 255;
/// Most bits a second: 800 million, the greatest of AV1's levels.
const MAX_BIT_RATE: u32 = 800_000_000;
/// Most pictures a second, and the greatest denominator.
const MAX_FRAME_RATE: u32 = 1_000_000;
/// The fastest.
const MAX_SPEED: u32 = 10;

/// Checks what a session is to be, on a node of this type, against what the hardware has.
pub(crate) fn check(
    request: &CreateVideoSession,
    engine_type: EngineType,
    caps: &VideoCaps,
) -> Result<VideoSettings, RequestError> {
    let encodes = match engine_type {
        EngineType::VIDEO_DECODE => false,
        EngineType::VIDEO_ENCODE => true,
        _ => return Err(RequestError::NotSupported("video sessions on this node")),
    };
    let refused = |field, value: u32| Err(RequestError::parameter(field, value.into()));
    let CreateVideoSession { codec, format, width, height, rate_control, rate, .. } = *request;
    let CreateVideoSession { frame_rate_numerator, frame_rate_denominator, .. } = *request;
    let CreateVideoSession { key_frame_interval, speed, reserved, .. } = *request;
    let has = |bits: u32, number: u32| bits.checked_shr(number).is_some_and(|bits| bits & 1 == 1);
    if reserved != 0 {
        return refused("reserved", reserved);
    }
    if codec == VideoCodec(0) || !has(caps.codecs, codec.0) {
        return refused("codec", codec.0);
    }
    if format == VideoFormat(0) || !has(caps.formats, format.0) {
        return refused("format", format.0);
    }
    let least = if encodes { MIN_ENCODED_SIZE } else { 1 };
    if !(least..=caps.max_width).contains(&width) {
        return refused("width", width);
    }
    if !(least..=caps.max_height).contains(&height) {
        return refused("height", height);
    }
    let most = match (encodes, rate_control) {
        (false, RateControl(0)) => 0,
        (true, RateControl::QUANTIZER) => MAX_QUANTIZER,
        (true, RateControl::BITS_PER_SECOND) => MAX_BIT_RATE,
        _ => return refused("rate_control", rate_control.0),
    };
    let is_bit_rate = rate_control == RateControl::BITS_PER_SECOND;
    if rate > most || is_bit_rate && rate == 0 {
        return refused("rate", rate);
    }
    let frame_rate = if encodes { 1..=MAX_FRAME_RATE } else { 0..=0 };
    if !frame_rate.contains(&frame_rate_numerator) {
        return refused("frame_rate_numerator", frame_rate_numerator);
    }
    if !frame_rate.contains(&frame_rate_denominator) {
        return refused("frame_rate_denominator", frame_rate_denominator);
    }
    if key_frame_interval > if encodes { MAX_FRAME_RATE } else { 0 } {
        return refused("key_frame_interval", key_frame_interval);
    }
    if speed > if encodes { MAX_SPEED } else { 0 } {
        return refused("speed", speed);
    }
    Ok(VideoSettings {
        node: request.node,
        encodes,
        format: format.0,
        size: [width, height],
        is_bit_rate,
        rate,
        frame_rate: [frame_rate_numerator, frame_rate_denominator],
        key_frame_interval,
        speed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::control::Handle;
    use bellhop_protocol::control::video::{VIDEO_DECODES, VIDEO_ENCODES};
    use bellhop_protocol::status::Status;

    fn decoding() -> CreateVideoSession {
        CreateVideoSession::decoding(Handle(1), 3, VideoFormat::NV12, [640, 360])
    }

    fn encoding() -> CreateVideoSession {
        CreateVideoSession {
            rate: 100,
            frame_rate_numerator: 30_000,
            frame_rate_denominator: 1001,
            key_frame_interval: 240,
            speed: 10,
            ..decoding()
        }
    }

    fn checked(
        request: &CreateVideoSession,
        engine_type: EngineType,
    ) -> Result<VideoSettings, (Status, u64)> {
        let caps = VideoCaps::new(VIDEO_DECODES | VIDEO_ENCODES, 4);
        check(request, engine_type, &caps).map_err(|error| (error.status(), error.detail()))
    }

    #[test]
    fn what_is_taken_is_what_was_asked_for() {
        let settings = checked(&encoding(), EngineType::VIDEO_ENCODE).unwrap();
        assert_eq!((settings.node, settings.encodes, settings.format), (3, true, 1));
        assert_eq!((settings.size, settings.frame_rate), ([640, 360], [30_000, 1001]));
        assert_eq!((settings.is_bit_rate, settings.rate), (false, 100));
        assert_eq!((settings.key_frame_interval, settings.speed), (240, 10));
        let settings = checked(&decoding(), EngineType::VIDEO_DECODE).unwrap();
        assert!(!settings.encodes);
        let rate_control = RateControl::BITS_PER_SECOND;
        let rated = CreateVideoSession { rate_control, rate: 1_000_000, ..encoding() };
        assert!(checked(&rated, EngineType::VIDEO_ENCODE).unwrap().is_bit_rate);
    }

    #[test]
    fn only_video_nodes_have_sessions() {
        for engine_type in [EngineType::THREE_D, EngineType::COPY, EngineType(99)] {
            let refused = checked(&decoding(), engine_type);
            assert_eq!(refused.unwrap_err().0, Status::NOT_SUPPORTED);
        }
        // A decoder has no rate, and an encoder a frame rate.
        assert!(checked(&encoding(), EngineType::VIDEO_DECODE).is_err());
        assert!(checked(&decoding(), EngineType::VIDEO_ENCODE).is_err());
    }

    #[test]
    fn each_number_has_its_bounds() {
        let wrong = |value: u32| Err((Status::INVALID_PARAMETER, u64::from(value)));
        let encode = |request| checked(&request, EngineType::VIDEO_ENCODE).map(drop);
        for (request, value) in [
            (CreateVideoSession { codec: VideoCodec(0), ..encoding() }, 0),
            (CreateVideoSession { codec: VideoCodec(2), ..encoding() }, 2),
            (CreateVideoSession { codec: VideoCodec(33), ..encoding() }, 33),
            (CreateVideoSession { format: VideoFormat(0), ..encoding() }, 0),
            (CreateVideoSession { format: VideoFormat(5), ..encoding() }, 5),
            (CreateVideoSession { width: 15, ..encoding() }, 15),
            (CreateVideoSession { width: 8193, ..encoding() }, 8193),
            (CreateVideoSession { width: 65_536, ..encoding() }, 65_536),
            (CreateVideoSession { height: 65_536, ..encoding() }, 65_536),
            (CreateVideoSession { rate_control: RateControl(2), ..encoding() }, 2),
            (CreateVideoSession { rate: 256, ..encoding() }, 256),
            (CreateVideoSession { frame_rate_numerator: 0, ..encoding() }, 0),
            (CreateVideoSession { frame_rate_denominator: 1_000_001, ..encoding() }, 1_000_001),
            (CreateVideoSession { key_frame_interval: 1_000_001, ..encoding() }, 1_000_001),
            (CreateVideoSession { speed: 11, ..encoding() }, 11),
            (CreateVideoSession { reserved: 7, ..encoding() }, 7),
        ] {
            assert_eq!(encode(request), wrong(value), "{request:?}");
        }
        let decode = |request| checked(&request, EngineType::VIDEO_DECODE).map(drop);
        assert_eq!(decode(CreateVideoSession { width: 1, height: 1, ..decoding() }), Ok(()));
        assert_eq!(decode(CreateVideoSession { width: 0, ..decoding() }), wrong(0));
    }
}
