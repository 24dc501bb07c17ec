// SPDX-License-Identifier: MIT OR Apache-2.0

//! Encoding: pictures to an AV1 stream.

use super::error::VideoError;
use super::picture::Picture;
use super::session::{Packet, Session};
use crate::adapter::Adapter;
use crate::device::Device;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::video::{
    CreateVideoSession, MAX_BITSTREAM, RateControl, VideoFormat,
};
use bellhop_protocol::packet::video::{STATUS_KEY_FRAME, VideoFlags, VideoResult};

/// What decides how many bits an encoder makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderRate {
    /// As many as this quantizer needs: 0 is the best, 255 the smallest.
    Quantizer(u8),
    /// About this number a second.
    BitsPerSecond(u32),
}

/// What an encoder makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncoderSettings {
    /// How pictures lie in memory, and so the stream's bit depth.
    pub format: VideoFormat,
    /// Width and height of each picture, 16 at least.
    pub size: [u32; 2],
    /// Pictures a second: numerator and denominator.
    pub frame_rate: [u32; 2],
    /// What decides how many bits an encoder makes.
    pub rate: EncoderRate,
    /// Most pictures from a key frame to the next; 0: as many as there are.
    pub key_frame_interval: u32,
    /// How much time a picture may take: 0, the slowest, to 10.
    pub speed: u32,
}

/// A temporal unit of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemporalUnit {
    /// Its OBUs.
    pub data: Vec<u8>,
    /// The time of its picture.
    pub time: u64,
    /// Whether a decoder can begin with it.
    pub is_key: bool,
}

/// Encodes an AV1 stream.
///
/// # Example
///
/// ```no_run
#[doc = include_str!("../../examples/video.rs")]
/// ```
pub struct VideoEncoder {
    session: Session,
    settings: EncoderSettings,
}

impl VideoEncoder {
    /// Creates an encoder, with a queue on the encode node that the program uses least.
    ///
    /// # Errors
    /// [`VideoError::NotOffered`] if the device encodes nothing; if it refuses the settings, or has no session left.
    pub fn new(
        adapter: &Adapter,
        device: &Device,
        settings: EncoderSettings,
    ) -> Result<Self, VideoError> {
        let EncoderSettings { format, size, frame_rate, rate, key_frame_interval, speed } =
            settings;
        let (rate_control, rate) = match rate {
            EncoderRate::Quantizer(quantizer) => (RateControl::QUANTIZER, quantizer.into()),
            EncoderRate::BitsPerSecond(bits) => (RateControl::BITS_PER_SECOND, bits),
        };
        let request = CreateVideoSession {
            rate_control,
            rate,
            frame_rate_numerator: frame_rate[0],
            frame_rate_denominator: frame_rate[1],
            key_frame_interval,
            speed,
            // The session gives it its device and node.
            ..CreateVideoSession::decoding(Handle(0), 0, format, size)
        };
        let picture = Picture::length(format, size);
        // A unit that is larger than its picture and some headers is better not encoded at all.
        let unit = (2 * picture + 4096).min(MAX_BITSTREAM.into());
        let session = Session::create(adapter, device, request, true, (picture, unit))?;
        Ok(Self { session, settings })
    }

    /// The number by which packets name the session.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.session.number()
    }

    /// Encodes a picture, and returns the next temporal unit, if there is one. With `is_key`, a decoder can begin with the
    /// picture.
    ///
    /// # Errors
    /// [`VideoError::Refused`] if the picture has another format or size, or comes after [`Self::drain`].
    pub fn encode(
        &mut self,
        picture: &Picture,
        is_key: bool,
    ) -> Result<Option<TemporalUnit>, VideoError> {
        let EncoderSettings { format, size, .. } = self.settings;
        let is_whole = picture.bytes.len() as u64 == Picture::length(format, size);
        if picture.format != format || picture.size != size || !is_whole {
            return Err(VideoError::Refused);
        }
        self.session.picture.allocation().write(0, &picture.bytes)?;
        let flags = if is_key { VideoFlags::KEY_FRAME } else { VideoFlags::empty() };
        self.execute(flags, picture.time)
    }

    /// The next temporal unit of what was encoded so far. `None` if there is none left. No picture comes afterwards.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn drain(&mut self) -> Result<Option<TemporalUnit>, VideoError> {
        self.execute(VideoFlags::DRAIN, 0)
    }

    fn execute(
        &mut self,
        flags: VideoFlags,
        time: u64,
    ) -> Result<Option<TemporalUnit>, VideoError> {
        let pitch = self.settings.format.least_pitch(self.settings.size[0]);
        let room = self.session.bitstream.size().min(MAX_BITSTREAM.into()) as u32;
        let packet = Packet { flags, pitch, bitstream_size: room, time };
        let status = self.session.execute(&packet)?;
        if status.result != VideoResult::DONE {
            return Ok(None);
        }
        let mut data = vec![0; status.bytes.min(room.into()) as usize];
        self.session.bitstream.allocation().read(0, &mut data)?;
        let is_key = status.flags & STATUS_KEY_FRAME != 0;
        Ok(Some(TemporalUnit { data, time: status.time, is_key }))
    }
}
