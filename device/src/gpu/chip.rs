//! What the engines and the control plane share of the whole GPU.

use super::GpuConfig;
use super::busy::Busy;
use super::fence_table::Fence;
use super::hw_queue::HwQueue;
use super::interrupt::Interrupts;
use super::page_table::NodePool;
use super::partition::Partition;
use super::statistics::Tally;
use super::trace_log::TraceLog;
use super::uses::Connects;
use super::wake::Wake;
use arc_swap::{ArcSwap, ArcSwapOption};
use bellhop_host_kmd::hardware::{EngineState, HwQueueId, Interrupt, Ticket};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::FenceLogEntry;
use bellhop_protocol::handoff::attention::Attention;
use bellhop_protocol::handoff::fence::{FenceWords, SignalRule, Signaled};
use bellhop_protocol::handoff::power::PowerSwitch;
use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Instant;

/// Bits of an engine's attention word.
pub mod attention {
    /// The list of watched doorbells is another.
    pub const WATCH_LIST: u64 = 1 << 0;
    /// Some queue was kicked.
    pub const KICK: u64 = 1 << 1;
    /// A fence that some queue waits for was signaled or destroyed.
    pub const FENCE: u64 = 1 << 2;
    /// A ticket was drawn.
    pub const QUIESCE: u64 = 1 << 3;
    /// The thread is to end.
    pub const STOP: u64 = 1 << 4;
    /// The engine is to have power, or none.
    pub const POWER: u64 = 1 << 5;
    /// Some queue was pre-empted.
    pub const PREEMPT: u64 = 1 << 6;
    /// The engine is to be reset.
    pub const RESET: u64 = 1 << 7;
    /// Translations are to be forgotten, though they are right.
    pub const LOOK: u64 = 1 << 8;
}

/// Bits of what an engine tells of itself: `DXGK_ENGINE_STATE`.
pub mod engine_state {
    /// It kept its power because it has work: [`EnginePort::power`](super::EnginePort::power) says when.
    pub const ACTIVE: u64 = 1 << 0;
    /// It has been idle for long.
    pub const TRANSITION_TO_F1: u64 = 1 << 1;
    /// It was reset.
    pub const RESET: u64 = 1 << 2;
}

/// What ends a packet that an engine is stuck in, and everything that is weaker. None is 0.
pub mod reset {
    /// A reset of the engine.
    pub const ENGINE: u64 = 1;
    /// A reset of the adapter.
    pub const ADAPTER: u64 = 2;
    /// The end of the GPU.
    pub const STOP: u64 = 3;
}

/// A queue whose rings an engine looks for.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The queue.
    pub queue: Arc<HwQueue>,
    /// Where it rings.
    pub at: WatchedAt,
}

/// Where a watched queue rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchedAt {
    /// The word on its logical doorbell's page, whose value is the write pointer.
    OwnPage,
    /// The guest's page of this physical doorbell, which its logical doorbell's shows.
    Physical(u32),
    /// Its guest's global doorbell.
    Global,
}

/// How others reach an engine.
#[derive(Debug)]
pub struct EnginePort {
    /// Polled by the engine, so it has a cache line of its own.
    pub attention: CachePadded<Attention>,
    /// Signaled once for each of the engine's sleeps, or left to a kick.
    pub wake: Wake,
    /// The queues whose doorbells the engine watches. Published before `WATCH_LIST` is raised.
    pub watch_list: ArcSwap<Vec<Watched>>,
    /// Kicked queues. Each is here at most once; see [`HwQueue::begin_kick`].
    pub kicks: SegQueue<Arc<HwQueue>>,
    /// Pre-empted queues. Their memberships were changed before.
    pub preempted: SegQueue<Arc<HwQueue>>,
    /// The latest ticket that has passed on this engine.
    pub quiesced: AtomicU64,
    /// Whether the engine is to have power. Asked before `POWER` is raised; refused before the control
    /// plane is told.
    pub power: PowerSwitch,
    /// What the engine told of itself and nobody has taken: bits of [`engine_state`].
    pub states: AtomicU64,
    /// Times that the engine woke.
    pub wakeups: AtomicU64,
    /// Times that it gave its processor away while it looked for work.
    pub yields: AtomicU64,
    /// The reset that was asked for: see [`reset`]. Stored before `RESET` is raised.
    pub reset: AtomicU64,
    /// Where the engine is, which only it writes.
    pub turns: CachePadded<Turns>,
    /// Where it notes what it does, while somebody traces.
    trace_log: ArcSwapOption<TraceLog>,
}

