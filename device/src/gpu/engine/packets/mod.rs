// SPDX-License-Identifier: MIT OR Apache-2.0

//! What packets do: one file for each family, as in the protocol.

pub mod context;
pub mod dispatch;
pub mod fence;
pub mod flow;
pub mod paging;
pub mod progress;
pub mod transfer;

use super::fetch::Stream;
use crate::gpu::memory::violation::Violation;
use bellhop_host_kmd::hardware::Ticket;
use bellhop_protocol::packet::Packet;
use context::{Context, Wait};
use dispatch::KernelRun;
use paging::{Clearing, Decompression};
use progress::Progress;
use transfer::{Comparison, Copying, Filling, Hashing};

/// What a packet leaves to do.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing.
    Done,
    /// The packets of another buffer.
    Enter(Stream),
    /// Something long, step by step.
    Begin(Operation),
    /// To wait.
    Hold(Hold),
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
    /// What [`Wait::is_over`] says.
    pub fn is_over(&self, context: &Context<'_>) -> Result<bool, Violation> {
        match self {
            Self::Fence(wait) => wait.is_over(context),
            Self::Flush(ticket) => Ok(context.chip.has_flushed(context.engine, *ticket)),
        }
    }
}

/// Executes a packet, or begins to.
///
/// # Errors
/// What the packet did wrong.
#[inline]
pub fn execute(packet: &Packet<'_>, context: &mut Context<'_>) -> Result<Outcome, Violation> {
    let before = std::mem::take(&mut context.before);
    let operation = match packet {
        Packet::Nop => return Ok(Outcome::Done),
        Packet::IndirectBuffer(packet) => {
            return flow::indirect_buffer(packet).map(Outcome::Enter);
        }
        Packet::SignalFence(packet) => return done(fence::signal_fence(context, packet)),
        Packet::WaitFence(packet) => {
            let wait = fence::wait_fence(context, packet)?;
            return Ok(wait.map_or(Outcome::Done, |wait| Outcome::Hold(Hold::Fence(wait))));
        }
        Packet::ConditionalInterrupt(packet) => {
            return done(fence::conditional_interrupt(context, packet, before));
        }
        Packet::WriteFence(packet) => return done(fence::write_fence(context, packet)),
        Packet::LogFence(packet) => return done(fence::log_fence(context, packet, before)),
        Packet::WriteData(packet, data) => {
            return done(transfer::write_data(context, packet, data));
        }
        Packet::Timestamp(packet) => return done(transfer::timestamp(context, packet)),
        Packet::Fill(packet) => Operation::Fill(Filling::new(packet)?),
        Packet::Copy(packet) => Operation::Copy(Copying::new(packet)?),
        Packet::Compare(packet) => Operation::Compare(Comparison::new(packet)?),
        Packet::Hash(packet) => Operation::Hash(Hashing::new(packet)?),
        Packet::Dispatch(packet) => Operation::Dispatch(dispatch::dispatch(context, packet)?),
        // Only a system context gets here: see `CommandProcessor`.
        Packet::WritePageTable(packet) => return done(paging::write_page_table(context, packet)),
        Packet::FlushTlb(packet) => {
            let flush = paging::flush_tlb(context, packet);
            return Ok(flush.map_or(Outcome::Done, |ticket| Outcome::Hold(Hold::Flush(ticket))));
        }
        Packet::Decompress(packet) => Operation::Decompress(Decompression::new(packet)?),
        Packet::ClearMetadata(packet) => Operation::ClearMetadata(Clearing::new(packet)?),
    };
    Ok(Outcome::Begin(operation))
}

/// What is left of a packet that was executed at once.
#[inline]
fn done(executed: Result<(), Violation>) -> Result<Outcome, Violation> {
    executed.map(|()| Outcome::Done)
}

/// A packet with work that is proportional to a length. The engine does it in steps; between two steps it can
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
    /// `DISPATCH`.
    Dispatch(KernelRun),
    /// `DECOMPRESS`.
    Decompress(Decompression),
    /// `CLEAR_METADATA`.
    ClearMetadata(Clearing),
}

impl Operation {
    /// Processes at most `limit` bytes, which is not 0 and a multiple of 8: a step then ends at the range's
    /// end, at a page's end or at a multiple of 8.
    ///
    /// # Errors
    /// What the packet did wrong. What came before that is done.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        match self {
            Self::Fill(fill) => fill.step(context, limit),
            Self::Copy(copy) => copy.step(context, limit),
            Self::Compare(compare) => compare.step(context, limit),
            Self::Hash(hash) => hash.step(context, limit),
            Self::Dispatch(kernel) => kernel.step(context, limit),
            Self::Decompress(decompress) => decompress.step(context, limit),
            Self::ClearMetadata(clearing) => clearing.step(context, limit),
        }
    }
}
