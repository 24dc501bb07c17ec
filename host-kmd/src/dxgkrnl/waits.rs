//! The CPU waiters of one native fence.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and
//! "Monitored value".

use bellhop_protocol::handoff::fence::NOT_MONITORED;
use std::collections::BTreeSet;

/// A wait that is satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Satisfied {
    /// What [`Waits::add`] returned.
    pub(super) sequence: u64,
    /// The cookie that it was given.
    pub(super) cookie: u64,
}

/// The waiters of one fence, found by value and by cookie. Cookies need not be unique.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// (value, sequence, cookie)
    by_value: BTreeSet<(u64, u64, u64)>,
    /// (cookie, sequence, value)
    by_cookie: BTreeSet<(u64, u64, u64)>,
    next_sequence: u64,
}

impl Waits {
    /// Adds a waiter and returns its number.
    pub(super) fn add(&mut self, value: u64, cookie: u64) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.by_value.insert((value, sequence, cookie));
        self.by_cookie.insert((cookie, sequence, value));
        sequence
    }

    /// Removes the oldest waiter with this cookie; false when there is none.
    pub(super) fn cancel(&mut self, cookie: u64) -> bool {
        let oldest = self.by_cookie.range((cookie, 0, 0)..=(cookie, u64::MAX, u64::MAX)).next();
        let Some(&(cookie, sequence, value)) = oldest else { return false };
        self.by_cookie.remove(&(cookie, sequence, value));
        self.by_value.remove(&(value, sequence, cookie));
        true
    }

    /// Removes and returns a waiter that `current` satisfies, the least value first.
    pub(super) fn take_reached(&mut self, current: u64) -> Option<Satisfied> {
        let &(value, sequence, cookie) = self.by_value.first()?;
        if value > current {
            return None;
        }
        self.by_value.pop_first();
        self.by_cookie.remove(&(cookie, sequence, value));
        Some(Satisfied { sequence, cookie })
    }

    /// What MonitoredValue must be: the least waited value minus 1.
    pub(super) fn monitored(&self) -> u64 {
        // A wait for 0 is satisfied before it gets here.
        self.by_value.first().map_or(NOT_MONITORED, |(value, ..)| value.saturating_sub(1))
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.by_value.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_monitored_value_is_one_less_than_the_least_waited_one() {
        let mut waits = Waits::default();
        assert_eq!(waits.monitored(), NOT_MONITORED);
        waits.add(42, 1);
        waits.add(50, 2);
        assert_eq!(waits.monitored(), 41);
        assert_eq!(waits.take_reached(41), None);
        assert_eq!(waits.take_reached(42).map(|wait| wait.cookie), Some(1));
        assert_eq!(waits.monitored(), 49);
        assert!(waits.cancel(2));
        assert!(!waits.cancel(2));
        assert_eq!(waits.monitored(), NOT_MONITORED);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Add(u64, u64),
        Cancel(u64),
        Reach(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..20u64, 0..5u64).prop_map(|(value, cookie)| Step::Add(value, cookie)),
            (0..5u64).prop_map(Step::Cancel),
            (0..20u64).prop_map(Step::Reach),
        ]
    }

    proptest! {
        /// Against a plain list in order of arrival.
        #[test]
        fn each_waiter_is_satisfied_or_cancelled_once(
            steps in proptest::collection::vec(step(), 0..100),
        ) {
            let mut waits = Waits::default();
            let mut model: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Add(value, cookie) => {
                        waits.add(value, cookie);
                        model.push((value, cookie));
                    }
                    Step::Cancel(cookie) => {
                        let at = model.iter().position(|(_, c)| *c == cookie);
                        prop_assert_eq!(waits.cancel(cookie), at.is_some());
                        at.map(|at| model.remove(at));
                    }
                    Step::Reach(current) => {
                        let mut got: Vec<_> =
                            std::iter::from_fn(|| waits.take_reached(current))
                                .map(|wait| wait.cookie)
                                .collect();
                        let mut expected: Vec<_> = model
                            .extract_if(.., |(value, _)| *value <= current)
                            .map(|(_, cookie)| cookie)
                            .collect();
                        got.sort_unstable();
                        expected.sort_unstable();
                        prop_assert_eq!(got, expected);
                    }
                }
                let least = model.iter().map(|(value, _)| value - 1).min();
                prop_assert_eq!(waits.monitored(), least.unwrap_or(NOT_MONITORED));
                prop_assert_eq!(waits.len(), model.len());
            }
        }
    }
}
