// SPDX-License-Identifier: MIT OR Apache-2.0

//! Polling a fence: the fastest way to wait. It occupies a processor.

use crate::error::Error;
use crate::fence::object::Fence;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::polling::Yields;
use std::cell::Cell;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// Loads of the fence in a row, without a system call and without a load of anything else.
const LOOKS_IN_A_SPELL: u32 = 32;
/// Spells between two looks at the clock, for a thread that has its processor to itself.
const SPELLS_PER_CLOCK: u32 = 8;
/// How long a fence is polled between two checks that the device is still there.
const CHECK: Duration = Duration::from_millis(1);

/// Nanoseconds between two loads of a progress fence for each submission that is not done: about what the
/// engine takes for one.
const BACK_OFF: u64 = 20;
/// Most nanoseconds between two loads.
const MOST_BACK_OFF: u64 = 64 * BACK_OFF;

thread_local! {
    /// Whether this thread shares its processor with the engine that it polls for.
    static YIELDS: Cell<Yields> = const { Cell::new(Yields::new()) };
}

/// Called after a spell in which the fence did not move; lets an engine on this processor run.
#[cold]
fn end_spell() -> bool {
    with_yields(|yields| {
        yields.spell(|| {
            let start = Instant::now();
            thread::yield_now();
            start.elapsed()
        })
    })
}

fn with_yields<R>(act: impl FnOnce(&mut Yields) -> R) -> R {
    let mut yields = YIELDS.get();
    let result = act(&mut yields);
    YIELDS.set(yields);
    result
}

/// Nanoseconds that a pause takes, as the processor has it: from 5 to 50.
static PAUSE: OnceLock<u64> = OnceLock::new();
/// Pauses that are measured at once.
const MEASURED_PAUSES: u64 = 64;

/// The least of a few measurements: others were interrupted.
fn measure_pause() -> u64 {
    let measure = |_| {
        let start = Instant::now();
        (0..MEASURED_PAUSES).for_each(|_| std::hint::spin_loop());
        start.elapsed().as_nanos() as u64 / MEASURED_PAUSES
    };
    (0..8).map(measure).min().unwrap_or_default().max(1)
}

/// Lets an engine that has so many submissions to do go on for a while.
#[inline(never)]
fn back_off(submissions: u64) {
    let time = submissions.saturating_mul(BACK_OFF).min(MOST_BACK_OFF);
    for _ in 0..(time / PAUSE.get_or_init(measure_pause)).max(1) {
        std::hint::spin_loop();
    }
}

/// Looks until `is_there`, for a moment; whether it came to be. Not at all where what it waits for may need this
/// thread's processor.
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
    /// Reads the fence until it reaches `value`. Nothing is faster, and it occupies a processor. After
    /// some microseconds it yields the processor, if that lets an engine run there.
    ///
    /// # Errors
    /// [`Error::Timeout`] when `timeout` is over, [`Error::QueueLost`] when the queue that owns this
    /// progress fence was lost, [`Error::NotAvailable`] as in [`Self::current_value`].
    #[inline]
    pub fn poll(&self, value: u64, timeout: Duration) -> Result<(), Error> {
        let word = self.word()?;
        let counts_submissions = self.queue().is_some();
        let (mut deadline, mut next_check, mut gave_away) = (None, None, false);
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
            if now >= *deadline.get_or_insert(now + timeout) {
                let current = publication::read(word);
                return Err(Error::Timeout { value, current });
            }
            gave_away = end_spell();
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
