// SPDX-License-Identifier: MIT OR Apache-2.0

//! Noting in a page-table entry that an engine accesses the page.
//!
//! An engine that walks page tables sets a bit of the entry that it is about to remember; whoever wants
//! to know what is used takes the bit away and has engines forget what they remember. A third changes
//! entries meanwhile. The engine exchanges exactly the entry that it has read, so it never undoes a
//! change: an entry that was made invalid stays so, and one that leads elsewhere does not lead back.
//!
//! Nothing is handed over with the bit, and it may be missed for once, so both sides are relaxed.

use super::sync::{AtomicU64, Ordering};

/// Engine: notes in an entry, which it has read as `seen`, that it is used; `bit` says so. Nothing
/// happens when the entry has changed since.
#[inline]
pub fn note(entry: &AtomicU64, seen: u64, bit: u64) {
    if seen & bit == 0 {
        // Who has changed it meanwhile has the engine forget what it has read: see `tlb`.
        let _ = entry.compare_exchange(seen, seen | bit, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Control plane: whether an entry was noted to be used. It is not any more.
#[inline]
pub fn take(entry: &AtomicU64, bit: u64) -> bool {
    // The look on its own writes nothing to entries that nobody uses, which are most.
    entry.load(Ordering::Relaxed) & bit != 0 && entry.fetch_and(!bit, Ordering::Relaxed) & bit != 0
}
