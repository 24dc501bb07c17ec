// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state that the engines and the control plane share for the whole GPU.

use super::busy::Busy;
use super::chain::{Chain, ChainPlace};
use super::fence::table::Fence;
use super::hw_queue::HwQueue;
use super::interrupt::Interrupts;
use super::partition::Partition;
use super::statistics::Tally;
use super::thread::HostThread;
use super::trace_log::TraceLog;
use super::uses::Connects;
use super::wake::Wake;
use super::watching::WatchedAt;
use crate::gpu::memory::page_table::NodePool;
use crate::gpu::shared::config::GpuConfig;
use arc_swap::{ArcSwap, ArcSwapOption};
use bellhop_host_kmd::hardware::{EngineState, GuestId, HwQueueId, Interrupt, Ticket};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::FenceLogEntry;
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::fence::Signaled;
use bellhop_protocol::handoff::pending::PendingSet;
use bellhop_protocol::handoff::power::PowerSwitch;
use bellhop_protocol::handoff::quiescence::Passed;
use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Bits of an engine's attention word.
pub mod attention {
    /// A queue's watch begins, moves or ends.
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
    /// A reset was requested.
    pub const RESET: u64 = 1 << 7;
    /// The engine must drop its translations, although they are valid, so that it walks the page tables again.
    pub const LOOK: u64 = 1 << 8;
    /// The engine must look at its workers.
    pub const WORKERS: u64 = 1 << 9;
    /// The engine must look at its doorbells, which it does whenever it is awake.
    pub const DOORBELLS: u64 = 1 << 10;
}

/// Bits of an engine's report about itself: `DXGK_ENGINE_STATE`.
pub mod engine_state {
    /// The engine refused to give up its power because it has work: [`EnginePort::power`](super::EnginePort::power)
    /// holds the refused transition.
    pub const ACTIVE: u64 = 1 << 0;
    /// The engine was idle for the configured time.
    pub const TRANSITION_TO_F1: u64 = 1 << 1;
    /// The engine was reset.
    pub const RESET: u64 = 1 << 2;
}

/// Kinds of reset, which end the packet that an engine is stuck in. A kind includes all smaller kinds; 0 is no
/// reset.
pub mod reset {
    /// A reset of the engine.
    pub const ENGINE: u64 = 1;
    /// A reset of the adapter.
    pub const ADAPTER: u64 = 2;
    /// The end of the GPU.
    pub const STOP: u64 = 3;
}

/// Guests whose workers may still reach memory, and the latest ticket that has passed for each. A guest may be in it more
/// than once.
pub type Withheld = Vec<(GuestId, Ticket)>;

/// How the control plane and other engines reach an engine.
#[derive(Debug)]
pub struct EnginePort {
    /// Polled by the engine, so it is on a separate cache line.
    pub attention: CachePadded<Attention>,
    /// Signaled at most once per sleep of the engine; a kick may wake the engine instead.
    pub wake: Wake,
    /// Queues with a new or ended watch. [`HwQueue::watching`] ensures that each is here at most once, before
    /// `WATCHES` is raised for it. Its cost to the engine does not depend on the number of watched queues.
    pub watch_changes: SegQueue<Arc<HwQueue>>,
    /// Kicked queues. [`HwQueue::kicked`] ensures that each is here at most once.
    pub kicks: SegQueue<Arc<HwQueue>>,
    /// Pre-empted queues. The control plane suspends a queue before it adds it.
    pub preempted: SegQueue<Arc<HwQueue>>,
    /// The latest ticket that the engine has passed.
    pub passed: Passed,
    /// The guests for which only earlier tickets have passed here. Replaced as a whole, by the engine, before it passes a
    /// ticket: whoever sees that it has sees this too.
    withheld: ArcSwap<Withheld>,
    /// The requested power. The control plane asks before it raises `POWER`; the engine refuses before it
    /// interrupts.
    pub power: PowerSwitch,
    /// The engine's reports that the control plane has not yet taken: bits of [`engine_state`].
    pub states: PendingSet,
    /// Number of the engine's wake-ups.
    pub wakeups: AtomicU64,
    /// Number of times that the engine yielded its processor while it looked for work.
    pub yields: AtomicU64,
    /// The requested reset: see [`reset`].
    reset: AtomicU64,
    /// The engine's thread.
    pub thread: HostThread,
    /// The engine's turns. Only the engine writes them.
    pub turns: CachePadded<Turns>,
    /// The engine's trace log, while a tool traces.
    trace_log: ArcSwapOption<TraceLog>,
}

