// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an engine does while it has no work.

use bellhop_protocol::polling::Yields;
use std::time::{Duration, Instant};

/// Rounds without work between two reads of the clock: a few microseconds.
const ROUNDS_IN_A_SPELL: u32 = 64;
/// As `ROUNDS_IN_A_SPELL`, where the submitting threads share the engine's processor.
const ROUNDS_BEFORE_SHARING: u32 = 8;
/// A kind of round without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// There was work a moment ago: the next ring is likely to come soon, and a pause would only delay it.
    Fresh,
    /// A round of a longer idle time.
    Idle,
    /// The last of a spell.
    EndOfSpell,
    /// The last before the engine sleeps.
    Last,
}

/// How long an engine has had no work.
#[derive(Debug, Default)]
pub struct Idleness {
    rounds: u32,
    since: Option<Instant>,
}

impl Idleness {
    /// One more round without work; the last when these have lasted for `limit`. The clock is read once in a spell,
    /// and not at all between two rings in close succession.
    #[inline]
    pub fn another_round(&mut self, limit: Duration, yields: &Yields) -> Round {
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
