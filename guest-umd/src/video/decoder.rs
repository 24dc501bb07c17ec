// SPDX-License-Identifier: MIT OR Apache-2.0

//! Decoding: an AV1 stream to pictures.

use super::error::VideoError;
use super::picture::Picture;
use super::session::{Packet, Session};
use crate::adapter::Adapter;
use crate::device::Device;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::video::{CreateVideoSession, MAX_BITSTREAM, VideoFormat};
use bellhop_protocol::packet::video::{VideoFlags, VideoResult, VideoStatus};

/// What a decoder decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderSettings {
    /// How pictures are to lie in memory. Its bit depth must be the stream's.
    pub format: VideoFormat,
    /// The greatest width and height of a picture.
    pub size: [u32; 2],
    /// Most bytes of a temporal unit.
    pub unit: u32,
}

/// Decodes an AV1 stream. The example of [`VideoEncoder`](super::VideoEncoder) decodes too.
pub struct VideoDecoder {
    session: Session,
    settings: DecoderSettings,
}

impl VideoDecoder {
    /// Creates a decoder, with a queue on the decode node that the program uses least.
    ///
    /// # Errors
    /// [`VideoError::NotOffered`] if the device decodes nothing; if it refuses the settings, or has no session left.
    pub fn new(
        adapter: &Adapter,
        device: &Device,
        settings: DecoderSettings,
    ) -> Result<Self, VideoError> {
        let DecoderSettings { format, size, unit } = settings;
        // The session gives it its device and node.
        let request = CreateVideoSession::decoding(Handle(0), 0, format, size);
        let unit = unit.min(MAX_BITSTREAM);
        let room = (Picture::length(format, size), unit.into());
        let session = Session::create(adapter, device, request, false, room)?;
        Ok(Self { session, settings: DecoderSettings { unit, ..settings } })
    }

    /// The number by which packets name the session.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.session.number()
    }

    /// Decodes a temporal unit, and returns the next picture, if there is one.
    ///
    /// # Errors
    /// What is wrong with the stream, as [`VideoError`] says.
    pub fn decode(&mut self, unit: &[u8], time: u64) -> Result<Option<Picture>, VideoError> {
        let size = u32::try_from(unit.len()).unwrap_or(u32::MAX);
        if size > self.settings.unit {
            return Err(VideoError::NoRoom { bytes: unit.len() as u64 });
        }
        self.session.bitstream.allocation().write(0, unit)?;
        self.execute(VideoFlags::empty(), size, time)
    }

    /// The next picture of what was decoded so far. `None` if there is none left.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn drain(&mut self) -> Result<Option<Picture>, VideoError> {
        self.execute(VideoFlags::DRAIN, 0, 0)
    }

    /// Forgets everything that was decoded: the stream goes on elsewhere, with a key frame.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn flush(&mut self) -> Result<(), VideoError> {
        self.execute(VideoFlags::FLUSH, 0, 0).map(drop)
    }

    fn execute(
        &mut self,
        flags: VideoFlags,
        bitstream_size: u32,
        time: u64,
    ) -> Result<Option<Picture>, VideoError> {
        let DecoderSettings { format, size, .. } = self.settings;
        let pitch = format.least_pitch(size[0]);
        let status = self.session.execute(&Packet { flags, pitch, bitstream_size, time })?;
        if status.result != VideoResult::DONE {
            return Ok(None);
        }
        let VideoStatus { width, height, time, .. } = status;
        let size = [width, height];
        let mut lying = vec![0; VideoFormat::bytes(height, pitch) as usize];
        self.session.picture.allocation().read(0, &mut lying)?;
        Ok(Some(Picture { format, size, bytes: without_gaps(&lying, format, size, pitch), time }))
    }
}

/// The bytes of a picture with a longer pitch than it needs.
fn without_gaps(lying: &[u8], format: VideoFormat, size: [u32; 2], pitch: u32) -> Vec<u8> {
    let row = format.least_pitch(size[0]) as usize;
    let (pitch, height) = (pitch as usize, size[1] as usize);
    let is_planar = [VideoFormat::I420, VideoFormat::I010].contains(&format);
    let (luma, chroma) = lying.split_at((pitch * height).min(lying.len()));
    let mut bytes = Vec::with_capacity(Picture::length(format, size) as usize);
    let parts = if is_planar { (pitch / 2, row / 2) } else { (pitch, row) };
    for (plane, (pitch, row)) in [(luma, (pitch, row)), (chroma, parts)] {
        plane.chunks_exact(pitch.max(1)).for_each(|from| bytes.extend_from_slice(&from[..row]));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_rows_are_left_out() {
        // 2 x 2 samples with a pitch of 4: luma, then U and V.
        let interleaved = [1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0];
        let bytes = without_gaps(&interleaved, VideoFormat::NV12, [2, 2], 4);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6]);
        let planar = [1, 2, 0, 0, 3, 4, 0, 0, 5, 0, 6, 0];
        let bytes = without_gaps(&planar, VideoFormat::I420, [2, 2], 4);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6]);
    }
}
