// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the engines and the control plane share of the whole GPU.

use super::busy::Busy;
use super::fence_table::Fence;
use super::hw_queue::HwQueue;
use super::interrupt::Interrupts;
use super::partition::Partition;
use super::statistics::Tally;
use super::trace_log::TraceLog;
use super::uses::Connects;
use super::wake::Wake;
use super::watching::WatchedAt;
use crate::gpu::memory::page_table::NodePool;
use crate::gpu::shared::config::GpuConfig;
use arc_swap::ArcSwapOption;
use bellhop_host_kmd::hardware::{EngineState, HwQueueId, Interrupt, Ticket};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::FenceLogEntry;
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::fence::{FenceWords, SignalRule, Signaled};
use bellhop_protocol::handoff::pending::PendingSet;
use bellhop_protocol::handoff::power::PowerSwitch;
use bellhop_protocol::handoff::quiescence::{Passed, Tickets};
use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Bits of an engine's attention word.
pub mod attention {
    /// Some queue is watched from now on, or no more.
    pub const WATCHES: u64 = 1 << 0;
    /// Some queue was kicked.
    pub const KICK: u64 = 1 << 1;
    /// A fence that a queue waits for was signaled or destroyed.
    pub const FENCE: u64 = 1 << 2;
    /// A ticket was drawn.
    pub const QUIESCE: u64 = 1 << 3;
    /// The engine's thread must end.
    pub const STOP: u64 = 1 << 4;
    /// The engine must turn its power on or off.
    pub const POWER: u64 = 1 << 5;
    /// Some queue was pre-empted.
    pub const PREEMPT: u64 = 1 << 6;
    /// A reset was asked for.
    pub const RESET: u64 = 1 << 7;
    /// The engine must forget its translations, which are valid, so that it walks page tables again.
    pub const LOOK: u64 = 1 << 8;
}

/// Bits of what an engine reports about itself: `DXGK_ENGINE_STATE`.
pub mod engine_state {
    /// The engine refused to give up its power because it has work:
    /// [`EnginePort::power`](super::EnginePort::power) has the transition that it refused.
    pub const ACTIVE: u64 = 1 << 0;
    /// The engine was idle for the configured time.
    pub const TRANSITION_TO_F1: u64 = 1 << 1;
    /// The engine was reset.
    pub const RESET: u64 = 1 << 2;
}

/// What ends a packet that an engine is stuck in. A kind does all that smaller kinds do; 0 is no reset.
pub mod reset {
    /// A reset of the engine.
    pub const ENGINE: u64 = 1;
    /// A reset of the adapter.
    pub const ADAPTER: u64 = 2;
    /// The end of the GPU.
    pub const STOP: u64 = 3;
}

/// How the control plane and other engines reach an engine.
#[derive(Debug)]
pub struct EnginePort {
    /// Polled by the engine, so it has a cache line of its own.
    pub attention: CachePadded<Attention>,
    /// Signaled at most once for each of the engine's sleeps; a kick may wake the engine instead.
    pub wake: Wake,
    /// Queues whose rings the engine looks for elsewhere now, or no more. Each is here at most once, as
    /// [`HwQueue::watching`] says, before `WATCHES` is raised for it, and costs the engine the same however many it
    /// watches.
    pub watch_changes: SegQueue<Arc<HwQueue>>,
    /// Kicked queues. Each is here at most once, as [`HwQueue::kicked`] says.
    pub kicks: SegQueue<Arc<HwQueue>>,
    /// Pre-empted queues. The control plane suspends a queue before it adds the queue.
    pub preempted: SegQueue<Arc<HwQueue>>,
    /// The latest ticket that the engine has passed.
    pub passed: Passed,
    /// The power that the engine was asked for. The control plane asks before it raises `POWER`; the engine
    /// refuses before it interrupts.
    pub power: PowerSwitch,
    /// What the engine reported and the control plane has not taken: bits of [`engine_state`].
    pub states: PendingSet,
    /// Times that the engine woke.
    pub wakeups: AtomicU64,
    /// Times that the engine yielded its processor while it looked for work.
    pub yields: AtomicU64,
    /// The reset that was asked for: see [`reset`].
    reset: AtomicU64,
    /// The engine's turns. Only the engine writes them.
    pub turns: CachePadded<Turns>,
    /// The engine's trace log, while a tool traces.
    trace_log: ArcSwapOption<TraceLog>,
}