/// The turns that an engine gives to queues.
#[derive(Debug, Default)]
pub struct Turns {
    begun: AtomicU64,
    /// Id of the queue with the present turn; 0 between turns.
    executing: AtomicU64,
    /// Engine time of all turns.
    busy: Busy,
}

impl Turns {
    /// Engine: starts timing the turn at `now` on the adapter's clock; [`Self::end_timed`] stops it.
    #[inline]
    pub fn time(&self, queue: &HwQueue, now: u64) {
        self.busy.begin(now);
        queue.busy.begin(now);
    }

    /// Engine: ends the timed turn at `now`.
    #[inline]
    pub fn end_timed(&self, queue: &HwQueue, now: u64) {
        queue.busy.end(now);
        self.busy.end(now);
    }

    /// Engine: begins a queue's turn. Relaxed, like all accesses here: readers only detect values that do not
    /// change.
    #[inline]
    pub fn begin(&self, queue: &HwQueue) {
        self.executing.store(queue.id.0, Ordering::Relaxed);
        // With a single writer no read-modify-write is needed.
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Engine: ends the queue's turn.
    #[inline]
    pub fn end(&self) {
        self.executing.store(0, Ordering::Relaxed);
    }

    /// Nanoseconds of all turns, until now on the adapter's clock.
    pub fn busy_time(&self, now: impl FnOnce() -> u64) -> u64 {
        self.busy.read(now)
    }

    /// The number of begun turns, and the queue with the present turn.
    pub fn read(&self) -> (u64, Option<HwQueueId>) {
        let executing = self.executing.load(Ordering::Relaxed);
        (self.begun.load(Ordering::Relaxed), (executing != 0).then_some(HwQueueId(executing)))
    }
}

impl EnginePort {
    /// A port that no engine has yet.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            attention: CachePadded::new(Attention::new()),
            wake: Wake::new()?,
            watch_changes: SegQueue::new(),
            kicks: SegQueue::new(),
            preempted: SegQueue::new(),
            passed: Passed::new(),
            withheld: ArcSwap::default(),
            power: PowerSwitch::new(),
            states: PendingSet::new(),
            wakeups: AtomicU64::new(0),
            yields: AtomicU64::new(0),
            reset: AtomicU64::new(0),
            thread: HostThread::default(),
            turns: CachePadded::default(),
            trace_log: ArcSwapOption::empty(),
        })
    }

    /// Engine: writes an entry to the trace log, if a tool traces. Only the engine writes.
    #[inline(never)]
    pub fn trace(&self, entry: FenceLogEntry) {
        if let Some(log) = self.trace_log.load().as_deref().and_then(TraceLog::get) {
            // A turn's entry follows the entries of the events in the turn.
            log.write(zerocopy::transmute!(entry));
        }
    }

    /// Control plane: the engine's trace log.
    pub fn trace_log(&self) -> Option<Arc<TraceLog>> {
        self.trace_log.load_full()
    }

    /// Control plane: gives the engine a trace log, or removes it.
    pub fn set_trace_log(&self, log: Option<TraceLog>) {
        let before = self.trace_log.swap(log.map(Arc::new));
        // The engine may be writing an entry, and must not be the thread that frees the log.
        while before.as_ref().is_some_and(|log| Arc::strong_count(log) > 1) {
            std::thread::yield_now();
        }
    }

    /// Requests a [`reset`]. Relaxed, like all accesses to the word: a reset hands nothing over, and the engine
    /// acquires the request itself with its attention.
    pub fn reset(&self, kind: u64) {
        // Stored before the attention is raised: the engine clears it after it took the attention.
        self.reset.fetch_max(kind, Ordering::Relaxed);
        self.raise(attention::RESET);
    }

    /// Ends the engine's thread, and any packet that it is stuck in.
    pub fn stop(&self) {
        self.reset.fetch_max(reset::STOP, Ordering::Relaxed);
        self.raise(attention::STOP);
    }

    /// Engine: returns whether a reset of this kind or a stronger one was requested.
    pub fn is_reset(&self, kind: u64) -> bool {
        self.reset.load(Ordering::Relaxed) >= kind
    }

    /// Called by an engine that saw a reset request; clears it unless a stronger one arrived. A stronger one raises
    /// the engine's attention again, and the end of the GPU stays.
    pub fn end_reset(&self) {
        let kind = self.reset.load(Ordering::Relaxed);
        if kind != reset::STOP {
            let _ = self.reset.compare_exchange(kind, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Control plane: takes the reports of this engine, which is the node's, since the last call.
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

    /// Makes the engine look at one of its queues: at the ring, at the kernel-mode submissions, and at whether it
    /// is destroyed.
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

/// The parts that all engines of a GPU share, and those of its chain.
#[derive(Debug)]
pub struct Chip {
    /// The engines of all GPUs of the chain.
    pub engines: Arc<[EnginePort]>,
    /// The page-table pages of all address spaces.
    pub nodes: Arc<NodePool>,
    /// The interrupt line.
    pub interrupts: Arc<Interrupts>,
    /// Whether the kernels that hang are enabled.
    pub test_kernels: bool,
    /// Whether engines execute the packets of most submissions in bursts.
    pub bursts: bool,
    /// Whether interrupts for logged signals name the queue.
    pub optimized_fence_interrupt: bool,
    /// Counts connected doorbells, to order uses of doorbells.
    pub connects: Connects,
    logging_level: AtomicU32,
    /// Number of requests to drop translations so that engines set accessed bits anew.
    rescans: AtomicU64,
    place: ChainPlace,
    epoch: Instant,
}

impl Chip {
    /// The GPU at this place. Its engines are not yet running.
    ///
    /// # Errors
    /// If there is no such place.
    pub fn new(
        place: ChainPlace,
        interrupts: Arc<Interrupts>,
        config: &GpuConfig,
    ) -> io::Result<Self> {
        let nodes = place.chain.pool(place.gpu).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self {
            engines: Arc::clone(&place.chain.engines),
            nodes: Arc::clone(nodes),
            interrupts,
            test_kernels: config.test_kernels,
            bursts: config.bursts,
            optimized_fence_interrupt: config.optimized_fence_interrupt,
            connects: Connects::default(),
            logging_level: AtomicU32::new(LoggingLevel::DEFAULT.0),
            rescans: AtomicU64::new(0),
            epoch: place.chain.epoch,
            place,
        })
    }

    /// The chain.
    #[inline]
    pub fn chain(&self) -> &Chain {
        &self.place.chain
    }

    /// The GPU's place in the chain.
    pub fn place(&self) -> &ChainPlace {
        &self.place
    }

    /// The GPU's own engines, by node.
    pub fn own_engines(&self) -> &[EnginePort] {
        let ChainPlace { first_engine, engines, .. } = self.place;
        let (first, count) = (first_engine as usize, engines as usize);
        self.engines.get(first..first + count).unwrap_or_default()
    }

    /// The node of one of its engines.
    pub fn node_of(&self, engine: u32) -> u32 {
        engine.saturating_sub(self.place.first_engine)
    }

    /// The chain's number of a node's engine.
    pub fn engine_of(&self, node: u32) -> u32 {
        self.place.first_engine.saturating_add(node)
    }

    /// The adapter's clock: nanoseconds since the GPU was created.
    #[inline]
    pub fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Engine: returns whether a tool traces.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.logging_level() == LoggingLevel::VERBOSE
    }

    /// Control plane: gives each engine a trace log of `entries` entries; returns false if there is no memory for
    /// them.
    pub fn begin_trace(&self, entries: u32) -> bool {
        let own = self.own_engines();
        let logs: Option<Vec<_>> = own.iter().map(|_| TraceLog::new(entries)).collect();
        let Some(logs) = logs else { return false };
        own.iter().zip(logs).for_each(|(port, log)| port.set_trace_log(Some(log)));
        true
    }

    /// Control plane: sets the logging level.
    pub fn set_logging_level(&self, level: LoggingLevel) {
        // Relaxed: it hands nothing over, and an engine may see it late.
        self.logging_level.store(level.0, Ordering::Relaxed);
    }

    /// The logging level.
    #[inline]
    pub fn logging_level(&self) -> LoggingLevel {
        LoggingLevel(self.logging_level.load(Ordering::Relaxed))
    }

    /// Control plane: see `Hardware::quiesce`. Engine: begins a flush, and then polls [`Self::has_flushed`]. The
    /// caller has first flushed the partitions with obsolete translations.
    pub fn quiesce(&self) -> Ticket {
        let ticket = self.chain().tickets.draw();
        for engine in self.engines.iter() {
            engine.raise(attention::QUIESCE);
        }
        Ticket(ticket)
    }

    /// Control plane, before it draws a ticket: counts a replacement of guest memory.
    pub fn change_memory(&self) {
        // The ticket hands the count over.
        self.chain().memory_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Engine, after it read [`Self::latest_ticket`]: the number of replacements of guest memory.
    pub fn memory_changes(&self) -> u64 {
        self.chain().memory_changes.load(Ordering::Relaxed)
    }

    /// Control plane: see `Hardware::forget_translations`. Wakes no engine.
    pub fn forget_translations(&self) {
        self.rescans.fetch_add(1, Ordering::Relaxed);
        let own = self.own_engines().iter();
        for engine in own.filter(|engine| !engine.attention.is_asleep()) {
            engine.raise(attention::LOOK);
        }
    }

    /// Engine: the number of calls of [`Self::forget_translations`].
    pub fn rescans(&self) -> u64 {
        self.rescans.load(Ordering::Relaxed)
    }

    /// Engine, before it flushes: the latest ticket.
    pub fn latest_ticket(&self) -> u64 {
        self.chain().tickets.latest()
    }

    /// Engine `port`: reports that it has flushed up to `ticket`; interrupts if it was the last engine.
    pub fn passed(&self, port: &EnginePort, ticket: u64) {
        let all = self.engines.iter().map(|engine| &engine.passed);
        if let Some(passed) = port.passed.pass(ticket, all) {
            self.interrupts.raise_quiesced();
            // Only engines read this fence, so it is published nowhere. If the fence is already further, the engine
            // that signaled it has called the waiters for less.
            if let Ok(signaled) = self.chain().flushed.cell().signal(None, passed) {
                self.release_waiters(signaled.engines);
            }
        }
    }

    /// Engine `port`, before it passes a ticket: names the guests whose workers may still reach memory that was taken
    /// before a ticket, with the latest ticket before. Interrupts if one of them waits no more.
    pub fn withhold(&self, port: &EnginePort, withheld: Withheld) {
        let before = port.withheld.swap(Arc::new(withheld));
        let now = port.withheld.load();
        let is_as_early = |(guest, ticket): &(GuestId, Ticket)| {
            now.iter().any(|(of, latest)| of == guest && latest <= ticket)
        };
        if !before.iter().all(is_as_early) {
            self.interrupts.raise_quiesced();
            self.release_waiters(u64::MAX);
        }
    }

    /// The guests for which only earlier tickets than [`Self::quiesced`] have passed; read after that.
    pub fn withheld(&self) -> Withheld {
        let of_engine = |engine: &EnginePort| engine.withheld.load().to_vec();
        self.engines.iter().flat_map(of_engine).collect()
    }

    /// Engine `engine`: returns whether every engine has passed the ticket, and no worker of the guest reaches memory that
    /// was taken before. If not, this engine's attention is raised when that may be so.
    pub fn has_flushed(&self, engine: u32, guest: GuestId, ticket: Ticket) -> bool {
        let is_early = |(of, latest): &(GuestId, Ticket)| *of == guest && *latest < ticket;
        self.chain().flushed.cell().wait(None, engine, ticket.0)
            && !self.engines.iter().any(|engine| engine.withheld.load().iter().any(is_early))
    }

    /// The latest ticket that all engines have passed.
    pub fn quiesced(&self) -> Ticket {
        Ticket(Passed::on_all(self.engines.iter().map(|engine| &engine.passed)))
    }

    /// Engine `port`: reports its state to the control plane.
    pub fn change_state(&self, port: &EnginePort, state: u64) {
        port.states.mark(state);
        self.interrupts.raise_engine_states();
    }

    /// Makes the engines named by `bits` re-check their queues that wait for fences.
    pub fn release_waiters(&self, bits: u64) {
        for (index, engine) in self.engines.iter().enumerate() {
            if bits & 1 << index != 0 {
                engine.raise(attention::FENCE);
            }
        }
    }

    /// Engine: calls the engines that a signal releases, and raises its interrupt.
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
        // The guest first: it waits for this, and re-checks its fences before the control plane handles the
        // interrupt.
        if self.interrupts.raise_fence(partition.id(), fence, || partition.nudge()) {
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
