// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command processor (CP): executes the packets of rings and indirect buffers.
//!
//! Between its turns, a queue's progress is kept here, in host memory. A turn is bounded in packets and in bytes,
//! so that no queue holds its engine for long.
//!
//! Source: "Ring Buffers and the CP" of the Windows KMD overview.

mod burst;
mod gather;
mod lookahead;
mod ring;

use super::fetch::{Fetched, Stream, Window, Windows};
use super::packets::context::{Before, Context, Scratch};
use super::packets::fence::{Signals, signal_progress};
use super::packets::progress::Progress;
use super::packets::{Hold, Left, Operation, execute};
use super::workers::Workers;
use crate::gpu::memory::compression::Blocks;
use crate::gpu::memory::copy;
use crate::gpu::memory::drawn::Strokes;
use crate::gpu::memory::mmu::Access;
use crate::gpu::memory::pins::{Pinned, Use};
use crate::gpu::memory::prefetch::Stride;
use crate::gpu::memory::tlb::Tlb;
use crate::gpu::memory::violation::Violation;
use crate::gpu::security;
use crate::gpu::shared::hw_queue::{HwQueue, Role};
use bellhop_host_kmd::hardware::{Fault, KernelSubmission};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::doorbell::RingPointers;
use bellhop_protocol::handoff::doorbell_line::DoorbellLine;
use bellhop_protocol::packet::flow::MAX_INDIRECT_DEPTH;
use bellhop_protocol::packet::{Opcode, UNIT};
use bellhop_protocol::ring::READ_POINTER_OFFSET;
use burst::{Burst, Reads};
use lookahead::next_commands;
pub use ring::Ring;
use std::time::Duration;

/// The most packets in a turn.
const TURN_PACKETS: u32 = 256;
/// The most bytes in a turn.
const TURN_BYTES: usize = 1 << 20;
/// The most bytes in a step. Copies in steps of 1 MiB had a tenth less bandwidth.
const STEP_BYTES: usize = 512 << 10;

/// What an engine needs to execute packets of any queue.
#[derive(Debug)]
pub struct CommandProcessor {
    /// Cached translations.
    pub tlb: Tlb,
    /// Scratch buffers.
    pub scratch: Scratch,
    /// The codec's buffers.
    pub blocks: Blocks,
    /// What a turn drew into pictures that somebody watches.
    pub strokes: Strokes,
    /// Windows for fetching packets.
    pub windows: Windows,
    /// The processes that execute kernels, if the engine has any.
    pub workers: Option<Box<Workers>>,
    /// The way to the worker with the keys, if the engine is a security node's.
    pub security: Option<Box<security::unit::SecurityUnit>>,
}

impl CommandProcessor {
    /// For how long the engine has waited for other processes since the last call.
    #[cold]
    pub fn take_waited(&mut self) -> Duration {
        let workers = self.workers.as_mut().map(|workers| workers.take_waited());
        let security = self.security.as_mut().map(|security| security.take_waited());
        workers.unwrap_or_default() + security.unwrap_or_default()
    }

    /// A unit with empty caches.
    pub fn new(workers: Option<Workers>, security: Option<security::unit::SecurityUnit>) -> Self {
        copy::choose();
        Self {
            tlb: Tlb::new(),
            scratch: Scratch::new(),
            blocks: Blocks::new(),
            strokes: Strokes::default(),
            windows: std::array::from_fn(|_| Window::new()),
            workers: workers.map(Box::new),
            security: security.map(Box::new),
        }
    }
}

/// What a queue does after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The queue has no work left.
    Idle,
    /// The queue wants another turn.
    Runnable,
    /// The queue waits for a fence, a flush or a worker.
    Blocked,
}

/// How far a turn got with bursts alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortTurn {
    /// The turn is over.
    Over(Turn),
    /// The turn continues after this many packets.
    GoesOn(u32),
}

/// The progress of a queue.
#[derive(Debug)]
pub struct Execution {
    /// The queue's ring.
    pub ring: Option<Ring>,
    /// The buffers in execution, outermost first.
    stack: [Stream; MAX_INDIRECT_DEPTH],
    depth: usize,
    /// The packet in execution; `NOP` if there is none.
    opcode: Opcode,
    /// Position in the ring of that packet, or of the packet that named its buffer.
    packet_start: u64,
    /// The work that the packet left.
    left: Left,
    /// What the next packet must know of the last one.
    before: Before,
    /// The kernel-mode submission that is complete when the stack is empty.
    submission: Option<Submission>,
    /// The number of kernel-mode submissions that were started.
    submissions: u64,
    /// Whether `queue.submissions` may hold more: the control plane kicks the queue after it adds one.
    may_have_submissions: bool,
    /// Whether nothing is started and no submissions are there: what the next packets are, the ring alone says.
    has_ring_alone: bool,
    /// The queue's state when it was last seen to make progress.
    mark: Mark,
    /// Engine time since then, in turns after which the queue was still runnable.
    stalled: Duration,
    /// The addresses of the buffers that the ring names.
    buffers: Stride,
    /// Where the last burst found its packets.
    reads: Reads,
}