/// The turns that an engine gives to queues.
#[derive(Debug, Default)]
pub struct Turns {
    begun: AtomicU64,
    /// Id of the queue that has the turn; 0 between turns.
    executing: AtomicU64,
    /// Engine time that turns took.
    busy: Busy,
}

impl Turns {
    /// Engine: the turn is timed from `now` on, on the adapter's clock, until [`Self::end_timed`].
    #[inline]
    pub fn time(&self, queue: &HwQueue, now: u64) {
        self.busy.begin(now);
        queue.busy.begin(now);
    }

    /// Engine: the turn that is timed takes until `now`.
    #[inline]
    pub fn end_timed(&self, queue: &HwQueue, now: u64) {
        queue.busy.end(now);
        self.busy.end(now);
    }

    /// Engine: begins a queue's turn. Relaxed, as all here: a reader only looks for values that stand still.
    #[inline]
    pub fn begin(&self, queue: &HwQueue) {
        self.executing.store(queue.id.0, Ordering::Relaxed);
        // One writer, so that no read-modify-write is needed.
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Engine: ends the queue's turn.
    #[inline]
    pub fn end(&self) {
        self.executing.store(0, Ordering::Relaxed);
    }

    /// Nanoseconds that all turns took, until now on the adapter's clock.
    pub fn busy_time(&self, now: impl FnOnce() -> u64) -> u64 {
        self.busy.read(now)
    }

    /// The number of turns that began, and the queue that has the turn.
    pub fn read(&self) -> (u64, Option<HwQueueId>) {
        let executing = self.executing.load(Ordering::Relaxed);
        (self.begun.load(Ordering::Relaxed), (executing != 0).then_some(HwQueueId(executing)))
    }
}

impl EnginePort {
    fn new() -> io::Result<Self> {
        Ok(Self {
            attention: CachePadded::new(Attention::new()),
            wake: Wake::new()?,
            watch_changes: SegQueue::new(),
            kicks: SegQueue::new(),
            preempted: SegQueue::new(),
            passed: Passed::new(),
            power: PowerSwitch::new(),
            states: PendingSet::new(),
            wakeups: AtomicU64::new(0),
            yields: AtomicU64::new(0),
            reset: AtomicU64::new(0),
            turns: CachePadded::default(),
            trace_log: ArcSwapOption::empty(),
        })
    }

    /// Engine: writes an entry to the trace log, if a tool traces. Only the engine writes.
    #[inline(never)]
    pub fn trace(&self, entry: FenceLogEntry) {
        if let Some(log) = self.trace_log.load().as_deref().and_then(TraceLog::get) {
            // The entry of a turn is written after the entries of what happened in the turn.
            log.write(zerocopy::transmute!(entry));
        }
    }

    /// Control plane: the engine's trace log.
    pub fn trace_log(&self) -> Option<Arc<TraceLog>> {
        self.trace_log.load_full()
    }

    /// Control plane: gives the engine a trace log, or takes the trace log away.
    pub fn set_trace_log(&self, log: Option<TraceLog>) {
        let before = self.trace_log.swap(log.map(Arc::new));
        // The engine may be writing an entry, and must not be the thread that frees the log.
        while before.as_ref().is_some_and(|log| Arc::strong_count(log) > 1) {
            std::thread::yield_now();
        }
    }

    /// Asks for a [`reset`]. Relaxed, as all that is done with the word: nothing comes with a reset, and the
    /// engine acquires the request itself with its attention.
    pub fn reset(&self, kind: u64) {
        // Stored before the attention is raised: the engine clears it after it took the attention.
        self.reset.fetch_max(kind, Ordering::Relaxed);
        self.raise(attention::RESET);
    }

    /// Ends the engine's thread, and what it is stuck in.
    pub fn stop(&self) {
        self.reset.fetch_max(reset::STOP, Ordering::Relaxed);
        self.raise(attention::STOP);
    }

    /// Engine: whether a reset of this kind or a stronger one was asked for.
    pub fn is_reset(&self, kind: u64) -> bool {
        self.reset.load(Ordering::Relaxed) >= kind
    }

