// SPDX-License-Identifier: MIT OR Apache-2.0

//! An engine: the thread that watches doorbells and executes queues.
//!
//! The engine looks at its doorbells, gives each queue with work a turn, and looks again. After some time without
//! work, it arms its doorbells, so that guests notify after ringing them, and sleeps. Other threads that need the
//! engine raise its attention.
//!
//! The engine shares no lock with the control plane. From doorbell to fence, it allocates nothing and makes no
//! system call.

use super::aside::Aside;
use super::command_processor::Turn;
use super::doorbells::Doorbells;
use super::executor::Core;
use super::idleness::{Idleness, Round};
use super::others::Others;
use super::run_list::RunList;
use super::schedule::Pick;
use super::turn_clock::TurnClock;
use super::workers::Workers;
use crate::gpu::memory::violation::Violation;
use crate::gpu::processors;
use crate::gpu::security;
use crate::gpu::shared::chip::{Chip, EnginePort, attention, engine_state};
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::shared::statistics::Tally;
use crate::gpu::shared::wake::Woken;
use crate::gpu::workers::mailboxes::Mailboxes;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::power::Asked;
use bellhop_protocol::polling::Yields;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// A hang takes more turns than this without progress: the engine's thread may stop this often, each time in the
/// middle of a turn, without a hang being reported.
const STOPS_IN_A_HANG: u32 = 64;

/// An engine's own state.
#[derive(Debug)]
pub struct Engine {
    core: Core,
    times: Times,
    clock: TurnClock,
    doorbells: Doorbells,
    run_list: RunList,
    /// Whether it executes. Without power, it only attends.
    has_power: bool,
    /// The last power transition that it made or refused.
    answered: u64,
    /// Whether it has asked for F1 since it last had work.
    asked_for_f1: bool,
    /// `Chip::rescans` when it was last awake.
    rescans: u64,
    /// `Chip::memory_changes` when it last quiesced.
    memory_changes: u64,
    /// Index on the run list of the queue that had the last turn.
    last_served: u32,
    /// Whether it shares its processor with the threads that ring.
    yields: Yields,
    aside: Aside,
    /// Whether it has executed nothing since it woke.
    has_woken: bool,
    /// Pre-empted queues whose workers have yet to leave their memory.
    leaving: Vec<Arc<HwQueue>>,
}

/// The engine's time limits.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// For how long it looks at its doorbells without finding work.
    pub spin: Duration,
    /// For how long it sleeps before it asks for F1.
    pub idle: Option<Duration>,
    /// For how long it executes a queue that makes no progress.
    pub hang: Duration,
    /// For how long it executes one context while others of equal priority in the guest wait.
    pub quantum: Duration,
}

/// Whether the engine continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

impl Engine {
    /// An engine without queues. `index` is its node and its index among the chip's ports. It executes kernels if
    /// there are mailboxes, and what needs keys if there is the other.
    pub fn new(
        chip: Arc<Chip>,
        index: u32,
        engine_type: EngineType,
        times: Times,
        mailboxes: Option<Arc<Mailboxes>>,
        security: Option<Arc<security::mailbox::Mailbox>>,
    ) -> Self {
        let workers = mailboxes.map(|mailboxes| Workers::new(mailboxes, index));
        let security = security.map(security::unit::SecurityUnit::new);
        Self {
            core: Core::new(chip, index, engine_type, workers, security),
            times,
            clock: TurnClock::default(),
            doorbells: Doorbells::default(),
            run_list: RunList::new(times.quantum, index),
            has_power: true,
            answered: 0,
            asked_for_f1: false,
            rescans: 0,
            memory_changes: 0,
            last_served: 0,
            yields: Yields::new(),
            aside: Aside::default(),
            has_woken: false,
            leaving: Vec::new(),
        }
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) {
        if let Some(port) = self.core.chip.engines.get(self.core.index as usize) {
            port.thread.begin();
        }
        self.clock.begin_thread(&self.core.chip);
        self.run_until(Self::idle);
    }

    /// Runs until it is told to stop. Calls `idle` in each round without work, which may also stop it.
    #[inline]
    fn run_until(&mut self, idle: impl Fn(&mut Self, &EnginePort, &mut Idleness) -> Next) {
        let chip = Arc::clone(&self.core.chip);
        let Some(port) = chip.engines.get(self.core.index as usize) else { return };
        let mut idleness = Idleness::default();
        loop {
            if port.attention.is_raised() && self.attend(port) == Next::Stop {
                return;
            }
            self.look_at_doorbells();
            if self.give_a_turn(port) {
                self.yields.progress();
                idleness = Idleness::default();
                continue;
            }
            self.clock.pause();
            if idle(self, port, &mut idleness) == Next::Stop {
                return;
            }
        }
    }

