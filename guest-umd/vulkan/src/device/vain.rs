// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that look again and again whether something is done, instead of waiting for it.
//!
//! Such a program takes a processor, on which an engine, a worker or a thread of Vulkan may have its next step; the scheduler leaves it to
//! the program until its time slice ends. So a thread that has looked in vain for some time yields with each further look.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread looks in vain before it yields: what is done sooner is mostly work that takes no other thread than the engine.
const LATE: Duration = Duration::from_micros(10);
/// A thread that looks no more often than that does other things in between. Some programs pause for tens of microseconds.
const OFTEN: Duration = Duration::from_micros(100);

/// Looks in vain, of which each came soon after the one before.
#[derive(Debug, Clone, Copy)]
struct Looks {
    first: Instant,
    last: Instant,
}

impl Looks {
    /// Those of a thread with one more. A yield is part of the look before it.
    fn with(looks: Option<Self>, now: Instant) -> Self {
        let before = looks.filter(|looks| now.saturating_duration_since(looks.last) <= OFTEN);
        Self { first: before.map_or(now, |looks| looks.first), last: now }
    }

    fn are_late(self) -> bool {
        self.last.saturating_duration_since(self.first) >= LATE
    }
}

thread_local! {
    static LOOKS: Cell<Option<Looks>> = const { Cell::new(None) };
}

/// A look of this thread's has found that something is not done yet.
pub(crate) fn looked_in_vain() {
    let mut looks = Looks::with(LOOKS.get(), Instant::now());
    if looks.are_late() {
        thread::yield_now();
        looks.last = Instant::now();
    }
    LOOKS.set(Some(looks));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether looks in vain are late with the last of so many, each so long after the one before.
    fn late(count: u32, apart: Duration) -> bool {
        let begin = Instant::now();
        let all = (0..count).map(|number| begin + apart * number);
        all.fold(None, |looks, now| Some(Looks::with(looks, now))).is_some_and(Looks::are_late)
    }

    #[test]
    fn a_thread_that_looks_again_and_again_is_late_after_a_moment() {
        assert!(!late(1, Duration::ZERO) && !late(1000, Duration::ZERO));
        assert!(!late(10, Duration::from_micros(1)) && late(11, Duration::from_micros(1)));
        assert!(late(2, Duration::from_micros(15)));
    }

    #[test]
    fn a_thread_that_does_other_things_between_its_looks_is_never_late() {
        assert!(!late(1000, Duration::from_micros(101)) && !late(1000, Duration::from_millis(16)));
    }
}
