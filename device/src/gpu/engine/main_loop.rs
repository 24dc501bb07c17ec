// SPDX-License-Identifier: MIT OR Apache-2.0

//! An engine: the thread that watches doorbells and executes queues.
//!
//! It looks at its doorbells, gives each queue that has work a turn, and looks again. When there
//! was nothing to do for a while it arms its doorbells, so that guests notify after ringing them,
//! and sleeps. Anybody else who wants something of it raises its attention.
//!
//! No lock is shared with the control plane, and from doorbell to fence nothing is allocated and
//! no system call is made.

use super::command_processor::{Execution, ShortTurn, Turn, Unit, Windows};
use super::hints::{Hinted, Hints};
use super::others::Others;
use super::packets::context::{Before, Context, Timing};
use super::packets::fence::Signals;
use super::run_list::{Entry, RunList};
use super::scans::{Scan, Scans};
use super::schedule::Pick;
use super::watches::{Watch, Watches};
use crate::gpu::memory::compression::Codec;
use crate::gpu::memory::mmu::Mmu;
use crate::gpu::memory::pins::{Pinned, Use};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::chip::{Chip, EnginePort, WatchedAt, attention, engine_state};
use crate::gpu::shared::fence_handle::FenceHandle;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::statistics::Tally;
use crate::gpu::shared::trace_log::Executed;
use crate::gpu::shared::uses::Rings;
use crate::gpu::shared::wake::{Kicking, Woken};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::doorbell::DoorbellWords;
use bellhop_protocol::handoff::power::Asked;
use bellhop_protocol::polling::Yields;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Rounds without work between two looks at the clock: a few microseconds.
const ROUNDS_IN_A_SPELL: u32 = 64;
/// The same where those who ring share the engine's processor.
const ROUNDS_BEFORE_SHARING: u32 = 8;
/// Nanoseconds, longer than any turn takes, bounded as turns are. What is measured beyond it the engine's thread did not run
/// for: it was stopped, or others had its processor. That time is held against no queue.
const LONGEST_TURN: u64 = 20_000_000;
/// Stops of the engine's thread, each in the middle of a turn, that a queue makes no progress over and that
/// alone are no hang.
const STOPS_IN_A_HANG: u32 = 64;

/// An engine's own state.
#[derive(Debug)]
pub struct Engine {
    core: Core,
    times: Times,
    watches: Watches,
    hints: Hints,
    scans: Scans,
    kicking: Kicking,
    run_list: RunList,
    /// It executes. Without power it only attends.
    has_power: bool,
    /// The last transition of its power that it made or refused.
    answered: u64,
    /// It has asked for F1 since it had work last.
    asked_for_f1: bool,
    /// `Chip::rescans` when it was last awake.
    rescans: u64,
    /// `Chip::memory_changes` when it last quiesced.
    memory_changes: u64,
    /// The last turn, if the engine has done nothing else since.
    last_turn: LastTurn,
    /// Index on the run list of the queue that had the last turn.
    last_served: u32,
    /// Whether it shares its processor with those who ring.
    yields: Yields,
    /// It has executed nothing since it woke.
    has_woken: bool,
    /// Turns that a tool that traces was not told of yet.
    executed: Executed,
}

/// How long an engine does what.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// It looks at its doorbells without finding work.
    pub spin: Duration,
    /// It sleeps before it asks for F1.
    pub idle: Option<Duration>,
    /// It executes a queue that makes no progress.
    pub hang: Duration,
    /// It executes one context while others of the same guest and priority wait.
    pub quantum: Duration,
}

/// The part of an engine that executes.
#[derive(Debug)]
struct Core {
    chip: Arc<Chip>,
    index: u32,
    engine_type: EngineType,
    unit: Unit,
    rings: Rings,
}