/// The values that change while a queue makes progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark {
    read_pointer: u64,
    /// The position of the packet, in the host's own buffers only: none of their packets takes long.
    packet: u64,
    submissions: u64,
    progress_fence: u64,
}

impl Execution {
    /// A queue that has executed no packets.
    pub fn new() -> Self {
        Self {
            ring: None,
            stack: [Stream::EMPTY; MAX_INDIRECT_DEPTH],
            depth: 0,
            opcode: Opcode::NOP,
            packet_start: 0,
            left: Left::default(),
            before: Before::Other,
            submission: None,
            submissions: 0,
            may_have_submissions: true,
            has_ring_alone: false,
            mark: Mark::default(),
            stalled: Duration::ZERO,
            buffers: Stride::default(),
            reads: Reads::default(),
        }
    }

    /// Whether there is work, beside what `queue.submissions` holds.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.has_ring_work() || self.is_busy()
    }

    /// Whether the engine is in the middle of a packet that takes several turns.
    #[inline]
    pub fn is_in_packet(&self) -> bool {
        self.left.operation.is_some()
    }

    /// Charges the queue for a turn after which it was still runnable. The time that it waits for fences and for
    /// other queues' turns does not count. Returns a hang if the charge exceeds `limit` and meanwhile the read
    /// pointer and the progress fence did not move, no kernel-mode submission of the queue started, and no packet
    /// of a paging buffer did.
    pub fn charge(&mut self, queue: &HwQueue, time: Duration, limit: Duration) -> Option<Fault> {
        let progress_fence = queue
            .progress_fence()
            .and_then(|slot| queue.partition.fence(slot))
            .map(|fence| fence.cell.current());
        let mark = Mark {
            read_pointer: self.ring.as_ref().map_or(0, |ring| ring.stream.position()),
            packet: if queue.is_system() { self.packet_start } else { 0 },
            submissions: self.submissions,
            progress_fence: progress_fence.unwrap_or(0),
        };
        if std::mem::replace(&mut self.mark, mark) != mark {
            self.stalled = Duration::ZERO;
        }
        self.stalled += time;
        if self.stalled <= limit {
            return None;
        }
        let milliseconds = u64::try_from(self.stalled.as_millis()).unwrap_or(u64::MAX);
        // Report the hang again after `limit`.
        self.stalled = Duration::ZERO;
        Some(self.fault(Violation::new(FaultReason::ENGINE_TIMEOUT, milliseconds)))
    }

    /// Whether the engine has started work that is not finished.
    #[inline]
    fn is_busy(&self) -> bool {
        self.depth != 0
            || self.left.operation.is_some()
            || self.left.hold.is_some()
            || self.submission.is_some()
    }

    /// The fault that reports a violation at the queue's current packet.
    pub fn fault(&self, Violation { reason, address }: Violation) -> Fault {
        Fault { reason, opcode: self.opcode, address, read_pointer: self.packet_start }
    }

    /// Reads the write pointer in the ring buffer control, and checks for kernel-mode submissions. Returns whether
    /// there is work.
    ///
    /// # Errors
    /// A page fault, or a pointer that the ring cannot have.
    pub fn look(&mut self, queue: &HwQueue, context: &mut Context<'_>) -> Result<bool, Violation> {
        self.may_have_submissions |= !queue.submissions.is_empty();
        self.has_ring_alone &= !self.may_have_submissions;
        if let Some(ring) = &mut self.ring {
            // Acquires the packets that were written before the write pointer.
            let written = ring.pointers(context, Access::Read).map(|pointers| pointers.written());
            if let Err(violation) = written.and_then(|written| ring.stream.extend(written)) {
                self.leave_unless_busy();
                return Err(violation);
            }
        }
        Ok(self.has_work() || !queue.submissions.is_empty())
    }

    /// The doorbell rang with a write pointer. Its line may hold the packets before it. Returns whether there is work.
    ///
    /// # Errors
    /// A pointer that the ring cannot have.
    #[inline]
    pub fn rung(&mut self, write: u64, line: Option<DoorbellLine<'_>>) -> Result<bool, Violation> {
        let Some(ring) = &mut self.ring else { return Ok(false) };
        if let Some(line) = line {
            // The only read of the line.
            line.read(write, ring.stream.position(), &mut ring.line);
        }
        if let Err(violation) = ring.stream.extend(write) {
            self.leave_unless_busy();
            return Err(violation);
        }
        Ok(self.has_work())
    }

    /// The addresses that the engine is about to read after a ring, if it reads as in the last turn: the ring's next
    /// packet and, as a guess, the buffer that this packet names. Packets that come in the doorbell's line are read
    /// nowhere else, and the guest keeps its lines.
    #[inline]
    pub fn foreseen(&self) -> impl Iterator<Item = (Use, u64)> {
        let ring = self.ring.as_ref().filter(|_| self.reads.ring);
        let packet = ring.map(|ring| (Use::Ring, ring.stream.next_packet()));
        let buffer = self.reads.buffer.then(|| (Use::Buffer, self.buffers.next()));
        packet.into_iter().chain(buffer)
    }

    /// Executes packets as far as a burst gets, which needs less state than [`Self::turn`]. Then the turn is over,
    /// or it continues after the returned number of packets.
    ///
    /// # Errors
    /// As [`Self::turn`].
    #[inline]
    pub fn short_turn(
        &mut self,
        signals: &mut Signals<'_>,
        pinned: &Pinned<'_>,
    ) -> Result<ShortTurn, Violation> {
        let mut packets = 0;
        if !self.has_ring_alone || !signals.chip.bursts {
            return Ok(ShortTurn::GoesOn(packets));
        }
        let burst = self.burst(signals, pinned, &mut packets, TURN_PACKETS);
        signals.tally.packets += u64::from(packets);
        if packets > 0 {
            self.before = Before::Other;
        }
        let turn = match burst {
            Ok(Burst::Other | Burst::Missing(..)) => return Ok(ShortTurn::GoesOn(packets)),
            Ok(Burst::Empty) => Ok(Turn::Idle),
            Ok(Burst::Limit) => Ok(Turn::Runnable),
            Err(violation) => Err(violation),
        };
        // Make the signals of the packets before a fault.
        if let Err(violation) = signals.make_held() {
            if turn.is_ok() {
                self.leave_packet();
            }
            return Err(violation);
        }
        let turn = turn?;
        let Some(ring) = &mut self.ring else { return Ok(ShortTurn::Over(turn)) };
        let position = ring.stream.position();
        if ring.published != position {
            let read = ring.binding.control_va + READ_POINTER_OFFSET;
            let Some(page) = pinned.get(Use::Control, read, true) else {
                return Ok(ShortTurn::GoesOn(packets));
            };
            // The guest may overwrite what lies before the read pointer: it was read.
            RingPointers::consume_at(page.word(read), position);
            ring.published = position;
        }
        Ok(ShortTurn::Over(turn))
    }

    /// Executes packets until there are none left, the queue must wait, or the turn is over. `packets` is the
    /// number that the turn has already executed.
    ///
    /// # Errors
    /// The rule that the queue broke: no more of its packets are executed.
    pub fn turn(
        &mut self,
        queue: &HwQueue,
        context: &mut Context<'_>,
        windows: &mut Windows,
        packets: u32,
    ) -> Result<Turn, Violation> {
        context.before = std::mem::take(&mut self.before);
        let turn = self.execute(queue, context, windows, packets);
        // Make the signals of the packets before a fault.
        context.signals.make_held()?;
        let turn = turn?;
        self.before = context.before;
        self.has_ring_alone = !self.may_have_submissions && !self.is_busy();
        if let Some(ring) = &mut self.ring
            && ring.published != ring.stream.position()
        {
            // The guest may overwrite what lies before the read pointer: it was fetched.
            ring.pointers(context, Access::Write)?.consume(ring.stream.position());
            ring.published = ring.stream.position();
        }
        Ok(turn)
    }

    #[inline]
    fn execute(
        &mut self,
        queue: &HwQueue,
        context: &mut Context<'_>,
        windows: &mut Windows,
        mut packets: u32,
    ) -> Result<Turn, Violation> {
        let mut moved = 0;
        let mut has_windows = false;
        loop {
            if self.left.operation.is_some() || self.left.hold.is_some() {
                self.look_ahead(context, windows);
                match self.go_on(context, &mut moved)? {
                    Turn::Idle => {}
                    turn => return Ok(turn),
                }
            }
            if packets >= TURN_PACKETS || moved >= TURN_BYTES {
                return Ok(Turn::Runnable);
            }
            while let Some(buffer) = self.depth.checked_sub(1).map(|top| &self.stack[top])
                && buffer.is_empty()
            {
                self.depth -= 1;
            }
            if self.depth == 0 && self.submission.is_none() && context.chip.bursts {
                let before = packets;
                let (signals, pinned) = (&mut context.signals, context.mmu.pinned());
                let burst = self.burst(signals, pinned, &mut packets, TURN_PACKETS);
                signals.tally.packets += u64::from(packets - before);
                if packets > before {
                    context.before = Before::Other;
                }
                match burst? {
                    Burst::Empty if !self.may_have_submissions => {
                        self.leave_packet();
                        return Ok(Turn::Idle);
                    }
                    Burst::Limit => return Ok(Turn::Runnable),
                    Burst::Missing(what, gpu_va)
                        if context.mmu.page(what, gpu_va, Access::Read).is_some() =>
                    {
                        continue;
                    }
                    _ => {}
                }
                if self.depth > 0 {
                    // The window may hold bytes of another buffer at this depth.
                    windows[self.depth].clear();
                }
            }
            // The next packets may take long.
            context.time_turn();
            if !std::mem::replace(&mut has_windows, true) {
                // The windows may hold another queue's packets.
                windows.iter_mut().for_each(Window::clear);
            }
            match self.next_packet(queue, context, windows)? {
                0 => return Ok(Turn::Idle),
                executed => packets += executed,
            }
        }
    }

    /// While a worker executes commands, and nothing else wants the engine: tells the worker of those that follow.
    #[cold]
    fn look_ahead(&mut self, context: &mut Context<'_>, windows: &mut Windows) {
        let Some(Operation::Commands(commands)) = &mut self.left.operation else { return };
        if !commands.may_be_followed() || context.others.is_none() {
            return;
        }
        // A kernel-mode submission is complete before the ring goes on.
        let ring = self.ring.as_ref().filter(|_| self.submission.is_none());
        let ring = ring.and_then(|ring| ring.written(context).ok()).unwrap_or(Stream::EMPTY);
        let next = next_commands(context, windows, self.stack, self.depth, ring);
        // They hold what was only looked at.
        windows.iter_mut().for_each(Window::clear);
        if let Some(next) = next {
            commands.follow_with(context, &next);
        }
    }

    /// Continues the work that the last packet left. Returns `Idle` when it is done.
    #[inline(never)]
    fn go_on(&mut self, context: &mut Context<'_>, moved: &mut usize) -> Result<Turn, Violation> {
        context.time_turn();
        while let Some(operation) = &mut self.left.operation {
            if *moved >= TURN_BYTES {
                return Ok(Turn::Runnable);
            }
            let limit = (TURN_BYTES - *moved).min(STEP_BYTES).next_multiple_of(UNIT);
            match operation.step(context, limit)? {
                Progress::Moved(bytes) => {
                    *moved += bytes;
                    context.signals.tally.bytes += bytes as u64;
                }
                Progress::Finished => {
                    let finished = self.left.operation.take();
                    if let Some(Operation::Commands(mut commands)) = finished {
                        self.left.next = commands.take_next();
                    }
                }
                Progress::TurnIsOver => return Ok(Turn::Runnable),
                Progress::Waits => return Ok(Turn::Blocked),
            }
        }
        if let Some(wait) = self.left.hold {
            if !wait.is_over(context)? {
                return Ok(Turn::Blocked);
            }
            self.left.hold = None;
            if let Hold::Fence(wait) = wait {
                context.before = Before::Held(wait);
            }
        }
        Ok(Turn::Idle)
    }

    /// Attributes a later fault to no packet: the next packet is in the ring.
    #[cold]
    fn leave_packet(&mut self) {
        self.opcode = Opcode::NOP;
        self.packet_start = self.ring.as_ref().map_or(0, |ring| ring.stream.position());
    }

    /// The ring is invalid: attributes the fault to no packet, unless one is in execution.
    #[cold]
    fn leave_unless_busy(&mut self) {
        if !self.is_busy() {
            self.leave_packet();
        }
    }

    /// Whether the ring has packets.
    #[inline]
    fn has_ring_work(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| !ring.stream.is_empty())
    }

    /// Executes the next packet, or starts the next submission. Returns the number of packets to count; 0 if there
    /// is none.
    fn next_packet(
        &mut self,
        queue: &HwQueue,
        context: &mut Context<'_>,
        windows: &mut Windows,
    ) -> Result<u32, Violation> {
        self.opcode = Opcode::NOP;
        let window = &mut windows[self.depth];
        let stream = match self.depth.checked_sub(1) {
            Some(top) => &mut self.stack[top],
            None => {
                if let Some(submission) = self.submission.take() {
                    context.signals.make_held()?;
                    submission.complete(queue, context)?;
                }
                self.packet_start = self.ring.as_ref().map_or(0, |ring| ring.stream.position());
                match &mut self.ring {
                    Some(ring) if !ring.stream.is_empty() => &mut ring.stream,
                    _ => return self.next_submission(queue, windows),
                }
            }
        };
        if context.is_system && self.depth == 1 {
            // A system context has no ring: its packets are in its paging buffer.
            self.packet_start = stream.position();
        }
        // In a guest's queue, a privileged opcode is unknown, whatever else is wrong with the packet.
        let is_unknown = |opcode: Opcode| opcode.is_privileged() && !context.is_system;
        let unknown =
            |opcode: Opcode| Violation::new(FaultReason::UNKNOWN_PACKET, u64::from(opcode.0));
        let Fetched { packet, opcode, size } =
            window.packet(&mut context.mmu, stream).map_err(|bad| {
                self.opcode = bad.opcode;
                if is_unknown(bad.opcode) { unknown(bad.opcode) } else { bad.violation }
            })?;
        stream.advance(size);
        self.opcode = opcode;
        if is_unknown(opcode) {
            return Err(unknown(opcode));
        }
        context.signals.tally.packets += 1;
        if let Some(buffer) = execute(&packet, context, &mut self.left)?
            && (!buffer.is_empty() || self.depth == MAX_INDIRECT_DEPTH)
        {
            self.enter(buffer)?;
            windows[self.depth].clear();
        }
        if let Some(Operation::Kernel(_)) = &self.left.operation {
            return Ok(1 + self.gather(context, windows));
        }
        Ok(1)
    }

    /// Starts to execute a buffer's packets. The window of the new depth may hold bytes of another buffer.
    #[inline]
    fn enter(&mut self, buffer: Stream) -> Result<(), Violation> {
        let too_deep = FaultReason::INDIRECT_BUFFER_TOO_DEEP;
        let top = self.stack.get_mut(self.depth);
        *top.ok_or(Violation::new(too_deep, buffer.base()))? = buffer;
        self.depth += 1;
        Ok(())
    }

    /// Starts the next command buffer that was submitted in kernel mode. It has the depth of a buffer that a ring
    /// names.
    fn next_submission(
        &mut self,
        queue: &HwQueue,
        windows: &mut Windows,
    ) -> Result<u32, Violation> {
        if !self.may_have_submissions {
            return Ok(0);
        }
        let Some(submission) = queue.submissions.pop() else {
            self.may_have_submissions = false;
            return Ok(0);
        };
        self.submissions += 1;
        let KernelSubmission { gpu_va, size, progress_fence_value, submission_fence } = submission;
        self.submission = Some(Submission { progress_fence_value, submission_fence });
        self.enter(Stream::indirect_buffer(gpu_va, size)?)?;
        windows[self.depth].clear();
        Ok(1)
    }

    /// The fence of the kernel-mode submission in execution.
    pub fn submission_fence(&self) -> Option<u64> {
        self.submission.map(|submission| submission.submission_fence)
    }

    /// Drops the submission in execution. Returns its fence.
    pub fn abandon(&mut self) -> Option<u64> {
        let submission = self.submission.take();
        *self = Self { ring: self.ring.take(), ..Self::new() };
        submission.map(|submission| submission.submission_fence)
    }
}

/// What the engine does after the packets of a kernel-mode submission.
#[derive(Debug, Clone, Copy)]
struct Submission {
    progress_fence_value: u64,
    submission_fence: u64,
}

impl Submission {
    /// Signals the progress fence and interrupts for the submission fence. In a system context, reports that the
    /// paging buffer is complete.
    fn complete(self, queue: &HwQueue, context: &mut Context<'_>) -> Result<(), Violation> {
        match queue.role {
            Role::System => {
                let interrupts = &context.chip.interrupts;
                context.partition.paging().complete(self.submission_fence, interrupts);
            }
            Role::Guest { progress_fence, .. } => {
                // First: as soon as a guest sees its progress fence, it may ask for what the submission held, and
                // the control plane then looks here.
                let is_news = queue.complete(self.submission_fence);
                let signaled = signal_progress(context, progress_fence, self.progress_fence_value);
                if is_news {
                    context.chip.interrupts.raise_completed(queue.id);
                }
                signaled?;
            }
        }
        Ok(())
    }
}
