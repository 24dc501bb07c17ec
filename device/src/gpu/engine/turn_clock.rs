// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an engine knows of the time of its turns.
//!
//! Turns are timed from one to the next, with one look at the clock for each while there is work. Which short turns
//! need none, [`sampling`](super::sampling) says; how many doorbells an engine looks at after a turn,
//! [`scans`](super::scans).

use super::packets::context::Timing;
use super::run_list::Entry;
use super::scans::Scans;
use crate::gpu::shared::chip::{Chip, EnginePort};
use crate::gpu::shared::trace_log::Executed;

/// Nanoseconds, longer than any turn takes, bounded as turns are. What is measured beyond it the engine's thread did not run
/// for: it was stopped, or others had its processor. That time is held against no queue.
const LONGEST_TURN: u64 = 20_000_000;
/// The engine time of a turn, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct TurnTime {
    /// The turn's.
    pub own: u64,
    /// With the turns that it stands for.
    pub all: u64,
}

/// A turn that begins.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// When, on the adapter's clock; none for a turn that need not be timed as long as it only executes a burst.
    pub began: Option<u64>,
    /// Other queues wait, or the engine has done nothing else since the turn before.
    pub follows_work: bool,
}

/// The last turn that an engine gave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LastTurn {
    /// The engine has done something else since.
    #[default]
    None,
    /// It was not timed.
    Untimed,
    /// It ended then, on the adapter's clock.
    Ended(u64),
}

/// The clock by which an engine gives turns.
#[derive(Debug, Default)]
pub struct TurnClock {
    last: LastTurn,
    scans: Scans,
    /// Turns that a tool that traces was not told of yet.
    executed: Executed,
}

impl TurnClock {
    /// The engine does something else than to give turns: the time that this takes is no queue's.
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

    /// The turn is over. Returns what it took, if that was measured.
    #[inline]
    pub fn end(
        &mut self,
        chip: &Chip,
        port: &EnginePort,
        entry: &mut Entry,
        start: Start,
        timing: Timing,
    ) -> Option<TurnTime> {
        let Some(began) = timing.began else {
            entry.sampling.skip();
            self.last = LastTurn::Untimed;
            return None;
        };
        // A sample stands for turns that were not timed, too.
        let is_sample = !start.follows_work && timing.is_short;
        let ended = chip.now();
        let time = ended.saturating_sub(began);
        let own = time.min(LONGEST_TURN);
        let others = if is_sample { entry.sampling.sample(time) } else { 0 };
        port.turns.end_timed(&entry.queue, ended.saturating_add(others));
        self.last = LastTurn::Ended(ended);
        if chip.is_traced()
            && let Some(entry) = self.executed.add(entry.queue.id.0, (began, ended))
        {
            port.trace(entry);
        }
        Some(TurnTime { own, all: own.saturating_add(others) })
    }

    /// After a turn: at how many an engine looks of this many doorbells that have not rung lately.
    #[inline]
    pub fn due(&mut self, doorbells: usize) -> usize {
        match self.last {
            LastTurn::Ended(ended) if doorbells > 0 => self.scans.after_turn(ended, doorbells),
            _ => 0,
        }
    }

    /// Tells a tool that traces what was executed, now that there is nothing more.
    #[cold]
    pub fn tell_executed(&mut self, port: &EnginePort) {
        if let Some(entry) = self.executed.take() {
            port.trace(entry);
        }
    }
}