impl Core {
    /// Does something with a queue's execution and what its packets can reach.
    fn with<R>(
        &mut self,
        entry: &mut Entry,
        act: impl FnOnce(&mut Execution, &HwQueue, &mut Context<'_>) -> R,
    ) -> R {
        entry.catch_up();
        let Entry { queue, view, fence, waited, execution, .. } = entry;
        let (pinned, mut tally) = (view.open(self.unit.tlb.epoch()), Tally::default());
        let signals = Signals::new(&self.chip, &queue.partition, fence, &mut tally);
        let timing = Timing { began: None, is_short: true };
        let reached = Reached { queue, pinned, signals, waited, timing, others: None };
        let (mut context, _) = reached.by(self.index, self.engine_type, &mut self.unit);
        act(execution, queue, &mut context)
    }

    /// Gives a queue its turn. Returns also what is known of the turn's time.
    #[inline]
    fn turn(
        &mut self,
        entry: &mut Entry,
        tally: &mut Tally,
        began: Option<u64>,
        others: Option<Others<'_>>,
    ) -> (Result<Turn, Violation>, Timing) {
        entry.catch_up();
        let Entry { queue, view, fence, waited, execution, .. } = entry;
        let pinned = view.open(self.unit.tlb.epoch());
        let mut signals = Signals::new(&self.chip, &queue.partition, fence, tally);
        let timing = Timing { began, is_short: true };
        let turn = match execution.short_turn(&mut signals, &pinned) {
            Ok(ShortTurn::Over(turn)) => Ok(turn),
            Ok(ShortTurn::GoesOn(packets)) => {
                let Self { index, engine_type, unit, .. } = self;
                return apart(|| {
                    let reached = Reached { queue, pinned, signals, waited, timing, others };
                    let (mut context, windows) = reached.by(*index, *engine_type, unit);
                    let turn = execution.turn(queue, &mut context, windows, packets);
                    (turn, context.timing)
                });
            }
            Err(violation) => Err(violation),
        };
        (turn, timing)
    }

    /// Asks for what a queue reads next.
    #[inline(never)]
    fn prefetch(&mut self, entry: &mut Entry) {
        let Some([packet, buffer]) = entry.execution.foreseen() else { return };
        let pinned = entry.view.open(self.unit.tlb.epoch());
        pinned.prefetch(Use::Ring, packet);
        pinned.prefetch(Use::Buffer, buffer);
    }

    /// A queue used its doorbell.
    #[inline]
    fn note_use(&mut self, queue: &HwQueue) {
        queue.use_doorbell(self.rings.another(&self.chip.connects));
    }

    /// Ends a turn that is timed, and looks at the clock. A sample stands for turns that were not timed, too.
    fn end_timed(
        &self,
        entry: &mut Entry,
        port: &EnginePort,
        began: u64,
        is_sample: bool,
    ) -> (u64, TurnTime) {
        let ended = self.chip.now();
        let time = ended.saturating_sub(began);
        let own = time.min(LONGEST_TURN);
        let others = if is_sample { entry.sampling.sample(time) } else { 0 };
        port.turns.end_timed(&entry.queue, ended.saturating_add(others));
        (ended, TurnTime { own, all: own.saturating_add(others) })
    }

    /// A ring after which a queue has nothing to do, or with a write pointer that cannot be.
    #[cold]
    fn rung_in_vain(&self, entry: &mut Entry, violation: Option<Violation>) {
        entry.count_doorbells(self.index);
        if let Some(violation) = violation {
            self.fault(entry, violation);
        }
    }

    /// The queue broke a rule: nothing more of it is executed, and the host is told.
    #[cold]
    fn fault(&self, entry: &mut Entry, violation: Violation) {
        let fault = entry.execution.fault(violation);
        let (guest, hw_queue) = (entry.queue.partition.id().0, entry.queue.id.0);
        tracing::debug!(guest, hw_queue, opcode = %fault.opcode, %violation, "HW queue fault");
        if entry.queue.is_system() {
            // Only the buffer is lost. Its fence is reached all the same, or those after it never
            // would be.
            if let Some(fence) = entry.execution.abandon() {
                let paging = entry.queue.partition.paging();
                paging.fail(fence, fault);
                paging.complete(fence, &self.chip.interrupts);
            }
            return;
        }
        entry.kill();
        entry.queue.set_fault(fault);
        self.chip.interrupts.raise_fault(entry.queue.id);
    }
}

/// Does what is rarer: its registers and its stack are no burden to what is not.
#[inline(never)]
fn apart<R>(act: impl FnOnce() -> R) -> R {
    act()
}

/// What the packets of a queue can reach beside an engine.
struct Reached<'a> {
    queue: &'a HwQueue,
    pinned: Pinned<'a>,
    signals: Signals<'a>,
    waited: &'a mut FenceHandle,
    timing: Timing,
    others: Option<Others<'a>>,
}

