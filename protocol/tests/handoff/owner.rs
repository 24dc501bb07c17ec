// SPDX-License-Identifier: MIT OR Apache-2.0

//! Slots that are opened to a process. What closes them is modelled with fences.

use bellhop_protocol::handoff::owner::Owner;
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use loom::sync::Arc;

const PROCESS: u64 = 3;

#[test]
fn a_process_that_owns_a_slot_finds_it_filled() {
    loom::model(|| {
        let shared = Arc::new((Owner::new(), AtomicU64::new(0)));
        let engine = spawn!(shared => {
            let (owner, fence) = &*shared;
            owner.is(PROCESS).then(|| fence.load(Ordering::Relaxed))
        });
        let (owner, fence) = &*shared;
        fence.store(9, Ordering::Relaxed);
        owner.open(PROCESS);
        let named = engine.join().unwrap();
        assert!(named.is_none_or(|fence| fence == 9), "the packet names what was there before");
    });
}
