// SPDX-License-Identifier: MIT OR Apache-2.0

//! A session with its queue and its memory.

use super::error::VideoError;
use crate::adapter::Adapter;
use crate::commands::command_buffer::CommandBuffer;
use crate::device::Device;
use crate::error::Error;
use crate::memory::mapping::GpuMapping;
use crate::queue::fallback::FallbackQueue;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::kernel::unpadded;
use bellhop_protocol::control::video::{
    CreateVideoSession, DestroyVideoSession, VIDEO_DECODES, VIDEO_ENCODES, VideoSessionCreated,
};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::video::{Video, VideoFlags, VideoResult, VideoStatus};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// How long a packet may take before the program gives up. The device ends one that hangs long before.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of the ring, and of the one command buffer.
const BYTES: u64 = 4096;

/// What a session has on the device. Destroyed with it.
struct Created {
    device: Device,
    handle: Handle,
}

impl Drop for Created {
    fn drop(&mut self) {
        // An unreachable device has already forgotten it.
        let _ = self.device.session().call(&DestroyVideoSession { session: self.handle });
    }
}

/// A session with its queue, and memory for one picture, one temporal unit and the status.
pub(super) struct Session {
    // Dropped in this order: nothing executes any more when the session ends.
    queue: FallbackQueue,
    commands: CommandBuffer,
    _created: Created,
    number: u32,
    opcode: Opcode,
    pub(super) picture: GpuMapping,
    pub(super) bitstream: GpuMapping,
    status: GpuMapping,
}

/// What goes into a packet.
pub(super) struct Packet {
    pub(super) flags: VideoFlags,
    pub(super) pitch: u32,
    pub(super) bitstream_size: u32,
    pub(super) time: u64,
}

impl Session {
    /// Creates a session, but for its node, with this much room.
    pub(super) fn create(
        adapter: &Adapter,
        device: &Device,
        request: CreateVideoSession,
        encodes: bool,
        (picture, bitstream): (u64, u64),
    ) -> Result<Self, VideoError> {
        let caps = adapter.video_caps()?;
        let (flag, engine_type, opcode) = if encodes {
            (VIDEO_ENCODES, EngineType::VIDEO_ENCODE, Opcode::VIDEO_ENCODE)
        } else {
            (VIDEO_DECODES, EngineType::VIDEO_DECODE, Opcode::VIDEO_DECODE)
        };
        if caps.flags & flag == 0 {
            let missing = match unpadded(&caps.missing) {
                "" => "the adapter has video nodes of the other kind alone",
                missing => missing,
            };
            return Err(VideoError::NotOffered { missing: missing.to_owned() });
        }
        let node = adapter.least_used_node(engine_type)?;
        let request = CreateVideoSession { device: device.handle(), node, ..request };
        let VideoSessionCreated { session, number, .. } = device.session().call(&request)?;
        let created = Created { device: device.clone(), handle: session };
        let memory = |bytes: u64| {
            let size = bytes.max(1).next_multiple_of(PAGE_SIZE);
            let allocation = device.create_allocation(AllocationKind::SYSTEM, size)?;
            allocation.map(Protection::WRITE)
        };
        let (picture, bitstream, status) = (memory(picture)?, memory(bitstream)?, memory(1)?);
        let queue = device.create_context(node)?.create_fallback_queue(BYTES)?;
        let commands = CommandBuffer::new(device, BYTES as usize)?;
        Ok(Self { queue, commands, _created: created, number, opcode, picture, bitstream, status })
    }

    /// The number by which packets name it.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Executes a packet, and returns what came of it. A packet whose output has no room is an error.
    pub(super) fn execute(&mut self, packet: &Packet) -> Result<VideoStatus, VideoError> {
        let Packet { flags, pitch, bitstream_size, time } = *packet;
        let size = |mapping: &GpuMapping| u32::try_from(mapping.size()).unwrap_or(u32::MAX);
        let video = Video {
            pitch,
            picture: self.picture.gpu_va(),
            picture_size: size(&self.picture),
            bitstream_size,
            bitstream: self.bitstream.gpu_va(),
            time,
            ..Video::new(self.opcode, self.number, flags, self.status.gpu_va())
        };
        self.commands.reset();
        self.commands.raw(video.as_bytes())?;
        let submission = self.queue.submit(&mut self.commands)?;
        self.queue.wait(submission, TIMEOUT)?;
        let mut bytes = [0; size_of::<VideoStatus>()];
        self.status.allocation().read(0, &mut bytes)?;
        let bad = || Error::BadReply(bellhop_protocol::control::RequestCode::CREATE_VIDEO_SESSION);
        let status = VideoStatus::read_from_bytes(&bytes).map_err(|_| bad())?;
        match status.result {
            VideoResult::DONE | VideoResult::NEEDS_MORE | VideoResult::END => Ok(status),
            VideoResult::CORRUPT => Err(VideoError::Corrupt),
            VideoResult::TOO_LARGE => {
                Err(VideoError::TooLarge { size: [status.width, status.height] })
            }
            VideoResult::FORMAT_MISMATCH => {
                Err(VideoError::FormatMismatch { bit_depth: status.bit_depth })
            }
            VideoResult::NO_ROOM => Err(VideoError::NoRoom { bytes: status.bytes }),
            VideoResult::REFUSED => Err(VideoError::Refused),
            VideoResult::LOST => Err(VideoError::Lost),
            _ => Err(bad().into()),
        }
    }
}