impl<'a> Reached<'a> {
    /// All of what they can reach by an engine, and the windows that they are fetched into.
    fn by(
        self,
        engine: u32,
        engine_type: EngineType,
        unit: &'a mut Unit,
    ) -> (Context<'a>, &'a mut Windows) {
        let Self { queue, pinned, signals, waited, timing, others } = self;
        let Unit { tlb, scratch, blocks, windows } = unit;
        let codec = Codec { metadata: queue.partition.metadata(), blocks };
        let context = Context {
            chip: signals.chip,
            engine,
            engine_type,
            partition: &queue.partition,
            space: queue.process(),
            is_system: queue.is_system(),
            queue,
            before: Before::Other,
            signals,
            waited,
            others,
            timing,
            mmu: Mmu::new(tlb, &queue.space, pinned, codec, engine),
            scratch,
        };
        (context, windows)
    }
}

/// The engine time of a turn, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct TurnTime {
    /// The turn's.
    own: u64,
    /// With the turns that it stands for.
    all: u64,
}

/// The last turn that an engine gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastTurn {
    /// The engine has done something else since.
    None,
    /// It was not timed.
    Untimed,
    /// It ended then, on the adapter's clock.
    Ended(u64),
}

/// Whether the engine goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

/// What a round without work was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// There was work a moment ago: the next ring is likely to come soon, and a pause would only let it
    /// wait.
    Fresh,
    /// One of a longer while.
    Idle,
    /// The last of a spell.
    EndOfSpell,
    /// The last before the engine sleeps.
    Last,
}

/// How long an engine has had nothing to do.
#[derive(Debug, Default)]
struct Idleness {
    rounds: u32,
    since: Option<Instant>,
}

impl Idleness {
    /// One more round without work; the last when they have lasted for `limit`. The clock is looked at
    /// once in a spell, and not at all between two rings that come close upon each other.
    #[inline]
    fn another_round(&mut self, limit: Duration, yields: &Yields) -> Round {
        self.rounds += 1;
        let shares = yields.shares_processor();
        let spell = if shares { ROUNDS_BEFORE_SHARING } else { ROUNDS_IN_A_SPELL };
        if self.rounds < spell {
            return if self.since.is_none() { Round::Fresh } else { Round::Idle };
        }
        self.rounds = 0;
        let is_last = self.since.get_or_insert_with(Instant::now).elapsed() >= limit;
        if is_last { Round::Last } else { Round::EndOfSpell }
    }
}

impl Engine {
    /// An engine that knows no queues. `index` is its node and its place among the chip's ports.
    pub fn new(chip: Arc<Chip>, index: u32, engine_type: EngineType, times: Times) -> Self {
        Self {
            core: Core { chip, index, engine_type, unit: Unit::new(), rings: Rings::default() },
            times,
            watches: Watches::default(),
            hints: Hints::default(),
            scans: Scans::default(),
            kicking: Kicking::default(),
            run_list: RunList::new(times.quantum),
            has_power: true,
            answered: 0,
            asked_for_f1: false,
            rescans: 0,
            memory_changes: 0,
            last_turn: LastTurn::None,
            last_served: 0,
            yields: Yields::new(),
            has_woken: false,
            executed: Executed::default(),
        }
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) {
        self.run_until(Self::idle);
    }

    /// Runs until it is told to stop, or finds no work.
    #[cfg(feature = "stepped")]
    pub fn run_until_idle(&mut self) {
        self.run_until(|_, _, _| Next::Stop);
    }

