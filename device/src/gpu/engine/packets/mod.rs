// SPDX-License-Identifier: MIT OR Apache-2.0

//! What packets do: one file for each family, as in the protocol.

mod commands;
pub mod context;
pub mod dispatch;
pub mod fence;
pub mod flow;
pub mod kernel;
pub mod paging;
pub mod progress;
pub mod security;
pub mod stretch;
pub mod surface;
pub mod transfer;
mod video;

use super::fetch::Stream;
use crate::gpu::memory::violation::Violation;
use bellhop_host_kmd::hardware::Ticket;
use bellhop_protocol::packet::Packet;
pub use commands::{Commands, Next};
use context::{Context, Wait};
use dispatch::KernelRun;
use kernel::KernelBatch;
use paging::{Clearing, Decompression};
use progress::Progress;
use security::Securing;
use stretch::Stretching;
use surface::{RectCopying, RectFilling};
use transfer::{Comparison, Copying, Filling, Hashing};
use video::VideoWork;

/// The work that a packet leaves for later. It is kept in the queue, since it is large and most packets leave none.
#[derive(Debug, Default)]
pub struct Left {
    /// A long operation, executed in steps.
    pub operation: Option<Operation>,
    /// A wait.
    pub hold: Option<Hold>,
    /// The commands that a worker goes on with, though their packet is yet to come.
    pub next: Option<Box<Next>>,
}

/// What a queue waits for. The engine's attention is raised when the wait may be over.
#[derive(Debug, Clone, Copy)]
pub enum Hold {
    /// A fence.
    Fence(Wait),
    /// A flush of all TLBs.
    Flush(Ticket),
}

impl Hold {
    /// Whether the wait is over.
    ///
    /// # Errors
    /// As [`Wait::is_over`].
    pub fn is_over(&self, context: &Context<'_>) -> Result<bool, Violation> {
        match self {
            Self::Fence(wait) => wait.is_over(context),
            Self::Flush(ticket) => {
                let guest = context.partition.id();
                Ok(context.chip.has_flushed(context.engine, guest, *ticket))
            }
        }
    }
}

/// Executes a packet, or starts to. Returns the buffer that comes next, if the packet names one.
///
/// # Errors
/// The rule that the packet broke.
pub fn execute(
    packet: &Packet<'_>,
    context: &mut Context<'_>,
    left: &mut Left,
) -> Result<Option<Stream>, Violation> {
    let before = std::mem::take(&mut context.before);
    match packet {
        Packet::Nop => return Ok(None),
        Packet::IndirectBuffer(packet) => return flow::indirect_buffer(packet).map(Some),
        Packet::SignalFence(packet) => {
            let (slot, value) = (packet.slot(), packet.value);
            if !context.signals.hold(slot, value) {
                context.signals.signal(slot, value)?;
            }
            return Ok(None);
        }
        _ => context.signals.make_held()?,
    }
    match packet {
        Packet::Nop | Packet::IndirectBuffer(_) | Packet::SignalFence(_) => {}
        Packet::WaitFence(packet) => {
            left.hold = fence::wait_fence(context, packet)?.map(Hold::Fence);
        }
        Packet::ConditionalInterrupt(packet) => {
            fence::conditional_interrupt(context, packet, before)?;
        }
        Packet::WriteFence(packet) => fence::write_fence(context, packet)?,
        Packet::LogFence(packet) => fence::log_fence(context, packet, before)?,
        Packet::WriteData(packet, data) => transfer::write_data(context, packet, data)?,
        Packet::Timestamp(packet) => transfer::timestamp(context, packet)?,
        Packet::Fill(packet) => left.operation = Some(Operation::Fill(Filling::new(packet)?)),
        Packet::Copy(packet) => {
            left.operation = transfer::copy_bytes(context, packet)?.map(Operation::Copy);
        }
        Packet::Compare(packet) => {
            left.operation = Some(Operation::Compare(Comparison::new(packet)?));
        }
        Packet::Hash(packet) => left.operation = Some(Operation::Hash(Hashing::new(packet)?)),
        Packet::CopyRect(packet) => {
            left.operation = Some(Operation::CopyRect(RectCopying::new(packet)?));
        }
        Packet::FillRect(packet) => {
            left.operation = Some(Operation::FillRect(RectFilling::new(packet)?));
        }
        Packet::StretchRect(packet) => {
            left.operation = Some(Operation::StretchRect(Stretching::new(context, packet)?));
        }
        Packet::Dispatch(packet) => {
            left.operation = Some(Operation::Dispatch(dispatch::dispatch(context, packet)?));
        }
        Packet::DispatchKernel(packet) => {
            left.next = None;
            left.operation = Some(Operation::Kernel(Box::new(KernelBatch::new(context, packet)?)));
        }
        Packet::ExecuteCommands(packet) => {
            let commands = Commands::new(context, packet, left.next.take())?;
            left.operation = commands.map(|commands| Operation::Commands(Box::new(commands)));
        }
        Packet::VideoDecode(packet) | Packet::VideoEncode(packet) => {
            left.operation = Some(Operation::Video(Box::new(VideoWork::new(context, packet)?)));
        }
        Packet::Seal(packet) => {
            left.operation = Some(Operation::Secure(Securing::seal(context, packet)?));
        }
        Packet::Open(packet) => {
            left.operation = Some(Operation::Secure(Securing::open(context, packet)?));
        }
        Packet::Attest(packet) => {
            left.operation = Some(Operation::Secure(Securing::attest(context, packet)?));
        }
        // Only a system context gets here: see `Execution::next_packet`.
        Packet::WritePageTable(packet) => paging::write_page_table(context, packet)?,
        Packet::FlushTlb(packet) => {
            left.hold = paging::flush_tlb(context, packet).map(Hold::Flush);
        }
        Packet::Decompress(packet) => {
            left.operation = Some(Operation::Decompress(Decompression::new(packet)?));
        }
        Packet::ClearMetadata(packet) => {
            left.operation = Some(Operation::ClearMetadata(Clearing::new(packet)?));
        }
    }
    Ok(None)
}

