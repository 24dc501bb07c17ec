// SPDX-License-Identifier: MIT OR Apache-2.0

//! How a thread gets the attention of an engine, asleep or not.
//!
//! One word holds both the pending requests and whether the engine sleeps, so that falling asleep and a call cannot
//! miss each other: both are read-modify-writes of one word, which have a single order whatever their memory
//! ordering. The orderings below only hand over content, from the caller to the engine.

use super::sync::{AtomicU64, Ordering};

const ASLEEP: u64 = 1 << 63;

/// An engine's attention word. Callers define bits 0 to 62.
#[derive(Debug)]
pub struct Attention {
    word: AtomicU64,
}

impl Default for Attention {
    fn default() -> Self {
        Self::new()
    }
}

impl Attention {
    /// An engine that is awake and has nothing to look at.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Any thread: asks for attention. Returns true if the engine sleeps and the caller must wake it; only the
    /// first of several callers gets true. Releases the caller's earlier writes to [`Self::take`].
    #[must_use = "an engine that sleeps must be woken"]
    pub fn raise(&self, bits: u64) -> bool {
        let before = self.word.fetch_or(bits & !ASLEEP, Ordering::Release);
        before & ASLEEP != 0 && before & !ASLEEP == 0
    }

    /// Engine: returns whether there is something to [`Self::take`].
    #[must_use]
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Engine that fell asleep and has no thread that blocks: returns whether it was called since.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.word.load(Ordering::Relaxed) & !ASLEEP != 0
    }

    /// Engine: takes the raised bits and marks itself awake. Acquires what each caller of [`Self::raise`] wrote
    /// before: every caller after the first continues the first one's release sequence.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.word.swap(0, Ordering::Acquire) & !ASLEEP
    }

    /// Engine: falls asleep, unless something was raised. After true the engine blocks until it is woken, and then
    /// calls [`Self::take`].
    #[must_use]
    pub fn try_sleep(&self) -> bool {
        self.word.compare_exchange(0, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Engine that fell asleep: marks itself awake without a wake-up, unless something was raised. After false a
    /// caller is about to wake it.
    #[must_use = "who was told to wake the engine does, and it must wait for that"]
    pub fn try_wake(&self) -> bool {
        self.word.compare_exchange(ASLEEP, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Any thread: returns whether the engine sleeps. For reports only.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ASLEEP != 0
    }
}
