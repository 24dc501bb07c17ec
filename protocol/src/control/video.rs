// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about video sessions, which `VIDEO_DECODE` and `VIDEO_ENCODE` name. Specific to Bellhop.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the device's video nodes can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryVideoCaps {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QueryVideoCaps, 8, reserved at 0);
request!(QueryVideoCaps, QUERY_VIDEO_CAPS -> VideoCaps);

/// [`VideoCaps::flags`]: there is a node that decodes.
pub const VIDEO_DECODES: u32 = 1 << 0;
/// [`VideoCaps::flags`]: there is a node that encodes.
pub const VIDEO_ENCODES: u32 = 1 << 1;

/// What sessions can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VideoCaps {
    /// [`VIDEO_DECODES`] and [`VIDEO_ENCODES`].
    pub flags: u32,
    /// Most sessions that this guest can have at a time.
    pub max_sessions: u32,
    /// The greatest width of a picture, in samples of luma.
    pub max_width: u32,
    /// Its greatest height.
    pub max_height: u32,
    /// A bit for each [`VideoCodec`]: 1 shifted by its number.
    pub codecs: u32,
    /// A bit for each [`VideoFormat`], likewise.
    pub formats: u32,
    /// Most bytes of a packet's bitstream.
    pub max_bitstream: u32,
    /// Zero.
    pub reserved: u32,
    /// Why there are no sessions. Empty if there are; UTF-8, padded with zeroes.
    pub missing: [u8; 256],
}
crate::assert_layout!(
    VideoCaps, 288,
    flags at 0, max_sessions at 4, max_width at 8, max_height at 12, codecs at 16, formats at 20,
    max_bitstream at 24, reserved at 28, missing at 32,
);

/// The greatest width and height of a picture.
pub const MAX_VIDEO_SIZE: u32 = 8192;
/// The least width and height of a picture that is encoded.
pub const MIN_ENCODED_SIZE: u32 = 16;
/// Most bytes of a packet's bitstream.
pub const MAX_BITSTREAM: u32 = 1 << 24;
/// Most bytes of a packet's picture.
pub const MAX_PICTURE: u32 = 1 << 28;

impl VideoCaps {
    /// The device has no sessions, for this reason.
    #[must_use]
    pub fn none(missing: &str) -> Self {
        Self {
            flags: 0,
            max_sessions: 0,
            max_width: 0,
            max_height: 0,
            codecs: 0,
            formats: 0,
            max_bitstream: 0,
            reserved: 0,
            missing: super::kernel::padded(missing),
        }
    }

    /// A device whose nodes do what these flags say, and whose guests can have `max_sessions` sessions.
    #[must_use]
    pub fn new(flags: u32, max_sessions: u32) -> Self {
        let all = |numbers: &[u32]| numbers.iter().fold(0, |bits, number| bits | 1 << number);
        Self {
            flags,
            max_sessions,
            max_width: MAX_VIDEO_SIZE,
            max_height: MAX_VIDEO_SIZE,
            codecs: 1 << VideoCodec::AV1.0,
            formats: all(&[
                VideoFormat::NV12.0,
                VideoFormat::I420.0,
                VideoFormat::P010.0,
                VideoFormat::I010.0,
            ]),
            max_bitstream: MAX_BITSTREAM,
            ..Self::none("")
        }
    }

    /// Whether there are sessions.
    #[must_use]
    pub const fn are_supported(&self) -> bool {
        self.flags != 0
    }
}

open_enum! {
    /// How a bitstream is coded.
    pub struct VideoCodec: u32 {
        /// AV1. A packet's bitstream is whole OBUs, such as a temporal unit: the frame of an IVF file.
        AV1 = 1;
    }
}

open_enum! {
    /// How a picture lies in memory: rows of luma, one pitch from each to the next, and behind the last, chroma of half the
    /// width and half the height, both rounded up.
    pub struct VideoFormat: u32 {
        /// 8 bits. Chroma has rows of one pitch, in which U and V alternate.
        NV12 = 1;
        /// 8 bits. Chroma is rows of U, half a pitch from each to the next, and then rows of V.
        I420 = 2;
        /// As [`Self::NV12`], with 10 bits: the upper ones of 16.
        P010 = 3;
        /// As [`Self::I420`], with 10 bits: the lower ones of 16.
        I010 = 4;
    }
}

impl VideoFormat {
    /// Bytes of a sample; 0 for an unknown format.
    #[must_use]
    pub const fn sample(self) -> u32 {
        match self {
            Self::NV12 | Self::I420 => 1,
            Self::P010 | Self::I010 => 2,
            _ => 0,
        }
    }

    /// Bits of a sample.
    #[must_use]
    pub const fn bit_depth(self) -> u32 {
        if self.sample() == 2 { 10 } else { 8 }
    }

