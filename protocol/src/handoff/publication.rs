// SPDX-License-Identifier: MIT OR Apache-2.0

//! A word that hands over what its writer did before.
//!
//! The writer prepares memory and then publishes a value; a reader that finds the value finds the memory prepared.
//! Examples are page-table entries, links to nodes, completion counts and words that a guest polls.

use super::sync::{AtomicU64, Ordering};

/// Writer: stores `value`, and releases what the writer did before to [`read`].
#[inline]
pub fn publish(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Release);
}

/// Reader: the value. Acquires what its writer did before [`publish`].
#[must_use]
#[inline]
pub fn read(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}
