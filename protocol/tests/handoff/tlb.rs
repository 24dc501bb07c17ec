//! Page-table entries that change.

use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use bellhop_protocol::handoff::tlb::TlbUsers;
use loom::sync::Arc;
use loom::thread;

#[test]
fn an_engine_that_remembers_an_old_entry_is_asked_to_flush() {
    const OLD: u64 = 1;
    const NEW: u64 = 2;
    loom::model(|| {
        let shared = Arc::new((TlbUsers::new(), AtomicU64::new(OLD)));
        let engine = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (users, entry) = &*shared;
                // The second time, it is known to use the address space already.
                [(); 2].map(|()| {
                    users.enter(3);
                    entry.load(Ordering::Acquire)
                })
            })
        };
        let (users, entry) = &*shared;
        entry.store(NEW, Ordering::Release);
        let flushed = users.after_change();
        let remembered = engine.join().unwrap();
        assert!(flushed == 1 << 3 || remembered == [NEW; 2], "{flushed:#b}, {remembered:?}");
    });
}
