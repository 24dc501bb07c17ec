// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether it pays for a thread to poll what it waits for.
//!
//! A poll ends a short wait sooner than the adapter wakes the thread. Before a long one it takes a processor, which an engine, a worker or
//! a thread of Vulkan may want. What a thread waits for next mostly takes about as long as what it waited for last.

use std::cell::Cell;
use std::time::Duration;

/// How long a thread polls before it blocks: about as long as a worker takes for a small stream.
pub(super) const POLL: Duration = Duration::from_micros(100);
/// After so many waits in a row that were longer, a thread polls no more, until one is shorter.
const MOST_LONG: u32 = 4;

thread_local! {
    /// How many waits of this thread's in a row were longer than it polls.
    static LONG: Cell<u32> = const { Cell::new(0) };
}

/// Whether it pays for this thread to poll.
#[inline]
pub(super) fn pay() -> bool {
    LONG.get() < MOST_LONG
}

/// A wait of this thread's took so long.
#[inline]
pub(super) fn note(waited: Duration) {
    LONG.set(if waited < POLL { 0 } else { LONG.get().saturating_add(1) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_polls_until_some_waits_in_a_row_were_long_and_again_when_one_is_short() {
        let [short, long] = [POLL / 2, POLL];
        let mut polls = Vec::new();
        for waited in [long, long, long, short, long, long, long, long, long, short, long] {
            note(waited);
            polls.push(pay());
        }
        let expected = [true, true, true, true, true, true, true, false, false, true, true];
        assert_eq!(polls, expected);
        assert!(std::thread::spawn(pay).join().unwrap(), "another thread's waits are its own");
    }
}
