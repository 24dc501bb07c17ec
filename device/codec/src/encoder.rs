// SPDX-License-Identifier: MIT OR Apache-2.0

//! Encoding, by rav1e.

use crate::picture::{Layout, Picture};
use rav1e::prelude::{
    ChromaSampling, Config, Context, EncoderConfig, EncoderStatus, FrameParameters, FrameType,
    FrameTypeOverride, InvalidConfig, Pixel, Rational, SceneDetectionSpeed, SpeedSettings,
};
use std::collections::VecDeque;

/// How many bits a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// As many as this quantizer needs: 0 is the best, 255 the smallest.
    Quantizer(u8),
    /// About so many a second.
    BitsPerSecond(u32),
}

/// What a stream is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Width and height: 16 to 65,535 each.
    pub size: [u32; 2],
    /// 8 or 10.
    pub bit_depth: u32,
    /// Pictures a second, as numerator and denominator.
    pub frame_rate: [u32; 2],
    /// How many bits it has.
    pub rate: Rate,
    /// 0, the slowest, to 10.
    pub speed: u8,
    /// Most pictures from a key frame to the next; 0: as many as there are.
    pub key_frame_interval: u32,
    /// Parts that a picture is encoded in, of which each takes a thread of [`start_threads`](crate::start_threads) at a time;
    /// fewer if it is too small for them.
    pub tiles: u32,
}

/// Why a stream cannot be what it is to be.
#[derive(Debug, thiserror::Error)]
#[error("the encoder refuses these settings: {0}")]
pub struct SettingsError(InvalidConfig);

/// A temporal unit of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Its OBUs.
    pub data: Vec<u8>,
    /// The time of its picture.
    pub time: i64,
    /// Whether a decoder can begin with it.
    pub is_key: bool,
}

/// An encoder of one stream. Pictures come out in their order, some pictures late.
pub struct Encoder {
    context: Samples,
    bit_depth: u32,
    size: [u32; 2],
    /// The times of the pictures that have not come out.
    times: VecDeque<i64>,
}

/// An encoder's state, by the bytes of a sample.
enum Samples {
    One(Box<Context<u8>>),
    Two(Box<Context<u16>>),
}

impl Encoder {
    /// An encoder of a stream of I420.
    ///
    /// # Errors
    /// When the settings contradict each other, or AV1.
    pub fn new(settings: &EncoderSettings) -> Result<Self, SettingsError> {
        let EncoderSettings { size, bit_depth, frame_rate, rate, speed, key_frame_interval, tiles } =
            *settings;
        // It would look for changes of scene with threads, and pictures ahead.
        let mut speed_settings = SpeedSettings::from_preset(speed.min(10));
        speed_settings.scene_detection_mode = SceneDetectionSpeed::None;
        speed_settings.rdo_lookahead_frames = 1;
        let mut config = EncoderConfig {
            width: size[0] as usize,
            height: size[1] as usize,
            time_base: Rational::new(frame_rate[1].into(), frame_rate[0].into()),
            bit_depth: bit_depth as usize,
            chroma_sampling: ChromaSampling::Cs420,
            low_latency: true,
            tiles: tiles as usize,
            speed_settings,
            ..EncoderConfig::default()
        };
        match rate {
            Rate::Quantizer(quantizer) => config.quantizer = quantizer.into(),
            Rate::BitsPerSecond(bits) => config.bitrate = i32::try_from(bits).unwrap_or(i32::MAX),
        }
        // The shorter must not be longer than the longer.
        config.set_key_frame_interval(
            config.min_key_frame_interval.min(key_frame_interval.into()),
            key_frame_interval.into(),
        );
        let config = Config::new().with_encoder_config(config);
        let context = if bit_depth > 8 {
            Samples::Two(Box::new(config.new_context().map_err(SettingsError)?))
        } else {
            Samples::One(Box::new(config.new_context().map_err(SettingsError)?))
        };
        Ok(Self { context, bit_depth, size, times: VecDeque::new() })
    }

    /// Gives the encoder a picture; with `is_key`, a decoder can begin with it. Returns false if it is not what the stream
    /// is made of, or comes after [`Self::end`].
    pub fn send(&mut self, picture: &Picture, is_key: bool) -> bool {
        if picture.size != self.size
            || picture.bit_depth != self.bit_depth
            || picture.layout != Layout::I420
        {
            return false;
        }
        let sent = match &mut self.context {
            Samples::One(context) => send(context, picture, is_key),
            Samples::Two(context) => send(context, picture, is_key),
        };
        if sent {
            self.times.push_back(picture.time);
        }
        sent
    }

    /// No more pictures come. The next temporal units are those of the pictures so far.
    pub fn end(&mut self) {
        match &mut self.context {
            Samples::One(context) => context.flush(),
            Samples::Two(context) => context.flush(),
        }
    }

    /// The next temporal unit. `None` if more pictures are needed, or all have come out.
    ///
    /// # Errors
    /// When the encoder failed: nothing more comes out.
    pub fn encoded(&mut self) -> Result<Option<Encoded>, EncoderFailed> {
        let (data, is_key) = loop {
            let received = match &mut self.context {
                Samples::One(context) => receive(context),
                Samples::Two(context) => receive(context),
            };
            match received {
                Ok(received) => break received,
                // It has encoded a frame that is not shown.
                Err(EncoderStatus::Encoded) => {}
                Err(EncoderStatus::NeedMoreData | EncoderStatus::LimitReached) => return Ok(None),
                Err(status) => return Err(EncoderFailed(status)),
            }
        };
        let time = self.times.pop_front().unwrap_or(0);
        Ok(Some(Encoded { data, time, is_key }))
    }
}

/// The encoder failed.
#[derive(Debug, thiserror::Error)]
#[error("the encoder failed: {0}")]
pub struct EncoderFailed(EncoderStatus);

fn send<T: Pixel>(context: &mut Context<T>, picture: &Picture, is_key: bool) -> bool {
    let mut frame = context.new_frame();
    let bytes = size_of::<T>();
    for (index, (plane, from)) in frame.planes.iter_mut().zip(&picture.planes).enumerate() {
        let [width, _] =
            if index == 0 { picture.size } else { picture.layout.chroma(picture.size) };
        plane.copy_from_raw_u8(from, width as usize * bytes, bytes);
    }
    let frame_type_override = if is_key { FrameTypeOverride::Key } else { FrameTypeOverride::No };
    let parameters = FrameParameters { frame_type_override, ..FrameParameters::default() };
    context.send_frame((frame, parameters)).is_ok()
}

fn receive<T: Pixel>(context: &mut Context<T>) -> Result<(Vec<u8>, bool), EncoderStatus> {
    let packet = context.receive_packet()?;
    Ok((packet.data, packet.frame_type == FrameType::KEY))
}
