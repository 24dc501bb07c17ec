// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether it pays for a thread to poll what it waits for.
//!
//! A poll ends a short wait sooner than the adapter wakes the thread. Before a long one it takes a processor, which an engine, a worker or
//! a thread of Vulkan may want. What a thread waits for next mostly takes about as long as what it waited for last.

use std::cell::Cell;
use std::time::Duration;

/// How long a thread polls before it blocks: about as long as a worker takes for a small stream.
pub(super) const POLL: Duration = Duration::from_micros(100);
/// After so many waits in a row that were longer, a thread polls before few of the next ones, until one is shorter.
const MOST_LONG: u32 = 4;
/// Of so many long waits, a thread polls before one: to block takes a while itself, and makes a wait long that was not.
const TRIED: u32 = 8;

thread_local! {
    /// How many waits of this thread's in a row were longer than it polls.
    static LONG: Cell<u32> = const { Cell::new(0) };
}

/// Whether it pays for this thread to poll.
#[inline]
pub(super) fn pay() -> bool {
    let long = LONG.get();
    long < MOST_LONG || long.is_multiple_of(TRIED)
}

/// A wait of this thread's took so long.
#[inline]
pub(super) fn note(waited: Duration) {
    LONG.set(if waited < POLL { 0 } else { LONG.get().wrapping_add(1) });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a thread polls after each of these waits.
    fn polls(waits: &[Duration]) -> Vec<bool> {
        let after = |waited: &Duration| {
            note(*waited);
            pay()
        };
        waits.iter().map(after).collect()
    }

    #[test]
    fn a_thread_polls_until_some_waits_in_a_row_were_long_and_again_when_one_is_short() {
        let [short, long] = [POLL / 2, POLL];
        let first = polls(&[long, long, long, short, long, long, long, long, long]);
        assert_eq!(first, [true, true, true, true, true, true, true, false, false]);
        assert_eq!(polls(&[short, long]), [true, true]);
        assert!(std::thread::spawn(pay).join().unwrap(), "another thread's waits are its own");
    }

    #[test]
    fn long_waits_are_tried_now_and_then() {
        let tried = polls(&[POLL; 40]).iter().skip(4).filter(|polls| **polls).count();
        assert_eq!(tried, 40 / TRIED as usize);
    }
}
