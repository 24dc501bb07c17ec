// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words that packets access by address.
//!
//! A fence's CurrentValue is such a word: engines signal it, and packets may store and load it like any other
//! memory. So each word is stored whole and loaded whole, and a store releases what its engine did before to every
//! reader of the value.
//!
//! Source: native GPU fence object, "Synchronization issues".

use super::sync::{AtomicU64, Ordering};

/// Bytes of a word.
pub const WORD: usize = size_of::<u64>();

/// Engine: stores words, given as bytes in native order. Pairs with
/// [`FenceCell::current`](super::fence::FenceCell::current).
#[inline]
pub fn store(to: &[AtomicU64], from: &[[u8; WORD]]) {
    for (word, bytes) in to.iter().zip(from) {
        word.store(u64::from_ne_bytes(*bytes), Ordering::Release);
    }
}

/// Engine: loads words. Relaxed: the copied number hands nothing over. A program that depends on what preceded a
/// value waits for the fence.
#[inline]
pub fn load(from: &[AtomicU64], to: &mut [[u8; WORD]]) {
    for (word, bytes) in from.iter().zip(to) {
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}
