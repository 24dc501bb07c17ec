// SPDX-License-Identifier: MIT OR Apache-2.0

//! Polling a fence: the fastest way to wait, at the cost of a processor.

use crate::error::Error;
use crate::fence::object::Fence;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::polling::Yields;
use std::cell::Cell;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Consecutive loads of the fence, without a system call or another load.
const LOOKS_IN_A_SPELL: u32 = 32;
/// Spells between two readings of the clock, for a thread that has its processor to itself.
const SPELLS_PER_CLOCK: u32 = 8;
/// A fence that is not reached in this time waits for more than an engine that polls.
const LATE: Duration = Duration::from_micros(10);
/// How long a fence is polled between two checks that the device is still there.
const CHECK: Duration = Duration::from_millis(1);

/// Nanoseconds between two loads of a progress fence, per submission in flight: about the engine's time for one.
const BACK_OFF: u64 = 20;
/// Maximum number of nanoseconds between two loads.
const MOST_BACK_OFF: u64 = 64 * BACK_OFF;

thread_local! {
    /// Whether this thread shares its processor with the engine that it polls for.
    static YIELDS: Cell<Yields> = const { Cell::new(Yields::new()) };
}

/// Called after a spell in which the fence did not move; lets an engine on this processor run, and late in a wait whoever else
/// comes to it.
#[cold]
fn end_spell(is_late: bool) -> bool {
    let give_away = || {
        let start = Instant::now();
        thread::yield_now();
        start.elapsed()
    };
    with_yields(|yields| match is_late {
        true => yields.late_spell(give_away),
        false => yields.spell(give_away),
    })
}

fn with_yields<R>(act: impl FnOnce(&mut Yields) -> R) -> R {
    let mut yields = YIELDS.get();
    let result = act(&mut yields);
    YIELDS.set(yields);
    result
}

/// Duration of a pause in nanoseconds, which depends on the processor: from 5 to 50.
static PAUSE: OnceLock<u64> = OnceLock::new();
/// Number of pauses in one measurement.
const MEASURED_PAUSES: u64 = 64;

/// Returns the minimum of a few measurements, since others may have been interrupted.
fn measure_pause() -> u64 {
    let measure = |_| {
        let start = Instant::now();
        (0..MEASURED_PAUSES).for_each(|_| std::hint::spin_loop());
        start.elapsed().as_nanos() as u64 / MEASURED_PAUSES
    };
    (0..8).map(measure).min().unwrap_or_default().max(1)
}

/// Pauses while an engine has this many submissions left.
#[inline(never)]
fn back_off(submissions: u64) {
    let time = submissions.saturating_mul(BACK_OFF).min(MOST_BACK_OFF);
    for _ in 0..(time / PAUSE.get_or_init(measure_pause)).max(1) {
        std::hint::spin_loop();
    }
}

/// Polls `is_there` for up to `limit`; returns whether it became true. Does not poll if the awaited side may need
/// this thread's processor.
pub(super) fn spin(limit: Duration, is_there: impl Fn() -> bool) -> bool {
    if YIELDS.get().shares_processor() {
        return false;
    }
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS_IN_A_SPELL {
            if is_there() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= limit {
            return false;
        }
    }
}

impl Fence {
    /// Reads the fence until it reaches `value`. Nothing is faster, but it occupies a processor. After some
    /// microseconds it yields the processor, if that lets an engine run there, and later to any thread.
    ///
    /// # Errors
    /// [`Error::Timeout`] if `timeout` expires, [`Error::QueueLost`] if the queue that owns this progress fence was
    /// lost, [`Error::NotAvailable`] as in [`Self::current_value`].
    #[inline]
    pub fn poll(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        let word = self.word()?;
        let counts_submissions = self.queue().is_some();
        let (mut began, mut next_check, mut gave_away) = (None, None, false);
        let mut spells = 0u32;
        loop {
            for _ in 0..LOOKS_IN_A_SPELL {
                let current = publication::read(word);
                if current >= value {
                    if gave_away {
                        with_yields(Yields::progress);
                    }
                    return self.reached(current);
                }
                // Each load takes the cache line from the engine, which needs it for the next signal.
                match value - current {
                    left if counts_submissions && left > 1 => back_off(left),
                    _ => std::hint::spin_loop(),
                }
            }
            spells = spells.wrapping_add(1);
            if !spells.is_multiple_of(SPELLS_PER_CLOCK) && !YIELDS.get().shares_processor() {
                continue;
            }
            self.check_queue()?;
            let now = Instant::now();
            let check = next_check.get_or_insert(now + CHECK);
            if now >= *check {
                *check = now + CHECK;
                self.check_device()?;
            }
            let waited = now.saturating_duration_since(*began.get_or_insert(now));
            if waited >= timeout {
                let current = publication::read(word);
                return Err(Error::Timeout { value, current });
            }
            gave_away = end_spell(waited >= LATE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_for_a_moment_ends_when_it_is_there_or_the_moment_is_over() {
        let looks = Cell::new(0);
        let is_there = || looks.replace(looks.get() + 1) == 1000;
        assert!(spin(Duration::from_secs(3600), is_there));
        assert!(!spin(Duration::ZERO, || false));
        assert!(!spin(Duration::from_micros(1), || false));
    }

    #[test]
    fn a_pause_takes_time_on_every_processor() {
        assert!((1..100_000).contains(&measure_pause()));
    }
}
