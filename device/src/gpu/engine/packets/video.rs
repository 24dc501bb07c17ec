// SPDX-License-Identifier: MIT OR Apache-2.0

//! `VIDEO_DECODE` and `VIDEO_ENCODE`: a session's worker decodes or encodes. What comes of a stream goes into the status;
//! only what concerns the packet itself loses the queue.

use super::context::Context;
use super::progress::Progress;
use crate::gpu::engine::workers::{InFlight, Lost, Start, Task, Wait};
use crate::gpu::memory::mmu::Access;
use crate::gpu::memory::violation::{Violation, aligned};
use crate::gpu::workers::video::VideoSession;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::gpu_va::{GPU_VA_END, GPU_VA_START};
use bellhop_protocol::control::video::{MAX_BITSTREAM, MAX_PICTURE, VideoFormat};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::video::{Video, VideoFlags, VideoResult, VideoStatus};
use bellhop_worker::messages::video::{VideoAnswer, VideoTask};
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// Ranges of addresses that a task reaches: at most the two of picture and bitstream.
type Ranges = ([(u64, u64, Access); 2], usize);

/// A packet in progress. If it is dropped while a worker executes it, the engine ends that worker.
#[derive(Debug)]
pub struct VideoWork {
    session: Arc<VideoSession>,
    task: VideoTask,
    ranges: Ranges,
    status: u64,
    in_flight: Option<InFlight>,
}

impl VideoWork {
    /// Begins a packet.
    ///
    /// # Errors
    /// The rule that the packet broke.
    pub fn new(context: &mut Context<'_>, packet: &Video) -> Result<Self, Violation> {
        let opcode = packet.header.opcode;
        let engine_type = if opcode == bellhop_protocol::packet::Opcode::VIDEO_ENCODE {
            EngineType::VIDEO_ENCODE
        } else {
            EngineType::VIDEO_DECODE
        };
        if context.engine_type != engine_type {
            let opcode = u64::from(opcode.0);
            return Err(Violation::new(FaultReason::NOT_SUPPORTED_BY_NODE, opcode));
        }
        let number = packet.session();
        let none = Violation::new(FaultReason::NO_SUCH_SESSION, number.into());
        let workers = context.workers.as_deref().ok_or(none)?;
        let space = context.queue.space.id();
        // The system context has no sessions.
        let session = workers.session(space, number).filter(|_| !context.is_system);
        let node = context.chip.node_of(context.engine);
        let session = session.filter(|session| session.settings.node == node);
        let session = session.ok_or(none)?;
        let encodes = session.settings.encodes;
        let bad = |value: u64| Violation::new(FaultReason::BAD_VIDEO_ARGUMENTS, value);
        let flags = VideoFlags::from_bits(packet.flags).ok_or(bad(packet.flags.into()))?;
        let impossible = if encodes { VideoFlags::FLUSH } else { VideoFlags::KEY_FRAME };
        let both = VideoFlags::DRAIN | VideoFlags::FLUSH;
        if flags.intersects(impossible) || flags.contains(both) {
            return Err(bad(packet.flags.into()));
        }
        aligned(packet.status, size_of::<u64>() as u64)?;
        let ranges = ranges(packet, flags, encodes)?;
        let task = VideoTask {
            session: session.to_message(),
            flags: flags.bits(),
            pitch: packet.pitch,
            picture: packet.picture,
            picture_size: packet.picture_size.into(),
            bitstream: packet.bitstream,
            bitstream_size: packet.bitstream_size.into(),
            time: packet.time,
        };
        context.time_turn();
        Ok(Self { session, task, ranges, status: packet.status, in_flight: None })
    }

    /// See `Operation::step`. If the worker has not answered at the end of a slice of time, the turn is over.
    ///
    /// # Errors
    /// A page fault. A worker that had begun is killed then.
    pub fn step(&mut self, context: &mut Context<'_>) -> Result<Progress, Violation> {
        match self.go_on(context) {
            Ok(Some(progress)) => Ok(progress),
            Ok(None) => self.tell(context, VideoResult::LOST, &VideoAnswer::default()),
            // Nothing was done, or the worker is killed, which loses the session.
            Err(Lost::Fault(violation)) => Err(violation),
            Err(lost) => {
                tracing::debug!(?lost, session = ?self.session.tenant.id, "a video session is lost");
                self.session.tenant.lose();
                self.tell(context, VideoResult::LOST, &VideoAnswer::default())
            }
        }
    }

