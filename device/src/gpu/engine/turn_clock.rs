// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an engine knows of the time of its turns.
//!
//! While there is work, turns are timed back to back, with one read of the clock for each.
//! [`sampling`](super::sampling) says which short turns need no timing, and [`scans`](super::scans) at how many
//! doorbells an engine looks after a turn. [`Standstill`] tells what a turn took from what took the engine's processor.

use super::command_processor::CommandProcessor;
use super::packets::context::Timing;
use super::run_list::Entry;
use super::scans::Scans;
use crate::gpu::shared::chip::{Chip, EnginePort};
use crate::gpu::shared::thread::standstill::Standstill;
use crate::gpu::shared::trace_log::Executed;

/// Nanoseconds: longer than any turn takes, since turns are bounded. Beyond it, the engine's thread was not
/// running: its processor ran other threads, which is charged to no queue, or it stood in the guest's memory, which is
/// charged to the guest.
const LONGEST_TURN: u64 = 20_000_000;

/// The engine time of a turn, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct TurnTime {
    /// The turn's own time.
    pub own: u64,
    /// Its own time, and the time of the untimed turns for which it is a sample.
    pub all: u64,
    /// The part of its own time for which the engine stood.
    pub stood: u64,
}

/// The start of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The time on the adapter's clock; `None` if the turn need not be timed as long as it only executes a burst.
    pub began: Option<u64>,
    /// Other queues wait, or the engine has done nothing else since the last turn.
    pub follows_work: bool,
}

/// An engine's last turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LastTurn {
    /// The engine has done something else since.
    #[default]
    None,
    /// The turn was not timed.
    Untimed,
    /// The turn ended at this time on the adapter's clock.
    Ended(u64),
}

/// Times an engine's turns.
#[derive(Debug, Default)]
pub struct TurnClock {
    last: LastTurn,
    scans: Scans,
    /// Turns that a tracing tool has yet to be told of.
    executed: Executed,
    standstill: Standstill,
}

impl TurnClock {
    /// The calling thread begins to give turns.
    pub fn begin_thread(&mut self, chip: &Chip) {
        self.standstill.begin(chip.now());
    }

    /// The thread is about to sleep until it has work. Whether it does or not, what was before counts for no turn.
    pub fn sleep(&mut self, chip: &Chip, unit: &mut CommandProcessor) {
        self.count_from(chip.now(), unit);
    }

    #[cold]
    fn count_from(&mut self, now: u64, unit: &mut CommandProcessor) {
        self.standstill.count_from(now);
        unit.take_waited();
    }

    /// The thread has slept.
    pub fn wake(&mut self, chip: &Chip) {
        self.standstill.wake(chip.now());
    }

    /// The engine does something other than a turn, and no queue is charged for that time.
    #[inline]
    pub fn pause(&mut self) {
        self.last = LastTurn::None;
    }

    /// A queue's turn begins.
    #[inline]
    pub fn begin(&self, chip: &Chip, entry: &Entry, contested: bool) -> Start {
        let is_first = self.last == LastTurn::None;
        let follows_work = contested || entry.execution.is_in_packet() || !is_first;
        let is_free = !follows_work && !entry.sampling.is_due() && !chip.is_traced();
        let began = match self.last {
            LastTurn::Ended(ended) => Some(ended),
            _ if is_free => None,
            _ => Some(chip.now()),
        };
        Start { began, follows_work }
    }

    /// The turn is over. Returns its time, if it was measured.
    #[inline]
    pub fn end(
        &mut self,
        chip: &Chip,
        port: &EnginePort,
        entry: &mut Entry,
        start: Start,
        timing: Timing,
        unit: &mut CommandProcessor,
    ) -> Option<TurnTime> {
        let Some(began) = timing.began else {
            entry.sampling.skip();
            self.last = LastTurn::Untimed;
            return None;
        };
        // A sample also stands for turns that were not timed.
        let is_sample = !start.follows_work && timing.is_short;
        let ended = chip.now();
        let time = ended.saturating_sub(began);
        let mut stood = 0;
        if time > LONGEST_TURN {
            stood = self.standstill.of_turn((began, ended), unit.take_waited());
        } else if self.standstill.is_stale(ended) {
            // All of a short turn is charged.
            self.count_from(ended, unit);
        }
        let own = time.min(LONGEST_TURN).max(stood);
        let others = if is_sample { entry.sampling.sample(time) } else { 0 };
        port.turns.end_timed(&entry.queue, ended.saturating_add(others));
        self.last = LastTurn::Ended(ended);
        self.scans.end_turn(ended);
        if chip.is_traced()
            && let Some(entry) = self.executed.add(entry.queue.id.0, (began, ended))
        {
            port.trace(entry);
        }
        Some(TurnTime { own, all: own.saturating_add(others), stood })
    }

    /// The number of doorbells to look at, of this many that have not rung lately.
    #[inline]
    pub fn due(&mut self, doorbells: usize) -> usize {
        self.scans.due(doorbells)
    }

    /// Tells a tracing tool what was executed, now that the work has ended.
    #[cold]
    pub fn tell_executed(&mut self, port: &EnginePort) {
        if let Some(entry) = self.executed.take() {
            port.trace(entry);
        }
    }
}