    /// Runs until it is told to stop, or a round without work, for which it does `idle`, is the last.
    #[inline]
    fn run_until(&mut self, idle: impl Fn(&mut Self, &EnginePort, &mut Idleness) -> Next) {
        let chip = Arc::clone(&self.core.chip);
        let Some(port) = chip.engines.get(self.core.index as usize) else { return };
        let mut idleness = Idleness::default();
        let mut scan = Scan::Partial;
        loop {
            if port.attention.is_raised() && self.attend(port) == Next::Stop {
                return;
            }
            self.look_at_doorbells(scan);
            if !self.hints.is_empty() {
                self.look_at_hints();
            }
            if let Some(next) = self.give_a_turn(port) {
                self.yields.progress();
                scan = next;
                idleness = Idleness::default();
                continue;
            }
            scan = Scan::Partial;
            self.last_turn = LastTurn::None;
            if idle(self, port, &mut idleness) == Next::Stop {
                return;
            }
        }
    }

    /// Waits a little for work: looks again at once, pauses, yields its processor, or sleeps.
    #[inline]
    fn idle(&mut self, port: &EnginePort, idleness: &mut Idleness) -> Next {
        match idleness.another_round(self.times.spin, &self.yields) {
            Round::Fresh => self.foresee(),
            Round::Idle => {
                if self.core.chip.is_traced() {
                    self.tell_executed(port);
                }
                std::hint::spin_loop();
            }
            Round::EndOfSpell => self.end_spell(port),
            Round::Last => {
                self.sleep(port);
                *idleness = Idleness::default();
            }
        }
        Next::GoOn
    }

    /// Asks for what the queue that had the last turn submits next, before its doorbell rings: the lines then
    /// come while the guest stores to the doorbell, and not after. The engine asks for no other queue's, so that
    /// it takes no line from a guest that is filling it.
    #[inline]
    fn foresee(&mut self) {
        if let Some(entry) = self.run_list.get(self.last_served) {
            self.core.prefetch(entry);
        }
    }

    /// Gives its processor to a guest's thread that may be about to ring.
    #[cold]
    fn end_spell(&mut self, port: &EnginePort) {
        let gave_away = self.yields.spell(|| {
            let start = Instant::now();
            thread::yield_now();
            start.elapsed()
        });
        port.yields.fetch_add(gave_away.into(), Ordering::Relaxed);
    }

    /// Does what attention was raised for.
    fn attend(&mut self, port: &EnginePort) -> Next {
        // What this takes is no queue's time.
        self.last_turn = LastTurn::None;
        let bits = port.attention.take();
        if bits & attention::STOP != 0 {
            return Next::Stop;
        }
        if bits & attention::WATCH_LIST != 0 {
            self.reload_watches(port);
        }
        if bits & attention::KICK != 0 {
            while let Some(queue) = port.kicks.pop() {
                // Before the look, so that a kick after it is not lost.
                queue.kicked.take();
                self.kick(&queue);
            }
        }
        if bits & attention::PREEMPT != 0 {
            // Between two turns, no queue is being executed, and these get no turn any more.
            while let Some(queue) = port.preempted.pop() {
                if queue.preemption.stop() {
                    self.core.chip.interrupts.raise_preempted(queue.id);
                }
            }
        }
        if bits & attention::RESET != 0 {
            // Whatever it was stuck in is given up, or there was nothing.
            port.end_reset();
            self.core.unit.tlb.flush();
            self.core.chip.change_state(port, engine_state::RESET);
        }
        if bits & attention::LOOK != 0 {
            self.core.unit.tlb.flush();
        }
        if bits & attention::FENCE != 0 {
            self.run_list.unblock_all();
        }
        if bits & attention::POWER != 0 {
            self.change_power(port);
        }
        // Last: whoever waits for the ticket finds the rest done.
        if bits & attention::QUIESCE != 0 {
            self.quiesce(port);
        }
        Next::GoOn
    }

    /// Loses its power, unless it has work, or gets it back.
    fn change_power(&mut self, port: &EnginePort) {
        let Some(Asked { on, transition }) = port.power.asked(self.answered) else { return };
        self.answered = transition;
        // Queues that are off the run list stand in line no more.
        self.run_list.drop_suspended();
        self.has_power = on || self.run_list.has_work();
        if self.has_power && !on {
            port.power.refuse(transition);
            self.core.chip.change_state(port, engine_state::ACTIVE);
        }
        self.asked_for_f1 = false;
    }

