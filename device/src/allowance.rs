// SPDX-License-Identifier: MIT OR Apache-2.0

//! How often a guest may have something done: so many times at once, and once for each interval in the long run.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How often something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time after which it may be done once more, in the long run.
    pub interval: Duration,
    /// How many times it may be done at once.
    pub burst: u32,
}

impl Rate {
    /// So many times in a second in the long run, and so many at once.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { interval: Duration::from_secs(1) / per_second.max(1), burst }
    }
}

/// What is left of an allowance.
#[derive(Debug)]
pub struct Allowance {
    /// The time when it is whole again, in nanoseconds of any one clock. While that is less than a burst away, there is
    /// something left.
    whole_at: AtomicU64,
    /// The interval of a rate of its own, in nanoseconds; `NONE` without one.
    interval: AtomicU64,
    /// The burst of a rate of its own.
    burst: AtomicU32,
}

/// No interval: the allowance has the rate that it is asked with.
const NONE: u64 = u64::MAX;

impl Default for Allowance {
    fn default() -> Self {
        let (whole_at, interval) = (AtomicU64::new(0), AtomicU64::new(NONE));
        Self { whole_at, interval, burst: AtomicU32::new(0) }
    }
}

impl Allowance {
    /// Gives the allowance a rate of its own.
    pub fn set_rate(&self, rate: Rate) {
        // Relaxed: whoever sees only one of the two is wrong by that for one attempt.
        self.burst.store(rate.burst, Ordering::Relaxed);
        self.interval.store(nanoseconds(rate.interval).min(NONE - 1), Ordering::Relaxed);
    }

    fn rate(&self, usual: Rate) -> Rate {
        match self.interval.load(Ordering::Relaxed) {
            NONE => usual,
            interval => Rate {
                interval: Duration::from_nanos(interval),
                burst: self.burst.load(Ordering::Relaxed),
            },
        }
    }

    /// The time and what one costs, in nanoseconds, and when the allowance would be whole again if nothing were left.
    fn terms(&self, now: Duration, rate: Rate) -> (u64, u64, u64) {
        let rate = self.rate(rate);
        let (now, cost) = (nanoseconds(now), nanoseconds(rate.interval));
        (now, cost, now.saturating_add(cost.saturating_mul(rate.burst.into())))
    }

    /// Whether one is left, `now` on the allowance's clock, at this rate unless it has one of its own.
    ///
    /// # Errors
    /// How long until there is one, if none is left.
    pub fn check(&self, now: Duration, rate: Rate) -> Result<(), Duration> {
        let (now, cost, most) = self.terms(now, rate);
        // Relaxed: the number hands nothing over.
        let whole_at = self.whole_at.load(Ordering::Relaxed).max(now).saturating_add(cost);
        let wait = whole_at.saturating_sub(most);
        if wait == 0 { Ok(()) } else { Err(Duration::from_nanos(wait)) }
    }

    /// Takes so many that were used already, even if fewer are left: there are none then until the rest is made good.
    pub fn charge(&self, now: Duration, rate: Rate, used: u64) {
        let (now, cost, _) = self.terms(now, rate);
        let charge =
            |whole_at: u64| Some(whole_at.max(now).saturating_add(cost.saturating_mul(used)));
        // Relaxed: the number hands nothing over. It never fails.
        let _ = self.whole_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge);
    }

    /// Takes one, `now` on the allowance's clock, at this rate unless it has one of its own.
    ///
    /// # Errors
    /// How long until there is one, if none is left.
    pub fn take(&self, now: Duration, rate: Rate) -> Result<(), Duration> {
        let (now, cost, most) = self.terms(now, rate);
        let whole = |whole_at: u64| whole_at.max(now).saturating_add(cost);
        let charge = |whole_at| Some(whole(whole_at)).filter(|whole_at| *whole_at <= most);
        // Relaxed: the number hands nothing over.
        match self.whole_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge) {
            Ok(_) => Ok(()),
            Err(whole_at) => Err(Duration::from_nanos(whole(whole_at) - most)),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_had_at_once_and_then_one_for_each_interval() {
        let allowance = Allowance::default();
        let rate = Rate { interval: Duration::from_millis(100), burst: 5 };
        let taken_at = |milliseconds| {
            let now = Duration::from_millis(milliseconds);
            (0..1000).filter(|_| allowance.take(now, rate).is_ok()).count()
        };
        assert_eq!([0, 0, 99, 100, 350, 10_000].map(taken_at), [5, 0, 0, 1, 2, 5]);
    }

    #[test]
    fn a_rate_of_its_own_takes_precedence() {
        let allowance = Allowance::default();
        let usual = Rate::new(10, 2);
        allowance.set_rate(Rate::new(1000, 5));
        let taken_at = |milliseconds| {
            let now = Duration::from_millis(milliseconds);
            (0..1000).filter(|_| allowance.take(now, usual).is_ok()).count()
        };
        assert_eq!([0, 1, 3].map(taken_at), [5, 1, 2]);
    }

    #[test]
    fn whoever_waits_as_long_as_it_is_told_gets_one() {
        let allowance = Allowance::default();
        let rate = Rate::new(10, 2);
        let mut now = Duration::from_secs(7);
        assert_eq!([(); 3].map(|()| allowance.take(now, rate).is_ok()), [true, true, false]);
        now += Duration::from_millis(30);
        let wait = allowance.take(now, rate).unwrap_err();
        assert_eq!(wait, Duration::from_millis(70));
        assert!(allowance.take(now + wait - Duration::from_nanos(1), rate).is_err());
        assert_eq!(allowance.take(now + wait, rate), Ok(()));
    }

    #[test]
    fn what_was_used_beyond_the_allowance_is_made_good_before_there_is_more() {
        let allowance = Allowance::default();
        let rate = Rate { interval: Duration::from_millis(10), burst: 5 };
        let at = Duration::from_millis;
        assert_eq!(allowance.check(at(0), rate), Ok(()));
        allowance.charge(at(0), rate, 4);
        assert_eq!(allowance.check(at(0), rate), Ok(()));
        // 12 of 5: 7 too many, and the one that is asked for.
        allowance.charge(at(0), rate, 8);
        assert_eq!(allowance.check(at(0), rate), Err(at(80)));
        assert_eq!(allowance.check(at(79), rate), Err(at(1)));
        assert_eq!(allowance.check(at(80), rate), Ok(()));
        assert_eq!(allowance.take(at(80), rate), Ok(()));
        assert_eq!(allowance.take(at(80), rate), Err(at(10)));
        // Nothing is saved up beyond the burst.
        allowance.charge(at(10_000), rate, 5);
        assert_eq!(allowance.check(at(10_000), rate), Err(at(10)));
        allowance.charge(Duration::MAX, rate, u64::MAX);
        assert!(allowance.check(Duration::ZERO, rate).is_err());
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let allowance = Allowance::default();
        assert!(allowance.take(Duration::MAX, Rate { interval: Duration::MAX, burst: 9 }).is_ok());
        let _ = allowance.take(Duration::ZERO, Rate { interval: Duration::ZERO, burst: 1 });
        let _ = allowance.take(Duration::ZERO, Rate::new(0, 0));
    }
}