    /// Called by an engine that saw a reset request; clears it unless a stronger one arrived. A stronger one
    /// raises the engine's attention again, and the end of the GPU stays.
    pub fn end_reset(&self) {
        let kind = self.reset.load(Ordering::Relaxed);
        if kind != reset::STOP {
            let _ = self.reset.compare_exchange(kind, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Control plane: what this engine, the node's, reported since the last call.
    pub fn take_states(&self, node: u32) -> impl Iterator<Item = Interrupt> + use<> {
        let states = self.states.take();
        let is_active = states & engine_state::ACTIVE != 0;
        let refused = is_active.then(|| self.power.take_refusal()).flatten();
        let wants_f1 = states & engine_state::TRANSITION_TO_F1 != 0;
        let told = [
            refused.map(|transition| EngineState::Active { transition }),
            wants_f1.then_some(EngineState::TransitionToF1),
        ];
        let told = told.into_iter().flatten();
        let was_reset = states & engine_state::RESET != 0;
        was_reset
            .then_some(Interrupt::EngineReset { node })
            .into_iter()
            .chain(told.map(move |new_state| Interrupt::GpuEngineStateChange { node, new_state }))
    }

    /// Has the engine look at a queue, which is the engine's: at its ring, at its kernel-mode submissions, and
    /// at whether it is destroyed.
    pub fn kick(&self, queue: &Arc<HwQueue>) {
        if queue.kicked.mark() {
            self.kicks.push(Arc::clone(queue));
        }
        self.raise(attention::KICK);
    }

    /// Control plane: changes where the engine looks for a queue's rings.
    pub fn change_watch(&self, queue: &Arc<HwQueue>, at: Option<WatchedAt>) {
        if queue.watching.change(at) {
            self.watch_changes.push(Arc::clone(queue));
            self.raise(attention::WATCHES);
        }
    }

    /// Asks for the engine's attention and wakes it if it sleeps.
    pub fn raise(&self, bits: u64) {
        if self.attention.raise(bits) {
            self.wake.signal();
        }
    }
}

/// The parts that all engines share.
#[derive(Debug)]
pub struct Chip {
    /// The engines, by node.
    pub engines: Box<[EnginePort]>,
    /// The page-table pages of all address spaces.
    pub nodes: Arc<NodePool>,
    /// The interrupt line.
    pub interrupts: Arc<Interrupts>,
    /// Whether kernels that hang are executed.
    pub test_kernels: bool,
    /// Whether engines execute the packets of most submissions in bursts.
    pub bursts: bool,
    /// Whether interrupts for signals that are logged name the queue.
    pub optimized_fence_interrupt: bool,
    /// Doorbells that were connected, by which uses of them are ordered.
    pub connects: Connects,
    logging_level: AtomicU32,
    tickets: Tickets,
    /// How often engines were asked to forget translations so that they note accesses anew.
    rescans: AtomicU64,
    /// How often the memory of any guest was replaced.
    memory_changes: AtomicU64,
    /// The latest ticket that has passed on every engine, as a fence that engines wait for.
    flushed: FenceWords,
    epoch: Instant,
}

impl Chip {
    /// A GPU of `engines` engines that do not run yet.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new(
        engines: usize,
        nodes: Arc<NodePool>,
        interrupts: Arc<Interrupts>,
        config: &GpuConfig,
    ) -> io::Result<Self> {
        let engines = (0..engines).map(|_| EnginePort::new()).collect::<io::Result<_>>()?;
        let (tickets, rescans) = (Tickets::new(), AtomicU64::new(0));
        let logging_level = AtomicU32::new(LoggingLevel::DEFAULT.0);
        let flushed = FenceWords::new(0, SignalRule::Monotonic);
        let epoch = Instant::now();
        Ok(Self {
            engines,
            nodes,
            interrupts,
            test_kernels: config.test_kernels,
            bursts: config.bursts,
            optimized_fence_interrupt: config.optimized_fence_interrupt,
            connects: Connects::default(),
            logging_level,
            tickets,
            rescans,
            memory_changes: AtomicU64::new(0),
            flushed,
            epoch,
        })
    }

    /// The adapter's clock: nanoseconds since the GPU was made.
    #[inline]
    pub fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Engine: whether a tool traces.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.logging_level() == LoggingLevel::VERBOSE
    }

    /// Control plane: gives each engine a trace log of `entries` entries; false when there is no memory for
    /// them.
    pub fn begin_trace(&self, entries: u32) -> bool {
        let logs: Option<Vec<_>> = self.engines.iter().map(|_| TraceLog::new(entries)).collect();
        let Some(logs) = logs else { return false };
        self.engines.iter().zip(logs).for_each(|(port, log)| port.set_trace_log(Some(log)));
        true
    }

    /// Control plane: sets the logging level.
    pub fn set_logging_level(&self, level: LoggingLevel) {
        // Relaxed: nothing else comes with it, and an engine may see it late.
        self.logging_level.store(level.0, Ordering::Relaxed);
    }

    /// The logging level.
    #[inline]
    pub fn logging_level(&self) -> LoggingLevel {
        LoggingLevel(self.logging_level.load(Ordering::Relaxed))
    }

    /// Control plane: see `Hardware::quiesce`. Engine: begins a flush, and then asks
    /// [`Self::has_flushed`]. A caller that has something forgotten has told the guest's partition before.
    pub fn quiesce(&self) -> Ticket {
        let ticket = self.tickets.draw();
        for engine in &self.engines {
            engine.raise(attention::QUIESCE);
        }
        Ticket(ticket)
    }

    /// Control plane, before it draws a ticket: counts a replaced guest memory.
    pub fn change_memory(&self) {
        // The ticket hands the count over.
        self.memory_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Engine, after it read [`Self::latest_ticket`]: how often guest memory was replaced.
    pub fn memory_changes(&self) -> u64 {
        self.memory_changes.load(Ordering::Relaxed)
    }

    /// Control plane: see `Hardware::forget_translations`. No engine is woken for it.
    pub fn forget_translations(&self) {
        self.rescans.fetch_add(1, Ordering::Relaxed);
        for engine in self.engines.iter().filter(|engine| !engine.attention.is_asleep()) {
            engine.raise(attention::LOOK);
        }
    }

    /// Engine: how often [`Self::forget_translations`] was asked for.
    pub fn rescans(&self) -> u64 {
        self.rescans.load(Ordering::Relaxed)
    }

    /// Engine, before it forgets: the latest ticket.
    pub fn latest_ticket(&self) -> u64 {
        self.tickets.latest()
    }

    /// Engine `port`: has forgotten up to `ticket`; interrupts when it was the last to.
    pub fn passed(&self, port: &EnginePort, ticket: u64) {
        let all = self.engines.iter().map(|engine| &engine.passed);
        if let Some(passed) = port.passed.pass(ticket, all) {
            self.interrupts.raise_quiesced();
            // Only engines read this fence, so it is published nowhere. If the fence is further already, the
            // engine that signaled it has called those that wait for less.
            if let Ok(signaled) = self.flushed.cell().signal(None, passed) {
                self.release_waiters(signaled.engines);
            }
        }
    }

    /// Engine `engine`: whether every engine has passed the ticket. If not, this one's attention is
    /// raised when they have.
    pub fn has_flushed(&self, engine: u32, ticket: Ticket) -> bool {
        self.flushed.cell().wait(engine, ticket.0)
    }

    /// The latest ticket that has passed on every engine.
    pub fn quiesced(&self) -> Ticket {
        Ticket(Passed::on_all(self.engines.iter().map(|engine| &engine.passed)))
    }

    /// Engine `port`: reports to the control plane.
    pub fn change_state(&self, port: &EnginePort, state: u64) {
        port.states.mark(state);
        self.interrupts.raise_engine_states();
    }

    /// Makes the engines named by `bits` look again at the queues that wait for fences.
    pub fn release_waiters(&self, bits: u64) {
        for (index, engine) in self.engines.iter().enumerate() {
            if bits & 1 << index != 0 {
                engine.raise(attention::FENCE);
            }
        }
    }

    /// Engine: calls the engines and raises the interrupt that a signal set off.
    #[inline]
    pub fn deliver(
        &self,
        partition: &Partition,
        fence: &Fence<'_>,
        signaled: Signaled,
        tally: &mut Tally,
    ) {
        if signaled.engines != 0 {
            self.release_waiters(signaled.engines);
        }
        if signaled.interrupt {
            self.interrupt(partition, fence, tally);
        }
    }

    #[cold]
    fn interrupt(&self, partition: &Partition, fence: &Fence<'_>, tally: &mut Tally) {
        // The guest first: it waits for this, and the control plane tells it of what it may know by then.
        if self.interrupts.raise_fence(partition.id(), *fence, || partition.nudge()) {
            tally.interrupts += 1;
        }
    }

    /// Engine: as [`Self::deliver`] for the signal that the queue logged last; the interrupt names the queue.
    pub fn deliver_logged(&self, queue: &HwQueue, signaled: Signaled, tally: &mut Tally) {
        if signaled.engines != 0 {
            self.release_waiters(signaled.engines);
        }
        if signaled.interrupt && queue.logged.mark() {
            tally.interrupts += 1;
            queue.partition.nudge();
            let guest = queue.partition.id();
            if !self.interrupts.raise_logged(guest, queue.id, queue.engine) {
                // The queue's next signal raises again.
                queue.logged.take();
            }
        }
    }
}
