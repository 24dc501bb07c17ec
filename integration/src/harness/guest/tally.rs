// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results of a queue so far.

use crate::harness::scenario::layout::Lane;
use crate::harness::scenario::seed::Choices;
use bellhop_guest_umd::DoorbellCounters;
use std::time::Instant;

/// Most problems that are reported of one queue.
const MAX_PROBLEMS: usize = 4;

/// The results of a queue so far. They outlive the queue itself: a reset guest, or a lost queue that is made
/// anew, continues counting.
#[derive(Debug, Clone, Default)]
pub(in crate::harness) struct Tally {
    /// The number of the last submission.
    pub(in crate::harness) number: u64,
    pub(in crate::harness) submitted: u64,
    pub(in crate::harness) completed: u64,
    /// Submissions that went with a lost queue, or with the guest.
    pub(in crate::harness) dropped: u64,
    pub(in crate::harness) losses: u64,
    /// The device's reason for the last loss.
    pub(in crate::harness) last_loss: String,
    pub(in crate::harness) counters: DoorbellCounters,
    /// Wrong results.
    pub(in crate::harness) problems: Vec<String>,
    pub(in crate::harness) ended: Option<Ended>,
    /// When the next batch is due, if think time must pass first.
    pub(in crate::harness) due: Option<Instant>,
    choices: Option<Choices>,
}

/// How a queue ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::harness) enum Ended {
    /// It did all of its work.
    Done,
    /// It was lost.
    Lost,
    /// The queue that it waits for ended too early.
    Stranded,
    /// A submission did not complete.
    Stuck,
    /// The run was given up.
    GivenUp,
}

impl Tally {
    pub(in crate::harness) fn new(lane: &Lane, seed: u64) -> Self {
        let choices = Some(Choices::of(&lane.to_string(), seed));
        Self { choices, ..Self::default() }
    }

    pub(in crate::harness) fn problem(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    pub(in crate::harness) fn choose(&mut self, low: u64, high: u64) -> u64 {
        self.choices.as_mut().map_or(low, |choices| choices.between(low, high))
    }
}
