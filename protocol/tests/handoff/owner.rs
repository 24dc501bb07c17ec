// SPDX-License-Identifier: MIT OR Apache-2.0

//! Slots that are opened to a process. The fence models cover queues that wait while a slot closes.

use bellhop_protocol::handoff::owner::{Opening, Owner};
use bellhop_protocol::handoff::sync::{AtomicU64, Ordering};
use loom::sync::Arc;

const PROCESS: u64 = 3;
const OTHER: u64 = 4;

/// A slot with its content.
struct Slot {
    owner: Owner,
    fence: AtomicU64,
}

impl Slot {
    /// An empty slot.
    fn new() -> Arc<Self> {
        Arc::new(Self { owner: Owner::new(), fence: AtomicU64::new(0) })
    }

    /// Control plane: puts a fence into the slot and opens the slot to a process.
    fn fill(&self, fence: u64, process: u64) {
        self.fence.store(fence, Ordering::Relaxed);
        self.owner.open(process);
    }

    /// Engine: looks up a process's slot; returns the opening and the content.
    fn look_up(&self, process: u64) -> Option<(Opening, u64)> {
        let opening = self.owner.find(process)?;
        let fence = self.fence.load(Ordering::Relaxed);
        self.owner.confirm(opening).then_some((opening, fence))
    }
}

#[test]
fn a_process_that_owns_a_slot_finds_it_filled() {
    loom::model(|| {
        let slot = Slot::new();
        let engine = spawn!(slot => slot.look_up(PROCESS));
        slot.fill(9, PROCESS);
        let named = engine.join().unwrap();
        assert!(named.is_none_or(|(_, fence)| fence == 9), "the packet names what was before");
    });
}

/// A slot is closed and opened to another process, or again to the first one: an engine finds the content of one
/// opening or nothing, and its cached content of the first opening is invalid once it has seen the second.
#[test]
fn what_a_process_finds_is_of_the_opening_that_it_remembers() {
    for [process, next] in [[PROCESS, OTHER], [OTHER, OTHER]] {
        loom::model(move || {
            let slot = Slot::new();
            slot.fill(1, process);
            let engine = spawn!(slot => [process, next].map(|id| slot.look_up(id)));
            slot.owner.close();
            slot.fill(2, next);
            let [first, second] = engine.join().unwrap();
            if process != next {
                assert!(first.is_none_or(|(_, fence)| fence == 1), "{first:?}");
                assert!(second.is_none_or(|(_, fence)| fence == 2), "{second:?}");
            } else if let (Some((first, fence)), Some((second, other))) = (first, second) {
                assert_eq!(first == second, fence == other, "{fence} and {other}");
            }
            for (opening, fence) in [first, second].into_iter().flatten() {
                assert_eq!(slot.owner.is_open(opening), fence == 2, "{fence}");
            }
        });
    }
}

#[test]
fn a_slot_is_open_to_its_process_until_it_is_closed() {
    loom::model(|| {
        let slot = Slot::new();
        assert_eq!(slot.owner.find(PROCESS), None);
        slot.fill(1, PROCESS);
        let opening = slot.owner.find(PROCESS).unwrap();
        assert!(slot.owner.is_open(opening) && slot.owner.find(OTHER).is_none());
        slot.owner.close();
        assert!(!slot.owner.is_open(opening) && slot.owner.find(PROCESS).is_none());
        slot.fill(1, PROCESS);
        assert!(!slot.owner.is_open(opening), "the ticket stands again");
    });
}