    /// Looks once at what the queue's ring and its kernel-mode submissions hold.
    fn kick(&mut self, queue: &Arc<HwQueue>) {
        let Some(index) = self.run_list.index_of(queue) else { return };
        if queue.membership.is_destroyed() {
            return self.run_list.forget(index);
        }
        if let Some(entry) = self.run_list.get(index) {
            entry.refresh_ring();
            if queue.is_system()
                && let Some(fence) = queue.partition.paging().take_abandoned()
                && entry.execution.submission_fence() == Some(fence)
            {
                self.core.fault(entry, Violation::new(FaultReason::ENGINE_TIMEOUT, 0));
                // It may have waited for a flush, and has the next to do.
                self.run_list.unblock_all();
            }
        }
        // The ring of one that is off the run list need not be resident. Whoever puts it back kicks.
        if queue.membership.may_run() {
            look_at_ring(&mut self.core, &mut self.run_list, index);
        }
    }

    /// Takes over the list of watched doorbells.
    fn reload_watches(&mut self, port: &EnginePort) {
        for watch in self.watches.replace(Vec::new()) {
            if let Some(entry) = self.run_list.get(watch.index)
                && entry.has_ring(&watch.ring)
            {
                entry.last_rung = watch.last_rung;
            }
        }
        let (mut watches, mut hinted) = (Vec::new(), Vec::new());
        let list = port.watch_list.load();
        for watched in list.iter() {
            let Some(index) = self.run_list.index_of(&watched.queue) else { continue };
            let Some(entry) = self.run_list.get(index) else { continue };
            entry.refresh_ring();
            let Some(ring) = &entry.execution.ring else { continue };
            let (queue, ring) = (Arc::clone(&watched.queue), Arc::clone(&ring.binding));
            match watched.at {
                WatchedAt::OwnPage => {
                    watches.extend(Watch::new(queue, ring, index, entry.last_rung));
                }
                at @ (WatchedAt::Physical(_) | WatchedAt::Global) => {
                    hinted.push(Hinted { queue, ring, index, at });
                }
            }
        }
        self.watches.replace(watches);
        self.hints.watch(hinted);
        self.kicking.replace(&port.wake, list.iter().map(|watched| &watched.queue.partition));
    }

