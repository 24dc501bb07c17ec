// SPDX-License-Identifier: MIT OR Apache-2.0

//! A clock that hardly advances while its process does not run.
//!
//! A process may be stopped for seconds: by a debugger, a signal, a frozen control group, or a host that pauses.
//! Engines stop with it, so no guest is charged for that time. Nothing tells the process that it was stopped. The
//! clock therefore looks often while a deadline is near, and counts at most a small part of the wait per look.

use std::time::Duration;

/// Number of looks during a wait.
const LOOKS: u32 = 32;
/// The shortest time between two looks.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);
/// Lateness of a look, in intervals between looks, beyond which the time does not count. A busy machine is late
/// too, and its clock must advance.
const LATENESS: u32 = 2;

/// Monotonic time; the epoch is arbitrary. Each stop of the process adds at most a sixteenth of the current wait.
#[derive(Debug, Default)]
pub(crate) struct RunningClock {
    now: Duration,
    /// The real clock at the last look.
    real: Duration,
    /// The next deadline on this clock, and the interval between looks until then.
    wait: Option<(Duration, Duration)>,
}

impl RunningClock {
    /// Returns the time; `real` is the time on the real clock.
    pub(crate) fn look(&mut self, real: Duration) -> Duration {
        let passed = real.saturating_sub(self.real);
        self.real = self.real.max(real);
        let most = self.wait.map_or(Duration::MAX, |(_, look)| look.saturating_mul(LATENESS));
        self.now = self.now.saturating_add(passed.min(most));
        self.now
    }

    /// Waits for a deadline, if there is one. Returns the time of the next look, on the real clock.
    pub(crate) fn wait_for(&mut self, due: Option<Duration>) -> Option<Duration> {
        let Some(due) = due else {
            self.wait = None;
            return None;
        };
        let left = due.saturating_sub(self.now);
        let look = match self.wait {
            Some((before, look)) if before == due => look,
            _ => (left / LOOKS).max(SHORTEST_LOOK),
        };
        self.wait = Some((due, look));
        Some(self.real.saturating_add(left.min(look)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Waits until `due`; `late` gives the lateness of each look. Returns the real time that the wait took.
    fn wait(
        clock: &mut RunningClock,
        due: Duration,
        mut late: impl FnMut(u32) -> Duration,
    ) -> Duration {
        let began = clock.real;
        for look in 0..100_000 {
            let next = clock.wait_for(Some(due)).unwrap();
            if clock.look(next + late(look)) >= due {
                return clock.real - began;
            }
        }
        panic!("it never comes: {clock:?}");
    }

    #[test]
    fn what_is_due_comes_when_it_is_due() {
        for due in [ms(1), ms(10), ms(2000), ms(3_600_000)] {
            let mut clock = RunningClock::default();
            assert_eq!(wait(&mut clock, due, |_| Duration::ZERO), due);
            assert_eq!(clock.now, due);
        }
    }

    #[test]
    fn a_stop_however_long_is_a_sixteenth_of_a_wait_at_most() {
        for stop in [ms(90), ms(2200), ms(5000), ms(1 << 40)] {
            let mut clock = RunningClock::default();
            let taken = wait(&mut clock, ms(2000), |look| if look == 3 { stop } else { ms(0) });
            assert!(taken >= stop + ms(2000 - 2000 / 16), "{taken:?} with a stop of {stop:?}");
        }
    }

    #[test]
    fn many_stops_while_nothing_else_happens_do_not_make_a_wait_come_true() {
        let mut clock = RunningClock::default();
        let mut stopped = Duration::ZERO;
        let taken = wait(&mut clock, ms(100), |look| {
            let stop = if look < 5 { ms(5000) } else { ms(0) };
            stopped += stop;
            stop
        });
        assert!(taken - stopped >= ms(100 - 5 * 100 / 16 - 1), "{taken:?}");
    }

    #[test]
    fn a_busy_machine_is_late_and_its_clock_keeps_running() {
        let mut clock = RunningClock::default();
        // Each look is late by one more interval.
        let taken = wait(&mut clock, ms(3200), |_| ms(100));
        assert!(taken <= ms(3400), "{taken:?}");
        // Later still: the clock is slower, but does not stop.
        let due = clock.now + ms(3200);
        let taken = wait(&mut clock, due, |_| ms(1000));
        assert!(taken <= ms(32_000), "{taken:?}");
    }

    #[test]
    fn while_nothing_is_due_all_time_counts_and_it_never_goes_back() {
        let mut clock = RunningClock::default();
        assert_eq!(clock.wait_for(None), None);
        assert_eq!(clock.look(ms(5000)), ms(5000));
        assert_eq!(clock.look(ms(4000)), ms(5000));
        assert_eq!(clock.look(ms(5001)), ms(5001));
    }
}