    /// `None` if the session was lost before.
    fn go_on(&mut self, context: &mut Context<'_>) -> Result<Option<Progress>, Lost> {
        if self.session.tenant.is_lost() {
            return Ok(None);
        }
        let Some(workers) = context.workers.as_deref_mut() else { return Ok(None) };
        let in_flight = match self.in_flight.take() {
            Some(in_flight) => in_flight,
            None => {
                let (ranges, count) = &self.ranges;
                let ranges = ranges.get(..*count).unwrap_or_default();
                let task = Task { bytes: self.task.as_bytes(), ranges };
                let tenant = &self.session.tenant;
                match workers.begin_task(tenant, context.queue, &context.mmu, task)? {
                    Start::Begun(in_flight) => in_flight,
                    Start::Waits => return Ok(Some(Progress::Waits)),
                }
            }
        };
        let (tenant, others) = (self.session.tenant.id, context.others);
        match workers.wait_for_task(in_flight, tenant, &context.mmu, others) {
            Ok(Wait::GoesOn(in_flight)) => {
                self.in_flight = Some(in_flight);
                Ok(Some(Progress::TurnIsOver))
            }
            Ok(Wait::Done(answer)) => {
                let answer = VideoAnswer::read(&answer).map_err(|malformed| {
                    Lost::Worker(bellhop_worker::owner::WorkerError::Nonsense(malformed))
                })?;
                Ok(Some(self.tell(context, VideoResult(answer.result), &answer)?))
            }
            Err(lost) => Err(lost),
        }
    }

    /// Stores the status.
    fn tell(
        &self,
        context: &mut Context<'_>,
        result: VideoResult,
        answer: &VideoAnswer,
    ) -> Result<Progress, Violation> {
        let status = VideoStatus {
            result,
            flags: answer.is_key,
            bytes: answer.bytes,
            width: answer.size[0],
            height: answer.size[1],
            bit_depth: answer.bit_depth,
            time: answer.time,
            ..VideoStatus::new_zeroed()
        };
        context.mmu.write(self.status, status.as_bytes())?;
        Ok(Progress::Finished)
    }
}

/// The memory that a packet reaches beside its status.
fn ranges(packet: &Video, flags: VideoFlags, encodes: bool) -> Result<Ranges, Violation> {
    let bad = |value: u64| Violation::new(FaultReason::BAD_VIDEO_ARGUMENTS, value);
    let Video { picture, picture_size, bitstream, bitstream_size, pitch, .. } = *packet;
    if picture_size > MAX_PICTURE {
        return Err(bad(picture_size.into()));
    }
    if bitstream_size > MAX_BITSTREAM {
        return Err(bad(bitstream_size.into()));
    }
    if !pitch.is_multiple_of(VideoFormat::NV12.least_pitch(1)) {
        return Err(bad(pitch.into()));
    }
    let goes_in = !flags.intersects(VideoFlags::DRAIN | VideoFlags::FLUSH);
    let comes_out = !flags.contains(VideoFlags::FLUSH);
    let (picture_moves, bitstream_moves) =
        if encodes { (goes_in, comes_out) } else { (comes_out, goes_in) };
    let access = |writes| if writes { Access::Write } else { Access::Read };
    let mut ranges = [(0, 0, Access::Read); 2];
    let mut count = 0;
    for (moves, address, size, access) in [
        (picture_moves, picture, picture_size, access(!encodes)),
        (bitstream_moves, bitstream, bitstream_size, access(encodes)),
    ] {
        if !moves || size == 0 {
            continue;
        }
        let end = address.checked_add(size.into());
        if address < GPU_VA_START || end.is_none_or(|end| end > GPU_VA_END) {
            return Err(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, address));
        }
        ranges[count] = (address, size.into(), access);
        count += 1;
    }
    Ok((ranges, count))
}