    /// Puts queues whose doorbells were rung in line: of some doorbells, or of all.
    #[inline]
    fn look_at_doorbells(&mut self, scan: Scan) {
        let Self { core, watches, run_list, last_served, .. } = self;
        let rang = |watch: &Watch, rung| {
            // Another may have the index of one that is forgotten and still watched.
            let entry = run_list.get(watch.index);
            let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.queue, &watch.queue)) else {
                let counters = watch.queue.partition.counters();
                counters.add(core.index, Tally { doorbells: 1, ..Tally::default() });
                return;
            };
            entry.doorbells += 1;
            core.note_use(&entry.queue);
            match entry.execution.rung(rung) {
                Ok(true) if watch.index == *last_served => {}
                Ok(true) => core.prefetch(entry),
                idle => return core.rung_in_vain(entry, idle.err()),
            }
            if !run_list.make_runnable(watch.index) {
                // It waits for a turn already, or for a fence.
                run_list.count_doorbells(watch.index, core.index);
            }
        };
        match scan {
            Scan::Partial => watches.look(rang),
            Scan::Full => watches.look_at_all(rang),
        }
    }

    /// Puts the queues in line whose rings hold work, of those that doorbells hint at.
    #[inline]
    fn look_at_hints(&mut self) {
        let Self { core, hints, run_list, .. } = self;
        let engine = core.index;
        hints.look(
            |guest| guest.counters().add(engine, Tally { doorbells: 1, ..Tally::default() }),
            |hinted| look_at_hinted(core, run_list, hinted),
        );
    }

    /// Gives the queue whose turn it is a turn, and says which doorbells to look at then. None when no queue
    /// wants a turn.
    ///
    /// Turns are timed from one to the next, with one look at the clock for each while there is work. What a
    /// queue that is alone did within one turn, after the engine had none, is not charged to its guest.
    #[inline]
    fn give_a_turn(&mut self, port: &EnginePort) -> Option<Scan> {
        if !self.has_power {
            return None;
        }
        let (Pick { queue: index, contested }, entry) = self.run_list.next()?;
        let Some(entry) = entry else { return Some(Scan::Partial) };
        if !entry.queue.membership.may_run() {
            // Off the run list, or for good: whoever puts it back has it looked at again.
            entry.count_doorbells(self.core.index);
            self.run_list.end_turn(index, Turn::Idle, None);
            return Some(Scan::Partial);
        }
        self.asked_for_f1 = false;
        self.last_served = index;
        if self.has_woken {
            self.has_woken = false;
            // What the host does in the system context is nobody's.
            if !entry.queue.is_system() {
                entry.queue.partition.counters().woke(self.core.index);
            }
        }
        let is_first = self.last_turn == LastTurn::None;
        let follows_work = contested || entry.execution.is_in_packet() || !is_first;
        let chip = &self.core.chip;
        // As long as it only executes a burst.
        let is_free = !follows_work && !entry.sampling.is_due() && !chip.is_traced();
        let began = match self.last_turn {
            LastTurn::Ended(ended) => Some(ended),
            _ if is_free => None,
            _ => Some(chip.now()),
        };
        port.turns.begin(&entry.queue);
        if let Some(began) = began {
            port.turns.time(&entry.queue, began);
        }
        let mut tally = Tally { doorbells: entry.doorbells, ..Tally::default() };
        entry.doorbells = 0;
        // Where others share the processor, one of them may be who signals what a queue waits for.
        let polls = !contested && !self.yields.shares_processor();
        let (watches, hints) = (&self.watches, &self.hints);
        let others = polls.then_some(Others { port, watches, hints, index });
        let (turn, timing) = self.core.turn(entry, &mut tally, began, others);
        port.turns.end();
        let mut charge = None;
        if let Some(began) = timing.began {
            let is_sample = !follows_work && timing.is_short;
            let (ended, time) = self.core.end_timed(entry, port, began, is_sample);
            tally.engine_time = time.all;
            self.last_turn = LastTurn::Ended(ended);
            if self.core.chip.is_traced()
                && let Some(entry) = self.executed.add(entry.queue.id.0, (began, ended))
            {
                port.trace(entry);
            }
            let is_charged = follows_work || turn == Ok(Turn::Runnable);
            charge = is_charged.then(|| Duration::from_nanos(time.own));
        } else {
            entry.sampling.skip();
            self.last_turn = LastTurn::Untimed;
        }
        // What the host does in the system context is none of the guest's packets.
        if entry.queue.is_system() {
            tally = Tally { engine_time: tally.engine_time, ..Tally::default() };
        }
        entry.queue.partition.counters().add(self.core.index, tally);
        if turn == Ok(Turn::Runnable)
            && entry.queue.has_timeout()
            && let Some(time) = charge
            && let time = time.min(self.times.hang / STOPS_IN_A_HANG)
            && let Some(fault) = entry.execution.charge(&entry.queue, time, self.times.hang)
        {
            self.core.chip.interrupts.raise_hung(entry.queue.id, fault);
        }
        let next = turn.unwrap_or_else(|violation| {
            self.core.fault(entry, violation);
            // A system queue goes on with its next submission.
            if entry.queue.is_system() { Turn::Runnable } else { Turn::Idle }
        });
        self.run_list.end_turn(index, next, charge);
        Some(match self.last_turn {
            LastTurn::Ended(ended) => self.scans.after_turn(ended, self.watches.len()),
            LastTurn::Untimed | LastTurn::None => Scan::Partial,
        })
    }

    /// Tells a tool that traces what was executed, now that there is nothing more.
    #[cold]
    fn tell_executed(&mut self, port: &EnginePort) {
        if let Some(entry) = self.executed.take() {
            port.trace(entry);
        }
    }

    /// Is between two turns, and past whatever was changed before the latest ticket: each turn begins with
    /// what its guest has flushed, and destroyed queues were kicked.
    fn quiesce(&mut self, port: &EnginePort) {
        // First: what is asked for while this goes on raises attention again.
        let ticket = self.core.chip.latest_ticket();
        let changes = self.core.chip.memory_changes();
        if std::mem::replace(&mut self.memory_changes, changes) != changes {
            self.run_list.catch_up();
        }
        self.core.chip.passed(port, ticket);
    }

    /// Sleeps until attention is raised, unless there is something to do after all.
    fn sleep(&mut self, port: &EnginePort) {
        self.has_woken = false;
        if self.core.chip.is_traced() {
            self.tell_executed(port);
        }
        for words in self.armable() {
            words.arm();
        }
        self.hints.arm();
        DoorbellWords::after_arming();
        if !self.finds_work() && port.attention.try_sleep() {
            self.sleep_armed(port);
        }
        for words in self.armable() {
            words.disarm();
        }
        self.hints.disarm();
    }

    /// The doorbells whose status changes as the engine falls asleep and wakes.
    fn armable(&self) -> impl Iterator<Item = DoorbellWords<'_>> {
        self.watches.iter().filter_map(Watch::armable)
    }

    /// Looks at all doorbells and at all rings that they hint at; whether a queue is in line then.
    fn finds_work(&mut self) -> bool {
        self.look_at_doorbells(Scan::Full);
        let Self { core, hints, run_list, .. } = self;
        hints.scan_all(|hinted| look_at_hinted(core, run_list, hinted));
        self.has_power && self.run_list.is_runnable()
    }

    /// Asleep, until somebody raises attention, or a guest kicks and has rung.
    fn sleep_armed(&mut self, port: &EnginePort) {
        let mut idle = self.may_ask_for_f1().and_then(|idle| Instant::now().checked_add(idle));
        loop {
            let woken = port.wake.wait(idle);
            if woken == Woken::TimedOut {
                self.asked_for_f1 = true;
                self.core.chip.change_state(port, engine_state::TRANSITION_TO_F1);
                idle = None;
                continue;
            }
            port.wakeups.fetch_add(1, Ordering::Relaxed);
            self.has_woken = true;
            let rescans = self.core.chip.rescans();
            if std::mem::replace(&mut self.rescans, rescans) != rescans {
                self.core.unit.tlb.flush();
            }
            if woken == Woken::Signaled {
                return;
            }
            if self.finds_work() && port.attention.try_wake() {
                // Before it tells all guests that it is awake: somebody waits for this.
                self.give_a_turn(port);
                return;
            }
        }
    }

    /// How long it sleeps before it asks for F1, which it does once. A queue that waits for a fence is
    /// work. Source: user-mode work submission, "Engine F-state transitions".
    fn may_ask_for_f1(&mut self) -> Option<Duration> {
        if self.asked_for_f1 || !self.has_power {
            return None;
        }
        if self.run_list.has_work() {
            // Of a queue that is off the run list it is none.
            self.run_list.drop_suspended();
        }
        self.times.idle.filter(|_| !self.run_list.has_work())
    }
}

/// Looks at the ring of a queue that may have rung. Not of one that is off the run list: see
/// [`Engine::kick`].
fn look_at_hinted(core: &mut Core, run_list: &mut RunList, hinted: &Hinted) {
    if hinted.queue.membership.may_run() {
        look_at_ring(core, run_list, hinted.index);
    }
}

/// Looks once at what a queue's ring and its kernel-mode submissions hold, and puts it in line.
fn look_at_ring(core: &mut Core, run_list: &mut RunList, index: u32) {
    let Some(entry) = run_list.get(index) else { return };
    if entry.is_dead() {
        return;
    }
    let looked = core.with(entry, |execution, queue, context| execution.look(queue, context));
    match looked {
        Ok(true) => {
            core.note_use(&entry.queue);
            run_list.make_runnable(index);
        }
        Ok(false) => {}
        Err(violation) => core.fault(entry, violation),
    }
}

#[cfg(test)]
mod tests;