/// A packet with work that is proportional to a length. The engine executes it in steps; between two steps it can
/// attend to something else and drop the queue.
#[derive(Debug)]
pub enum Operation {
    /// `FILL`.
    Fill(Filling),
    /// `COPY`.
    Copy(Copying),
    /// `COMPARE`.
    Compare(Comparison),
    /// `HASH`.
    Hash(Hashing),
    /// `COPY_RECT`.
    CopyRect(RectCopying),
    /// `FILL_RECT`.
    FillRect(RectFilling),
    /// `STRETCH_RECT`.
    StretchRect(Stretching),
    /// `DISPATCH`.
    Dispatch(KernelRun),
    /// `DISPATCH_KERNEL`, and those that follow it.
    Kernel(Box<KernelBatch>),
    /// `EXECUTE_COMMANDS`.
    Commands(Box<Commands>),
    /// `VIDEO_DECODE` and `VIDEO_ENCODE`.
    Video(Box<VideoWork>),
    /// `SEAL`, `OPEN` or `ATTEST`.
    Secure(Securing),
    /// `DECOMPRESS`.
    Decompress(Decompression),
    /// `CLEAR_METADATA`.
    ClearMetadata(Clearing),
}

impl Operation {
    /// Processes at most `limit` bytes. `limit` is a multiple of 8 and not 0, so that a step ends at the range's
    /// end, at a page's end or at a multiple of 8.
    ///
    /// # Errors
    /// The rule that the packet broke. What was processed before stays.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        match self {
            Self::Fill(fill) => fill.step(context, limit),
            Self::Copy(copy) => copy.step(context, limit),
            Self::Compare(compare) => compare.step(context, limit),
            Self::Hash(hash) => hash.step(context, limit),
            Self::CopyRect(copy) => copy.step(context, limit),
            Self::FillRect(fill) => fill.step(context, limit),
            Self::StretchRect(stretch) => stretch.step(context),
            Self::Dispatch(kernel) => kernel.step(context, limit),
            Self::Kernel(batch) => batch.step(context),
            Self::Commands(commands) => commands.step(context),
            Self::Video(work) => work.step(context),
            Self::Secure(securing) => securing.step(context),
            Self::Decompress(decompress) => decompress.step(context, limit),
            Self::ClearMetadata(clearing) => clearing.step(context, limit),
        }
    }
}
