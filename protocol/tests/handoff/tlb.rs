// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page-table entries that change.

use bellhop_protocol::handoff::accessed;
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use bellhop_protocol::handoff::tlb::{Flushes, TlbUsers};
use loom::sync::Arc;

#[test]
fn an_engine_that_remembers_an_old_entry_is_asked_to_flush() {
    const OLD: u64 = 1;
    const NEW: u64 = 2;
    loom::model(|| {
        let shared = Arc::new((TlbUsers::new(), AtomicU64::new(OLD)));
        let engine = spawn!(shared => {
            let (users, entry) = &*shared;
            // The second time, the engine is already known to use the address space.
            [(); 2].map(|()| {
                users.enter(3);
                entry.load(Ordering::Acquire)
            })
        });
        let (users, entry) = &*shared;
        entry.store(NEW, Ordering::Release);
        let flushed = users.after_change();
        let remembered = engine.join().unwrap();
        assert!(flushed == 1 << 3 || remembered == [NEW; 2], "{flushed:#b}, {remembered:?}");
    });
}

#[test]
fn a_turn_that_begins_with_the_new_count_of_flushes_finds_what_was_changed_before() {
    loom::model(|| {
        let shared = Arc::new((Flushes::new(), AtomicU64::new(0)));
        let engine = spawn!(shared => {
            let (flushes, memory) = &*shared;
            (flushes.current(), memory.load(Ordering::Relaxed))
        });
        let (flushes, memory) = &*shared;
        memory.store(1, Ordering::Relaxed);
        assert_eq!(flushes.advance(), 1);
        let (count, memory) = engine.join().unwrap();
        assert!(
            count == 0 || memory == 1,
            "what is remembered of the old memory counts for the new"
        );
    });
}

/// An engine sets the accessed bit of an entry while other threads change and examine the entry: in any order the
/// change stays, and a use is seen at most once.
#[test]
fn noting_a_use_never_undoes_a_change_of_the_entry() {
    const OLD: u64 = 0x1001;
    const NEW: u64 = 0x2001;
    const BIT: u64 = 1 << 52;
    for change in [0, NEW] {
        loom::model(move || {
            let entry = Arc::new(AtomicU64::new(OLD));
            let engine = spawn!(entry => {
                let seen = entry.load(Ordering::Acquire);
                // Invalid entries are not used.
                if seen & 1 != 0 {
                    accessed::note(&entry, seen, BIT);
                }
                seen
            });
            let looks = spawn!(entry => accessed::take(&entry, BIT));
            // The product stores. loom finds no place for a plain store among exchanges that have read the earlier
            // value, and would bring the earlier value back; a swap has a place.
            let _ = entry.swap(change, Ordering::Release);
            let seen = engine.join().unwrap() & !BIT;
            let taken = looks.join().unwrap();
            let left = entry.load(Ordering::Relaxed);
            assert_eq!(left & !BIT, change, "{seen:#x} was put back");
            assert!(left & BIT == 0 || seen == change, "a use of {seen:#x} counts for {left:#x}");
            assert!(!(taken && left & BIT != 0), "one use is seen twice");
        });
    }
}
