// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waiting for a device that does not interrupt.
//!
//! A waiting thread polls: without pauses for a moment, in which the device answers most requests, and then with
//! pauses that grow with the wait. A wait therefore takes at most an eighth longer than with an interrupt, and a
//! long wait costs the processor almost nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

/// How long a thread polls without pauses.
const SPIN: Duration = Duration::from_micros(50);
/// The ratio of the time waited so far to the next pause.
const SHARE: u32 = 8;
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(4);

/// One virtqueue's waits.
#[derive(Debug, Default)]
pub struct Polling {
    woken: AtomicBool,
}

impl Polling {
    /// Waits until `has_come`, or until another thread calls [`Self::wake`]; returns false when the time is over.
    pub fn wait(&self, timeout: Option<Duration>, has_come: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            // Relaxed: the waking thread passes its reason by other means.
            if self.woken.swap(false, Ordering::Relaxed) || has_come() {
                return true;
            }
            let waited = start.elapsed();
            let left = timeout.map_or(LONGEST, |timeout| timeout.saturating_sub(waited));
            if left.is_zero() {
                return false;
            }
            match pause(waited).min(left) {
                Duration::ZERO => yield_now(),
                pause => sleep(pause),
            }
        }
    }

    /// Ends a wait, or the next one.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Relaxed);
    }
}

/// The pause after a wait of this length.
fn pause(waited: Duration) -> Duration {
    if waited < SPIN { Duration::ZERO } else { (waited / SHARE).min(LONGEST) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    #[test]
    fn a_wait_ends_when_it_comes_when_it_is_woken_and_when_the_time_is_over() {
        let polling = Polling::default();
        let looks = AtomicU32::new(0);
        assert!(polling.wait(None, || looks.fetch_add(1, Ordering::Relaxed) == 100));
        assert!(!polling.wait(Some(Duration::from_millis(1)), || false));
        assert!(!polling.wait(Some(Duration::ZERO), || false));
        thread::scope(|threads| {
            let waiting = threads.spawn(|| polling.wait(None, || false));
            polling.wake();
            assert!(waiting.join().unwrap());
        });
    }

    /// Over a wait of an hour: the processor's cost, and the lateness of the last look.
    #[test]
    fn looks_become_rare_and_are_never_late_by_much() {
        let (mut waited, mut looks) = (SPIN, 0);
        while waited < Duration::from_secs(3600) {
            let pause = pause(waited);
            assert!(!pause.is_zero() && pause <= LONGEST && pause <= waited / 8);
            waited += pause;
            looks += 1;
        }
        assert!(looks <= 3600 * 250 + 100, "{looks} looks in an hour");
        assert!(pause(SPIN - Duration::from_nanos(1)).is_zero());
    }
}