    /// Bytes of a row of luma of this width, without gap: the least pitch.
    #[must_use]
    pub const fn least_pitch(self, width: u32) -> u32 {
        width.next_multiple_of(2) * self.sample()
    }

    /// Bytes of a picture of this height with this pitch.
    #[must_use]
    pub const fn bytes(height: u32, pitch: u32) -> u64 {
        pitch as u64 * (height as u64 + height.div_ceil(2) as u64)
    }
}

open_enum! {
    /// What decides how many bits an encoder makes.
    pub struct RateControl: u32 {
        /// [`CreateVideoSession::rate`] is a quantizer: 0 is the best, 255 the smallest.
        QUANTIZER = 0;
        /// It is roughly the number of bits a second.
        BITS_PER_SECOND = 1;
    }
}

/// Creates a session, which decodes or encodes one stream, on one node. `NOT_SUPPORTED` if the node is none for video;
/// `QUOTA_EXCEEDED` if the guest has as many as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateVideoSession {
    /// The device.
    pub device: Handle,
    /// The node: one of `VIDEO_DECODE` or of `VIDEO_ENCODE`.
    pub node: u32,
    /// How the bitstream is coded.
    pub codec: VideoCodec,
    /// How pictures lie in memory.
    pub format: VideoFormat,
    /// Width of the pictures in samples of luma: of each if it encodes, else the greatest.
    pub width: u32,
    /// Their height, likewise.
    pub height: u32,
    /// Encoding: what decides how many bits there are. Decoding: 0, as all that follow.
    pub rate_control: RateControl,
    /// How many.
    pub rate: u32,
    /// Pictures a second: numerator, from 1.
    pub frame_rate_numerator: u32,
    /// And denominator, from 1.
    pub frame_rate_denominator: u32,
    /// Most pictures from a key frame to the next; 0: as many as there are.
    pub key_frame_interval: u32,
    /// How much time a picture may take: 0, the slowest, to 10.
    pub speed: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    CreateVideoSession, 56,
    device at 0, node at 8, codec at 12, format at 16, width at 20, height at 24,
    rate_control at 28, rate at 32, frame_rate_numerator at 36, frame_rate_denominator at 40,
    key_frame_interval at 44, speed at 48, reserved at 52,
);
request!(CreateVideoSession, CREATE_VIDEO_SESSION -> VideoSessionCreated);

impl CreateVideoSession {
    /// A session that decodes AV1 pictures of at most this width and height, on a node of this device.
    #[must_use]
    pub fn decoding(device: Handle, node: u32, format: VideoFormat, size: [u32; 2]) -> Self {
        let [width, height] = size;
        Self {
            device,
            node,
            codec: VideoCodec::AV1,
            format,
            width,
            height,
            rate_control: RateControl::QUANTIZER,
            rate: 0,
            frame_rate_numerator: 0,
            frame_rate_denominator: 0,
            key_frame_interval: 0,
            speed: 0,
            reserved: 0,
        }
    }
}

/// A session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct VideoSessionCreated {
    /// Its handle.
    pub session: Handle,
    /// The number by which packets name it: unique in the process, and never used again.
    pub number: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(VideoSessionCreated, 16, session at 0, number at 8, reserved at 12);

/// Destroys a session. A packet that executes finishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyVideoSession {
    /// The session.
    pub session: Handle,
}
crate::assert_layout!(DestroyVideoSession, 8, session at 0);
request!(DestroyVideoSession, DESTROY_VIDEO_SESSION -> ());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_four_to_two_to_zero_has_half_as_much_chroma_as_luma() {
        assert_eq!(VideoFormat::NV12.least_pitch(63), 64);
        assert_eq!(VideoFormat::P010.least_pitch(64), 128);
        assert_eq!(VideoFormat::bytes(48, 64), 64 * 72);
        assert_eq!(VideoFormat::bytes(47, 64), 64 * 71);
        assert_eq!((VideoFormat(0).sample(), VideoFormat(5).sample()), (0, 0));
    }

    #[test]
    fn the_largest_picture_fits_a_packet() {
        let pitch = VideoFormat::P010.least_pitch(MAX_VIDEO_SIZE);
        assert!(VideoFormat::bytes(MAX_VIDEO_SIZE, pitch) <= MAX_PICTURE.into());
    }

    #[test]
    fn what_a_device_with_video_can_do_is_told() {
        let caps = VideoCaps::new(VIDEO_DECODES, 4);
        assert!(caps.are_supported() && !VideoCaps::none("why").are_supported());
        assert_eq!((caps.codecs, caps.formats, caps.max_sessions), (0b10, 0b11110, 4));
    }
}