/// Turns that an engine gives.
#[derive(Debug, Default)]
pub struct Turns {
    begun: AtomicU64,
    /// Id of the queue whose turn it is; 0, which is no queue's, between turns.
    executing: AtomicU64,
    /// How long turns took.
    busy: Busy,
}

impl Turns {
    /// Engine: a queue's turn begins, now on the adapter's clock. Relaxed, as all here: who reads this
    /// looks for what stands still.
    #[inline]
    pub fn begin(&self, queue: &HwQueue, now: u64) {
        self.busy.begin(now);
        queue.busy.begin(now);
        self.executing.store(queue.id.0, Ordering::Relaxed);
        // One writer, so that no read-modify-write is needed.
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Engine: the queue's turn is over.
    #[inline]
    pub fn end(&self, queue: &HwQueue, now: u64) {
        self.executing.store(0, Ordering::Relaxed);
        queue.busy.end(now);
        self.busy.end(now);
    }

    /// Nanoseconds that all turns took, until now on the adapter's clock.
    pub fn busy_time(&self, now: impl FnOnce() -> u64) -> u64 {
        self.busy.read(now)
    }

    /// How many have begun, and whose it is now.
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
            watch_list: ArcSwap::default(),
            kicks: SegQueue::new(),
            preempted: SegQueue::new(),
            quiesced: AtomicU64::new(0),
            power: PowerSwitch::new(),
            states: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
            yields: AtomicU64::new(0),
            reset: AtomicU64::new(0),
            turns: CachePadded::default(),
            trace_log: ArcSwapOption::empty(),
        })
    }

    /// Engine: notes something for a tool that traces, if there is one. It alone writes.
    #[inline(never)]
    pub fn trace(&self, entry: FenceLogEntry) {
        if let Some(log) = self.trace_log.load().as_deref().and_then(TraceLog::get) {
            // Turns are told later than what happened within them.
            log.write(zerocopy::transmute!(entry));
        }
    }

    /// Control plane: what the engine notes.
    pub fn trace_log(&self) -> Option<Arc<TraceLog>> {
        self.trace_log.load_full()
    }

    /// Control plane: gives it a trace log, or takes it away.
    pub fn set_trace_log(&self, log: Option<TraceLog>) {
        let before = self.trace_log.swap(log.map(Arc::new));
        // The engine may be writing an entry: it is not to be the one that gives the memory back.
        while before.as_ref().is_some_and(|log| Arc::strong_count(log) > 1) {
            std::thread::yield_now();
        }
    }

    /// Asks for a [`reset`].
    pub fn reset(&self, kind: u64) {
        // Before raising: the engine takes it back after it took the attention.
        self.reset.fetch_max(kind, Ordering::AcqRel);
        self.raise(attention::RESET);
    }

    /// Engine, once called: is not stuck. A stronger reset that comes meanwhile calls it again, and the
    /// end of the GPU stays.
    pub fn end_reset(&self) {
        let kind = self.reset.load(Ordering::Acquire);
        if kind != reset::STOP {
            let _ = self.reset.compare_exchange(kind, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Control plane: what the engine, which is the node's, told of itself since the last time.
    pub fn take_states(&self, node: u32) -> impl Iterator<Item = Interrupt> + use<> {
        // Pairs with `Chip::change_state`.
        let states = self.states.swap(0, Ordering::AcqRel);
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
        if queue.begin_kick() {
            self.kicks.push(Arc::clone(queue));
        }
        self.raise(attention::KICK);
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
    /// What address spaces are made of.
    pub nodes: Arc<NodePool>,
    /// The interrupt line.
    pub interrupts: Arc<Interrupts>,
    /// Whether kernels that hang are executed.
    pub test_kernels: bool,
    /// Whether interrupts for signals that are logged name the queue.
    pub optimized_fence_interrupt: bool,
    /// Doorbells that were connected, by which uses of them are ordered.
    pub connects: Connects,
    logging_level: AtomicU32,
    tickets: AtomicU64,
    /// How often engines were to forget translations only so that accesses are noted anew.
    looks: AtomicU64,
    /// How often some guest's memory became another.
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
        let (tickets, looks) = (AtomicU64::new(0), AtomicU64::new(0));
        let logging_level = AtomicU32::new(LoggingLevel::DEFAULT.0);
        let flushed = FenceWords::new(0, SignalRule::Monotonic);
        let epoch = Instant::now();
        Ok(Self {
            engines,
            nodes,
            interrupts,
            test_kernels: config.test_kernels,
            optimized_fence_interrupt: config.optimized_fence_interrupt,
            connects: Connects::default(),
            logging_level,
            tickets,
            looks,
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

    /// Control plane: gives engines trace logs of so many entries; false when there is no memory for them.
    pub fn begin_trace(&self, entries: u32) -> bool {
        let logs: Option<Vec<_>> = self.engines.iter().map(|_| TraceLog::new(entries)).collect();
        let Some(logs) = logs else { return false };
        self.engines.iter().zip(logs).for_each(|(port, log)| port.set_trace_log(Some(log)));
        true
    }

    /// Control plane: what is logged from now on.
    pub fn set_logging_level(&self, level: LoggingLevel) {
        // Relaxed: nothing else comes with it, and an engine may see it late.
        self.logging_level.store(level.0, Ordering::Relaxed);
    }

    /// What is logged.
    #[inline]
    pub fn logging_level(&self) -> LoggingLevel {
        LoggingLevel(self.logging_level.load(Ordering::Relaxed))
    }

    /// Control plane: see `Hardware::quiesce`. Engine: begins a flush, and then asks
    /// [`Self::has_flushed`]. Whoever has something forgotten has told the guest's partition before.
    pub fn quiesce(&self) -> Ticket {
        // Pairs with the load in `passed`, through the attention word.
        let ticket = self.tickets.fetch_add(1, Ordering::AcqRel) + 1;
        for engine in &self.engines {
            engine.raise(attention::QUIESCE);
        }
        Ticket(ticket)
    }

    /// Control plane, before it draws a ticket: some guest's memory is another now.
    pub fn change_memory(&self) {
        // Handed over with the ticket.
        self.memory_changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Engine, after it read [`Self::latest_ticket`]: how often that was so.
    pub fn memory_changes(&self) -> u64 {
        self.memory_changes.load(Ordering::Relaxed)
    }

    /// Control plane: see `Hardware::forget_translations`. No engine is woken for it.
    pub fn forget_translations(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        for engine in self.engines.iter().filter(|engine| !engine.attention.is_asleep()) {
            engine.raise(attention::LOOK);
        }
    }

    /// Engine: how often [`Self::forget_translations`] was asked for.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Engine: the ticket up to which it is about to forget.
    pub fn latest_ticket(&self) -> u64 {
        self.tickets.load(Ordering::Acquire)
    }

    /// Engine `port`: has forgotten up to `ticket`; interrupts when it was the last to.
    pub fn passed(&self, port: &EnginePort, ticket: u64) {
        port.quiesced.store(ticket, Ordering::Release);
        // Of two engines that pass at once, each stores and then loads the other's: with a full
        // fence between, at least one sees both.
        fence(Ordering::SeqCst);
        let passed = self.quiesced().0;
        if passed >= ticket {
            self.interrupts.raise_quiesced();
            // Nobody but engines reads this fence, so it is published nowhere. That it has gone
            // further already is no error: whoever took it there told those who wait for less.
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
        let tickets = self.engines.iter().map(|engine| engine.quiesced.load(Ordering::Acquire));
        Ticket(tickets.min().unwrap_or(0))
    }

    /// Engine `port`: tells the control plane of itself.
    pub fn change_state(&self, port: &EnginePort, state: u64) {
        // Released to the exchange in `take_interrupts` by the interrupt line, which is asserted
        // after this.
        port.states.fetch_or(state, Ordering::AcqRel);
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

    /// Engine: does what a signal set off.
    #[inline]
    pub fn deliver(
        &self,
        partition: &Partition,
        fence: Fence<'_>,
        signaled: Signaled,
        tally: &mut Tally,
    ) {
        if signaled.engines != 0 {
            self.release_waiters(signaled.engines);
        }
        if signaled.interrupt && self.interrupts.raise_fence(partition.id(), fence) {
            tally.interrupts += 1;
        }
    }

    /// The same where the signal was the last that the queue has logged: the interrupt names the queue.
    pub fn deliver_logged(&self, queue: &HwQueue, signaled: Signaled, tally: &mut Tally) {
        if signaled.engines != 0 {
            self.release_waiters(signaled.engines);
        }
        if signaled.interrupt && queue.log() {
            tally.interrupts += 1;
            let guest = queue.partition.id();
            if !self.interrupts.raise_logged(guest, queue.id, queue.engine) {
                // Its next signal raises again.
                queue.report_log();
            }
        }
    }
}
