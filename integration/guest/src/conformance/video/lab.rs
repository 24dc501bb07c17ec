// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sessions to try behaviours with, and where there are none, why.

use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::raw;
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::video::units_of;
use bellhop_guest_umd::video::VideoError;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::kernel::unpadded;
use bellhop_protocol::control::video::{
    CreateVideoSession, VIDEO_DECODES, VIDEO_ENCODES, VideoCaps, VideoFormat, VideoSessionCreated,
};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::video::{Video, VideoFlags, VideoResult, VideoStatus};
use zerocopy::{FromBytes, IntoBytes};

/// The size of the pictures of both streams.
pub(super) const SIZE: [u32; 2] = [64, 48];
/// Where things are in a bench's memory.
pub(super) const BITSTREAM: u64 = 0;
pub(super) const STATUS: u64 = 64 << 10;
pub(super) const PICTURE: u64 = 128 << 10;
/// Bytes for a bitstream, and for a picture.
pub(super) const BITSTREAM_ROOM: u32 = 64 << 10;
pub(super) const PICTURE_ROOM: u32 = 128 << 10;

/// A stream, and what Debian's dav1d makes of it: the XXH64 of all pictures, planes without gaps.
pub(super) struct Stream {
    file: &'static [u8],
    pub(super) format: VideoFormat,
    pub(super) hash: u64,
}

/// Six pictures of 8 bits; the first and the fifth are key frames. Made by `bellhop video encode`.
pub(super) const EIGHT: Stream = Stream {
    file: include_bytes!("eight.ivf"),
    format: VideoFormat::I420,
    hash: 0xcc14_2b7d_b52e_5620,
};
/// The same with 10 bits.
pub(super) const TEN: Stream = Stream {
    file: include_bytes!("ten.ivf"),
    format: VideoFormat::I010,
    hash: 0x5c5c_3493_8e89_48d5,
};

impl Stream {
    /// Its temporal units.
    pub(super) fn units(&self) -> Result<Vec<&'static [u8]>, Mismatch> {
        units_of(self.file).map_err(|error| Mismatch::Seen(error.to_string()))
    }
}

impl From<VideoError> for Mismatch {
    fn from(error: VideoError) -> Self {
        match error {
            VideoError::NotOffered { missing } => Self::NotOffered(format!("no video: {missing}")),
            VideoError::Device(error) => error.into(),
            error => Self::Seen(error.to_string()),
        }
    }
}

/// What sessions can be here. "Not offered", with the device's reason, if there are none of both kinds.
pub(super) fn caps(scene: &Scene) -> Result<VideoCaps, Mismatch> {
    let caps = scene.adapter().video_caps()?;
    if caps.flags == VIDEO_DECODES | VIDEO_ENCODES {
        return Ok(caps);
    }
    Err(Mismatch::NotOffered(format!("no video: {}", unpadded(&caps.missing))))
}

/// A request for a session that decodes.
pub(super) fn decoding(bench: &Bench, node: u32, format: VideoFormat) -> CreateVideoSession {
    CreateVideoSession::decoding(bench.device.handle(), node, format, SIZE)
}

/// And one that encodes.
pub(super) fn encoding(bench: &Bench, node: u32, format: VideoFormat) -> CreateVideoSession {
    CreateVideoSession {
        rate: 40,
        frame_rate_numerator: 25,
        frame_rate_denominator: 1,
        speed: 10,
        ..decoding(bench, node, format)
    }
}

/// A session, with a bench on its node.
pub(super) struct Studio {
    pub(super) bench: Bench,
    pub(super) format: VideoFormat,
    pub(super) created: VideoSessionCreated,
    opcode: Opcode,
}

impl Studio {
    /// A session that decodes pictures of this format.
    pub(super) fn decoding(scene: &Scene, format: VideoFormat) -> Result<Self, Mismatch> {
        Self::new(scene, format, EngineType::VIDEO_DECODE)
    }

    /// A session that encodes.
    pub(super) fn encoding(scene: &Scene, format: VideoFormat) -> Result<Self, Mismatch> {
        Self::new(scene, format, EngineType::VIDEO_ENCODE)
    }

    fn new(scene: &Scene, format: VideoFormat, node: EngineType) -> Result<Self, Mismatch> {
        caps(scene)?;
        let bench = scene.bench_on(node)?;
        let (opcode, request) = if node == EngineType::VIDEO_ENCODE {
            (Opcode::VIDEO_ENCODE, encoding(&bench, scene.node(node)?, format))
        } else {
            (Opcode::VIDEO_DECODE, decoding(&bench, scene.node(node)?, format))
        };
        let created = raw::call(scene.transport(), bench.process.process(), &request)?;
        Ok(Self { bench, format, created, opcode })
    }

    /// A packet of the session, whose picture and bitstream are in the bench's memory.
    pub(super) fn packet(&self, flags: VideoFlags, bitstream_size: u32, time: u64) -> Video {
        let at = |offset| self.bench.va(offset);
        Video {
            pitch: self.format.least_pitch(SIZE[0]),
            picture: at(PICTURE),
            picture_size: PICTURE_ROOM,
            bitstream_size,
            bitstream: at(BITSTREAM),
            time,
            ..Video::new(self.opcode, self.created.number, flags, at(STATUS))
        }
    }

    /// Executes a packet, and returns the status.
    pub(super) fn run(&mut self, packet: &Video) -> Result<VideoStatus, Mismatch> {
        self.bench.commands.reset();
        self.bench.commands.raw(packet.as_bytes())?;
        let value = self.bench.submit()?;
        // A worker may have to start first.
        self.bench.queue.progress_fence().wait(value, TIMEOUT)?;
        self.status()
    }

    /// What the last packet's status is.
    pub(super) fn status(&self) -> Result<VideoStatus, Mismatch> {
        let bytes = self.bench.read(STATUS as usize, size_of::<VideoStatus>())?;
        VideoStatus::read_from_bytes(&bytes).map_err(|_| Mismatch::Seen("no status".into()))
    }

    /// Decodes a temporal unit.
    pub(super) fn decode(&mut self, unit: &[u8], time: u64) -> Result<VideoStatus, Mismatch> {
        self.bench.write(BITSTREAM as usize, unit)?;
        self.run(&self.packet(VideoFlags::empty(), unit.len() as u32, time))
    }

    /// The picture that was decoded last, or is to be encoded: without gaps, since the pitch is the least.
    pub(super) fn picture(&self) -> Result<Vec<u8>, Mismatch> {
        let bytes = VideoFormat::bytes(SIZE[1], self.format.least_pitch(SIZE[0]));
        Ok(self.bench.read(PICTURE as usize, bytes as usize)?)
    }

    /// Decodes a stream, each of whose units has a picture. Returns all of them.
    pub(super) fn decode_all(&mut self, units: &[&[u8]]) -> Result<Vec<u8>, Mismatch> {
        let mut pictures = Vec::new();
        for (unit, time) in units.iter().zip(0..) {
            let status = self.decode(unit, time)?;
            expect(&status, VideoResult::DONE)?;
            require!(status.time == time, "picture {time} has the time {}", status.time);
            let size = [status.width, status.height];
            require!(size == SIZE, "picture {time} has {size:?} samples");
            pictures.extend(self.picture()?);
        }
        Ok(pictures)
    }
}

/// Asserts that a packet had this result.
pub(super) fn expect(status: &VideoStatus, result: VideoResult) -> Result<(), Mismatch> {
    let ended = status.result;
    require!(ended == result, "a packet ended with {ended}, not with {result}");
    Ok(())
}

/// No handle of a session.
pub(super) const NOBODY: Handle = Handle(0x7777);
