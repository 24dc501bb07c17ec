// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long an engine waits for what a worker was told to do.

use std::time::{Duration, Instant};

/// When it is first looked what the worker uses of processors, and how often one looks again while nothing else has it looked.
const LOOKS: Duration = Duration::from_millis(100);
/// When it is too late in any case. Nobody but the worker's guest waits for it, and on a host with much to do it takes until each of the
/// worker's threads has had a processor.
const LONGEST: Duration = Duration::from_secs(1);

/// Patience with a worker that was told something. It counts what the worker uses of processors, not time alone: on a busy host a worker
/// may have none for long, which is not its fault; and one that has them has done it soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    since: Instant,
    /// What the worker had used of processors at the first look.
    used: Option<Duration>,
}

impl Patience {
    /// With what a worker is told now.
    pub fn since(since: Instant) -> Self {
        Self { since, used: None }
    }

    /// When to look whether it is done: no earlier at first, and then from time to time.
    pub fn next_look(&self, now: Instant) -> Instant {
        if self.used.is_none() { self.since + LOOKS } else { now + LOOKS }
    }

    /// Whether it is time to look.
    pub fn has_begun(&self, now: Instant) -> bool {
        self.since + LOOKS <= now
    }

    /// At a look: whether the worker, which has not done it, should have. It has used of processors, since the first look, more than
    /// `most`; or it is too late in any case.
    pub fn is_over(&mut self, now: Instant, used: Option<Duration>, most: Duration) -> bool {
        let used = used.unwrap_or_default();
        let before = *self.used.get_or_insert(used);
        used.saturating_sub(before) > most || self.since + LONGEST <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(25);

    /// Looks each tenth of a second at a worker that uses so much meanwhile, and returns when it was too late, in tenths.
    fn ends(each: Duration) -> u32 {
        let begin = Instant::now();
        let mut patience = Patience::since(begin);
        assert!(!patience.has_begun(begin + LOOKS / 2));
        let moments = (1..).map(|tenths| (tenths, LOOKS * tenths, each * tenths));
        let mut late = moments.map(|(tenths, flown, used)| {
            (tenths, patience.is_over(begin + flown, Some(used), MOST))
        });
        late.find(|(_, is_over)| *is_over).unwrap().0
    }

    #[test]
    fn a_worker_without_a_processor_has_a_second() {
        assert_eq!(ends(Duration::ZERO), 10);
        assert_eq!(ends(Duration::from_millis(2)), 10);
    }

    #[test]
    fn a_worker_that_computes_on_has_until_it_used_what_it_needs() {
        assert_eq!(ends(LOOKS), 2);
        assert_eq!(ends(MOST), 3);
    }

    #[test]
    fn what_a_worker_used_before_the_first_look_does_not_count() {
        let begin = Instant::now();
        let mut patience = Patience::since(begin);
        assert!(!patience.is_over(begin + LOOKS, Some(Duration::from_secs(9)), MOST));
        assert!(!patience.is_over(begin + LOOKS * 2, Some(Duration::from_secs(9)), MOST));
    }
}
