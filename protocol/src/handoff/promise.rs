// SPDX-License-Identifier: MIT OR Apache-2.0

//! Values that somebody was given to signal, and those who wait until a value was.
//!
//! A thread that waits for a value of a fence does not poll for it before somebody was given it to signal. One word holds the greatest
//! value that was given, and whether a thread awaits a greater one: so a value that is given and a wait that begins cannot miss
//! each other, as both are read-modify-writes of one word, which have a single order whatever their memory ordering. The orderings below
//! only hand over how the thread is woken, from who waits to who gives.

use super::sync::{AtomicU64, Ordering};

const AWAITED: u64 = 1 << 63;
/// Values from here on count as given: the word has no room for them.
const BEYOND: u64 = AWAITED - 1;

/// The greatest value that was given, and whether a greater one is awaited.
#[derive(Debug)]
pub struct Promise {
    word: AtomicU64,
}

impl Default for Promise {
    fn default() -> Self {
        Self::new()
    }
}

impl Promise {
    /// Nothing was given.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Gives a value. Returns true if those who wait must be woken, who then look again. Acquires what they wrote before
    /// [`Self::awaits`].
    #[must_use = "who waits must be woken"]
    #[inline]
    pub fn give(&self, value: u64) -> bool {
        let mut before = self.word.load(Ordering::Relaxed);
        loop {
            let after = (before & !AWAITED).max(value.min(BEYOND));
            match self.word.compare_exchange_weak(
                before,
                after,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return before & AWAITED != 0,
                Err(now) => before = now,
            }
        }
    }

    /// Whether a value, or a greater one, was given.
    #[must_use]
    #[inline]
    pub fn is_given(&self, value: u64) -> bool {
        is_in(self.word.load(Ordering::Relaxed), value)
    }

    /// Awaits a value, after it has been arranged how it is woken. Returns false if the value, or a greater one, was given: nobody
    /// wakes for it then. Releases that arrangement to [`Self::give`].
    #[must_use = "a value that was given wakes nobody"]
    pub fn awaits(&self, value: u64) -> bool {
        !is_in(self.word.fetch_or(AWAITED, Ordering::Release), value)
    }
}

fn is_in(word: u64, value: u64) -> bool {
    word & !AWAITED >= value.min(BEYOND)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_given_with_any_greater_one() {
        let promise = Promise::new();
        assert!(promise.is_given(0) && !promise.is_given(1));
        assert!(!promise.give(7) && !promise.give(3));
        assert!(promise.is_given(7) && !promise.is_given(8));
    }

    #[test]
    fn who_awaits_a_value_is_woken_once_by_the_next_that_is_given() {
        let promise = Promise::new();
        assert!(promise.awaits(5));
        assert!(promise.give(4) && !promise.give(5));
        assert!(!promise.awaits(5) && promise.awaits(6));
    }

    #[test]
    fn the_greatest_values_are_always_given_once_one_of_them_is() {
        let promise = Promise::new();
        assert!(!promise.is_given(u64::MAX) && promise.awaits(1 << 63));
        assert!(promise.give(u64::MAX));
        assert!(promise.is_given(u64::MAX) && promise.is_given(1 << 63) && !promise.awaits(77));
    }
}
