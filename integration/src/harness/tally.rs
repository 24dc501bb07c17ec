//! What became of a queue so far.

use super::layout::Lane;
use super::seed::Choices;
use bellhop_guest_umd::DoorbellCounters;
use std::time::Instant;

/// Most that is told of what is wrong with one queue.
const MAX_PROBLEMS: usize = 4;

/// What became of a queue so far. It outlives the queue itself: a guest that is reset, or a queue
/// that is lost and made anew, goes on counting.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// The number of the last submission.
    pub(super) number: u64,
    pub(super) submitted: u64,
    pub(super) completed: u64,
    /// Gone with a lost queue, or with the guest.
    pub(super) dropped: u64,
    pub(super) losses: u64,
    /// What the device said of the last of them.
    pub(super) last_loss: String,
    pub(super) counters: DoorbellCounters,
    /// What is wrong.
    pub(super) problems: Vec<String>,
    pub(super) ended: Option<Ended>,
    /// When it last submitted.
    pub(super) due: Option<Instant>,
    choices: Option<Choices>,
}

/// How a queue came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It did what it had to.
    Done,
    /// It was lost.
    Lost,
    /// The queue that it waits for came to its end before.
    Stranded,
    /// A submission did not complete.
    Stuck,
    /// The run was given up.
    GivenUp,
}

impl Tally {
    pub(super) fn new(lane: &Lane, seed: u64) -> Self {
        let choices = Some(Choices::of(&lane.to_string(), seed));
        Self { choices, ..Self::default() }
    }

    pub(super) fn problem(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    pub(super) fn choose(&mut self, low: u64, high: u64) -> u64 {
        self.choices.as_mut().map_or(low, |choices| choices.between(low, high))
    }
}