    /// Waits briefly for work: looks again at once, pauses, yields its processor, or sleeps.
    #[inline]
    fn idle(&mut self, port: &EnginePort, idleness: &mut Idleness) -> Next {
        match idleness.another_round(self.times.spin, &self.yields) {
            Round::Fresh => self.foresee(),
            Round::Idle => {
                if self.core.chip.is_traced() {
                    self.clock.tell_executed(port);
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

    /// Prefetches what the queue that had the last turn submits next, before its doorbell rings: the cache lines
    /// arrive while the guest stores to the doorbell, and not after. The engine prefetches for no other queue, so
    /// that it takes no line from a guest that is filling it.
    #[inline]
    fn foresee(&mut self) {
        if let Some(entry) = self.run_list.get(self.last_served) {
            self.core.prefetch(entry);
        }
    }

    /// Yields its processor to a guest's thread that may be about to ring, or leaves it to that thread.
    #[cold]
    fn end_spell(&mut self, port: &EnginePort) {
        if self.yields.shares_processor() && self.aside.is_due(Instant::now()) {
            // Where the kernel refuses, they share it as before.
            let _ = processors::step_aside();
        }
        let gave_away = self.yields.spell(|| {
            let start = Instant::now();
            thread::yield_now();
            start.elapsed()
        });
        port.yields.fetch_add(gave_away.into(), Ordering::Relaxed);
    }

    /// Handles everything that attention was raised for.
    fn attend(&mut self, port: &EnginePort) -> Next {
        self.clock.pause();
        let bits = port.attention.take();
        if bits & attention::STOP != 0 {
            return Next::Stop;
        }
        if bits & attention::WATCHES != 0 {
            self.doorbells.take_changes(port, &mut self.run_list);
        }
        if bits & attention::KICK != 0 {
            while let Some(queue) = port.kicks.pop() {
                // Before the look, so that no later kick is lost.
                queue.kicked.take();
                self.kick(port, &queue);
            }
        }
        if bits & attention::PREEMPT != 0 {
            // Before workers are taken off queues that may not run: these may not.
            self.leaving.extend(std::iter::from_fn(|| port.preempted.pop()));
        }
        if self.core.unit.workers.is_some() {
            self.attend_to_workers(port, bits);
        }
        if !self.leaving.is_empty() {
            self.end_preemptions();
        }
        if bits & attention::RESET != 0 {
            // The packet that it was stuck in, if any, was given up.
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
        // Last: a thread that waits for the ticket finds the rest done.
        if bits & attention::QUIESCE != 0 {
            self.quiesce(port);
        }
        Next::GoOn
    }

    /// Reports pre-empted queues. Between two turns, none is in execution by the engine itself, and these get no more turns.
    #[cold]
    fn end_preemptions(&mut self) {
        let Self { core, leaving, .. } = self;
        leaving.retain(|queue| {
            if core.unit.workers.as_ref().is_some_and(|workers| workers.is_leaving(queue.id)) {
                return true;
            }
            if queue.preemption.stop() {
                core.chip.interrupts.raise_preempted(queue.id);
            }
            false
        });
    }

    /// Takes what the manager of workers has, and takes workers off queues that no longer execute.
    #[cold]
    fn attend_to_workers(&mut self, port: &EnginePort, bits: u64) {
        let engine = self.core.index;
        let Some(workers) = &mut self.core.unit.workers else { return };
        if bits & attention::LOOK != 0 {
            workers.look_again(|guest, time| charge_aside(&mut self.run_list, engine, guest, time));
        }
        if bits & attention::WORKERS != 0 {
            workers.take_notes();
            self.run_list.unblock_all();
        }
        workers.settle(port, |guest, time| charge_aside(&mut self.run_list, engine, guest, time));
    }

    /// Loses its power, unless it has work, or gets it back.
    fn change_power(&mut self, port: &EnginePort) {
        let Some(Asked { on, transition }) = port.power.asked(self.answered) else { return };
        self.answered = transition;
        // Queues that are off the run list leave the line.
        self.run_list.drop_suspended();
        self.has_power = on || self.run_list.has_work();
        if self.has_power && !on {
            port.power.refuse(transition);
            self.core.chip.change_state(port, engine_state::ACTIVE);
        }
        self.asked_for_f1 = false;
    }

    /// Looks once at the queue's ring and its kernel-mode submissions.
    fn kick(&mut self, port: &EnginePort, queue: &Arc<HwQueue>) {
        let Some(index) = self.run_list.enlist(queue) else { return };
        if queue.membership.is_destroyed() {
            self.doorbells.remove(port, &mut self.run_list, index);
            return self.run_list.forget(index);
        }
        if queue.is_lost() {
            // A worker may be executing its kernels, which other queues of the process wait for.
            return self.run_list.kill(index);
        }
        if let Some(entry) = self.run_list.get(index) {
            entry.refresh_ring();
            if queue.is_system()
                && let Some(fence) = queue.partition.paging().take_abandoned()
                && entry.execution.submission_fence() == Some(fence)
            {
                self.core.fault(entry, Violation::new(FaultReason::ENGINE_TIMEOUT, 0));
                // The queue may have waited for a flush, and has its next submission to execute.
                self.run_list.unblock_all();
            }
        }
        // While a queue is off the run list, its ring need not be resident. The control plane kicks when it puts
        // the queue back.
        if queue.membership.may_run() {
            self.core.look_at_ring(&mut self.run_list, index);
        }
    }

    /// Puts queues in line that rang their doorbells.
    ///
    /// Inlined: a call would cost more than the look at a few doorbells.
    #[inline(always)]
    fn look_at_doorbells(&mut self) {
        let Self { core, clock, doorbells, run_list, last_served, .. } = self;
        doorbells.look(core, run_list, *last_served, |others| clock.due(others));
    }

    /// Gives the next queue in line a turn. Returns false if no queue is in line.
    ///
    /// A lone queue's only turn after the engine was idle is not charged to its guest.
    #[inline]
    fn give_a_turn(&mut self, port: &EnginePort) -> bool {
        if !self.has_power {
            return false;
        }
        let Some((Pick { queue: index, contested }, entry)) = self.run_list.next() else {
            return false;
        };
        let Some(entry) = entry else { return true };
        if !entry.queue.membership.may_run() {
            // Off the run list, or destroyed: the control plane kicks a queue when it puts it back.
            entry.count_doorbells(self.core.index);
            self.run_list.end_turn(index, Turn::Idle, None);
            return true;
        }
        self.asked_for_f1 = false;
        self.last_served = index;
        if self.has_woken {
            self.has_woken = false;
            // A wake-up for the system context counts for no guest.
            if !entry.queue.is_system() {
                entry.queue.partition.counters().woke(self.core.index);
            }
        }
        let start = self.clock.begin(&self.core.chip, entry, contested);
        port.turns.begin(&entry.queue);
        if let Some(began) = start.began {
            port.turns.time(&entry.queue, began);
        }
        let mut tally = Tally { doorbells: entry.doorbells, ..Tally::default() };
        entry.doorbells = 0;
        let (yields, hang) = (&self.yields, self.times.hang);
        let Doorbells { watches, hints, .. } = &self.doorbells;
        let others = || {
            (!contested).then(|| Others {
                port,
                watches,
                hints,
                index,
                // A thread that shares the processor may be the one that signals a fence: polling would delay it.
                may_poll: !yields.shares_processor(),
                // As much as a turn counts for a hang.
                longest_nap: hang / STOPS_IN_A_HANG,
            })
        };
        let (turn, timing) = self.core.turn(entry, &mut tally, start.began, others);
        port.turns.end();
        let mut charge = None;
        let Core { chip, unit, .. } = &mut self.core;
        if let Some(time) = self.clock.end(chip, port, entry, start, timing, unit) {
            tally.engine_time = time.all;
            let is_charged = start.follows_work || turn == Ok(Turn::Runnable);
            // An engine that stood for a queue that was alone has others wait as well.
            charge = (is_charged || time.stood > 0).then(|| Duration::from_nanos(time.own));
            if time.stood > 0 {
                entry.queue.partition.account().owe(self.core.index, time.stood);
            }
        }
        // The host's packets in the system context do not count as the guest's.
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
            // A system queue continues with its next submission.
            if entry.queue.is_system() { Turn::Runnable } else { Turn::Idle }
        });
        self.run_list.end_turn(index, next, charge);
        true
    }

    /// Reports that it is between two turns and past all changes before the latest ticket: each turn begins with
    /// the current state of what its guest has flushed, and destroyed queues were kicked.
    fn quiesce(&mut self, port: &EnginePort) {
        // First: a request that comes during this raises attention again.
        let ticket = self.core.chip.latest_ticket();
        let changes = self.core.chip.memory_changes();
        if std::mem::replace(&mut self.memory_changes, changes) != changes {
            self.run_list.catch_up();
        }
        let engine = self.core.index;
        if let Some(workers) = &mut self.core.unit.workers {
            workers
                .settle(port, |guest, time| charge_aside(&mut self.run_list, engine, guest, time));
            workers.pass(ticket);
        }
        self.core.chip.passed(port, ticket);
    }

    /// Sleeps until attention is raised, unless there is work after all.
    fn sleep(&mut self, port: &EnginePort) {
        if self.falls_asleep(port) {
            self.sleep_armed(port);
            self.doorbells.disarm();
        }
    }

    /// Asks guests to notify, and falls asleep unless there is work after all. Returns whether it sleeps.
    fn falls_asleep(&mut self, port: &EnginePort) -> bool {
        self.has_woken = false;
        if self.core.chip.is_traced() {
            self.clock.tell_executed(port);
        }
        // Before doorbells are armed, when nobody waits for the engine.
        self.clock.sleep(&self.core.chip, &mut self.core.unit);
        self.doorbells.arm();
        let sleeps = !self.finds_work() && port.attention.try_sleep();
        if !sleeps {
            self.doorbells.disarm();
        }
        sleeps
    }

    /// Looks at all doorbells and at all rings that they hint at. Returns whether a queue is in line then.
    fn finds_work(&mut self) -> bool {
        let Self { core, doorbells, run_list, last_served, .. } = self;
        doorbells.look_at_all(core, run_list, *last_served);
        self.has_power && self.run_list.is_runnable()
    }

    /// Sleeps until a thread raises attention, or a guest that has rung kicks.
    fn sleep_armed(&mut self, port: &EnginePort) {
        let mut idle = self.may_ask_for_f1().and_then(|idle| Instant::now().checked_add(idle));
        loop {
            let woken = port.wake.wait(idle);
            self.clock.wake(&self.core.chip);
            if woken == Woken::TimedOut {
                self.asked_for_f1 = true;
                self.core.chip.change_state(port, engine_state::TRANSITION_TO_F1);
                idle = None;
                continue;
            }
            if self.wakes(port, woken) {
                return;
            }
            // It sleeps on. What it did for a kick without work counts for no turn.
            self.clock.sleep(&self.core.chip, &mut self.core.unit);
        }
    }

    /// Something has woken it. Returns whether it is awake now.
    fn wakes(&mut self, port: &EnginePort, woken: Woken) -> bool {
        port.wakeups.fetch_add(1, Ordering::Relaxed);
        self.has_woken = true;
        let rescans = self.core.chip.rescans();
        if std::mem::replace(&mut self.rescans, rescans) != rescans {
            self.core.unit.tlb.flush();
            let engine = self.core.index;
            if let Some(workers) = &mut self.core.unit.workers {
                workers.look_again(|guest, time| {
                    charge_aside(&mut self.run_list, engine, guest, time)
                });
            }
        }
        if woken == Woken::Signaled {
            return true;
        }
        if self.finds_work() && port.attention.try_wake() {
            // Before it tells all guests that it is awake: a guest waits for this turn.
            self.give_a_turn(port);
            return true;
        }
        false
    }

    /// How long it sleeps before it asks for F1, which it does once. A queue that waits for a fence counts as work.
    /// Source: user-mode work submission, "Engine F-state transitions".
    fn may_ask_for_f1(&mut self) -> Option<Duration> {
        if self.asked_for_f1 || !self.has_power {
            return None;
        }
        if self.run_list.has_work() {
            // Queues that are off the run list do not count as work.
            self.run_list.drop_suspended();
        }
        self.times.idle.filter(|_| !self.run_list.has_work())
    }
}

/// Charges what a guest's worker took beside the engine's turns, as engine time.
fn charge_aside(run_list: &mut RunList, engine: u32, guest: &Partition, time: Duration) {
    run_list.charge_aside(guest, time);
    let engine_time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    guest.counters().add(engine, Tally { engine_time, ..Tally::default() });
}

#[cfg(feature = "stepped")]
mod steps;
#[cfg(test)]
mod tests;
