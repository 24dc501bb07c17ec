// SPDX-License-Identifier: MIT OR Apache-2.0

//! The accessed bit of a page-table entry.
//!
//! An engine that walks page tables sets a bit of the entry that it is about to cache. The control plane, to learn
//! which pages are used, clears the bit and makes engines flush their caches. Another thread may change entries
//! meanwhile. The engine exchanges exactly the entry that it has read, so it never undoes a change: an invalidated
//! entry stays invalid, and a redirected one stays redirected.
//!
//! The bit hands nothing over and may be missed once, so both sides are relaxed.

use super::sync::{AtomicU64, Ordering};

/// Engine: sets `bit`, the accessed bit, in an entry that it has read as `seen`. Does nothing if the entry has
/// changed since.
#[inline]
pub fn note(entry: &AtomicU64, seen: u64, bit: u64) {
    if seen & bit == 0 {
        // The thread that changed it meanwhile makes the engine drop the value it has read: see `tlb`.
        let _ = entry.compare_exchange(seen, seen | bit, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Control plane: clears the accessed bit of an entry and returns whether it was set.
#[inline]
pub fn take(entry: &AtomicU64, bit: u64) -> bool {
    // The plain load avoids writing to unused entries, which are the majority.
    entry.load(Ordering::Relaxed) & bit != 0 && entry.fetch_and(!bit, Ordering::Relaxed) & bit != 0
}
