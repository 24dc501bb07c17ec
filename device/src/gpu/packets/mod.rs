//! What packets do: one file a family, as in the protocol.

pub mod dispatch;
pub mod fence;
pub mod flow;
pub mod paging;
pub mod transfer;

use super::chip::Chip;
use super::fetch::Stream;
use super::hw_queue::HwQueue;
use super::mmu::Mmu;
use super::partition::Partition;
use super::statistics::Tally;
use super::violation::Violation;
use bellhop_host_kmd::hardware::{AddressSpaceId, Ticket};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::packet::Packet;
use dispatch::{Hang, SpinUntil, XorStream};
use fence::Wait;
use paging::{Clearing, Decompression};
use transfer::{Comparison, Copying, Filling, Hashing};

/// Bytes of one of an engine's buffers: small enough for two to stay in its L1 cache.
const BUFFER: usize = 8192;

/// An engine's own buffers, for bytes that it must look at.
#[derive(Debug)]
pub struct Scratch {
    first: Box<[u8; BUFFER]>,
    second: Box<[u8; BUFFER]>,
}

impl Scratch {
    /// Two buffers.
    pub fn new() -> Self {
        Self { first: Box::new([0; BUFFER]), second: Box::new([0; BUFFER]) }
    }
}

/// What a packet can reach.
pub struct Context<'a> {
    /// The rest of the GPU.
    pub chip: &'a Chip,
    /// The engine that executes it.
    pub engine: u32,
    /// What that engine is made for.
    pub engine_type: EngineType,
    /// The guest whose packet it is.
    pub partition: &'a Partition,
    /// The process whose packet it is.
    pub space: AddressSpaceId,
    /// Whether it is the host's own, in the guest's system context.
    pub is_system: bool,
    /// Its queue.
    pub queue: &'a HwQueue,
    /// What the packet before was.
    pub before: Before,
    /// The process's memory.
    pub mmu: Mmu<'a>,
    /// The engine's buffers.
    pub scratch: &'a mut Scratch,
    /// What to count.
    pub tally: &'a mut Tally,
}

/// What a packet was, as far as the next wants to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Before {
    /// Nothing that matters.
    #[default]
    Other,
    /// A wait that held the queue.
    Held(Wait),
    /// It has logged a signal of the fence in this slot.
    Logged(u32),
}

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

/// What a queue waits for. When it may be there, the engine's attention is raised.
#[derive(Debug, Clone, Copy)]
pub enum Hold {
    /// A fence.
    Fence(Wait),
    /// A flush of all TLBs.
    Flush(Ticket),
}

impl Hold {
    /// Whether the queue can go on.
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
        Packet::IndirectBuffer(packet) => return flow::indirect_buffer(packet),
        Packet::SignalFence(packet) => return fence::signal_fence(context, packet),
        Packet::WaitFence(packet) => return fence::wait_fence(context, packet),
        Packet::ConditionalInterrupt(packet) => {
            return fence::conditional_interrupt(context, packet, before);
        }
        Packet::WriteFence(packet) => return fence::write_fence(context, packet),
        Packet::LogFence(packet) => return fence::log_fence(context, packet, before),
        Packet::WriteData(packet, data) => return transfer::write_data(context, packet, data),
        Packet::Timestamp(packet) => return transfer::timestamp(context, packet),
        Packet::Fill(packet) => Operation::Fill(Filling::new(packet)?),
        Packet::Copy(packet) => Operation::Copy(Copying::new(packet)?),
        Packet::Compare(packet) => Operation::Compare(Comparison::new(packet)?),
        Packet::Hash(packet) => Operation::Hash(Hashing::new(packet)?),
        Packet::Dispatch(packet) => dispatch::dispatch(context, packet)?,
        // Only a system context gets here: see `CommandProcessor`.
        Packet::WritePageTable(packet) => return paging::write_page_table(context, packet),
        Packet::FlushTlb(packet) => return Ok(paging::flush_tlb(context, packet)),
        Packet::Decompress(packet) => Operation::Decompress(Decompression::new(packet)?),
        Packet::ClearMetadata(packet) => Operation::ClearMetadata(Clearing::new(packet)?),
    };
    Ok(Outcome::Begin(operation))
}

/// A packet whose work is proportional to a length. It is done in steps, so that between two of
/// them an engine can attend to something else, and drop the queue.
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
    /// `DISPATCH` of `XOR_STREAM`.
    XorStream(XorStream),
    /// `DISPATCH` of `SPIN_UNTIL`.
    SpinUntil(SpinUntil),
    /// `DISPATCH` of a kernel that hangs.
    Hang(Hang),
    /// `DECOMPRESS`.
    Decompress(Decompression),
    /// `CLEAR_METADATA`.
    ClearMetadata(Clearing),
}

/// How far an operation got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It has gone on by so many bytes.
    Moved(usize),
    /// It is done.
    Finished,
}

impl Operation {
    /// Goes on by at most `limit` bytes, which is not 0 and a multiple of 8: a step then ends at
    /// the range's end, at a page's or at a multiple of 8.
    ///
    /// # Errors
    /// What the packet did wrong. What came before that is done.
    pub fn step(&mut self, context: &mut Context<'_>, limit: usize) -> Result<Progress, Violation> {
        match self {
            Self::Fill(fill) => fill.step(context, limit),
            Self::Copy(copy) => copy.step(context, limit),
            Self::Compare(compare) => compare.step(context, limit),
            Self::Hash(hash) => hash.step(context, limit),
            Self::XorStream(kernel) => kernel.step(context, limit),
            Self::SpinUntil(kernel) => kernel.step(context, limit),
            Self::Hang(kernel) => kernel.step(context),
            Self::Decompress(decompress) => decompress.step(context, limit),
            Self::ClearMetadata(clearing) => clearing.step(context, limit),
        }
    }
}

/// How much of a range is done.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    done: u64,
    length: u64,
}

impl Cursor {
    const fn new(length: u64) -> Self {
        Self { done: 0, length }
    }

    /// How many bytes come next, at most `limit`; `None` when all are done.
    fn next(&self, limit: usize) -> Option<usize> {
        let left = self.length.saturating_sub(self.done);
        let next = usize::try_from(left).unwrap_or(usize::MAX).min(limit);
        (next != 0).then_some(next)
    }

    fn advance(&mut self, bytes: usize) -> Progress {
        self.done = self.done.saturating_add(bytes as u64);
        Progress::Moved(bytes)
    }

    fn finish(&mut self) {
        self.done = self.length;
    }
}
