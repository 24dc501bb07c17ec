// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random events: contents, budgets and places against the model.

mod events;
mod rules;

use super::*;
use events::event;

/// The model's state of an allocation.
struct Known {
    description: Description,
    contents: Vec<Content>,
    /// The processes that have opened it, in the order in which they did.
    opened: Vec<u32>,
    /// How many times each process wants it resident, and has it locked.
    wanted: BTreeMap<u32, u32>,
    locks: BTreeMap<u32, u32>,
    mappings: Vec<Mapping>,
}

impl Known {
    fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn is_locked(&self) -> bool {
        !self.locks.is_empty()
    }

    /// One of the processes that have it.
    fn one(&self, by: usize) -> u32 {
        self.opened[by % self.opened.len()]
    }

    /// The process that it counts against.
    fn payer(&self) -> u32 {
        let demands =
            |process: &&u32| self.wanted.contains_key(process) || self.locks.contains_key(process);
        *self.opened.iter().find(demands).unwrap_or(&self.opened[0])
    }
}

/// Counts one more for a process.
fn more(counts: &mut BTreeMap<u32, u32>, process: u32) {
    *counts.entry(process).or_insert(0) += 1;
}

/// Counts one less for a process. Returns false if its count was 0.
fn less(counts: &mut BTreeMap<u32, u32>, process: u32) -> bool {
    let Some(count) = counts.get_mut(&process) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(&process);
    }
    true
}

struct World {
    vidmm: VidMm,
    machine: Machine,
    operations: Operations,
    known: BTreeMap<AllocationId, Known>,
    processes: BTreeSet<u32>,
    next_page: u64,
    next_va: u64,
    next_content: Content,
}

impl World {
    fn new(window: u64) -> Self {
        let processes = BTreeSet::from([1, 2]);
        Self {
            vidmm: vidmm(48, 24, 2),
            machine: Machine::default(),
            operations: Operations::new(Window::new(SYSTEM, window)),
            known: BTreeMap::new(),
            processes,
            next_page: 1,
            next_va: 1 << 20,
            next_content: 0,
        }
    }

    fn pick(&self, which: usize) -> Option<AllocationId> {
        let count = self.known.len();
        self.known.keys().nth(which.checked_rem(count)?).copied()
    }

    /// Takes one action, checks the resulting decisions, and hands them to the machine.
    fn decide<R>(&mut self, act: impl FnOnce(&mut VidMm) -> R) -> R {
        let before = self.snapshot();
        let result = act(&mut self.vidmm);
        self.judge(before);
        result
    }

    fn destroy(&mut self, id: AllocationId) {
        // Its mappings go with it.
        self.known.remove(&id);
        self.decide(|vidmm| vidmm.destroy(id)).unwrap();
    }

    /// A process closes an allocation.
    fn leave(&mut self, process: u32, id: AllocationId) {
        let known = self.known.get_mut(&id).unwrap();
        known.opened.retain(|other| *other != process);
        if known.opened.is_empty() {
            return self.destroy(id);
        }
        known.wanted.remove(&process);
        known.locks.remove(&process);
        let space = AddressSpaceId(process.into());
        let mappings = std::mem::take(&mut known.mappings);
        let (its, others): (Vec<_>, _) = mappings.into_iter().partition(|m| m.space == space);
        known.mappings = others;
        self.decide(|vidmm| {
            for mapping in its {
                vidmm.unmap(id, mapping.space, mapping.gpu_va).unwrap();
            }
            vidmm.leave_to_others(process, id).unwrap();
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Contents are always right, budgets are kept, no page is in two places, unwanted allocations go in order, every
    /// request is answered, the guest gets its pages back decoded, and nothing is left.
    #[test]
    fn whatever_happens_bytes_are_where_they_have_to_be(
        window in 2..24u64,
        events in proptest::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new(window * PAGE_SIZE);
        for event in &events {
            world.event(event);
        }
        world.machine.run(&mut world.operations, usize::MAX);
        world.check_encoded();
        world.verify(None);
        for id in world.known.keys().copied().collect::<Vec<_>>() {
            world.destroy(id);
        }
        for process in world.processes.clone() {
            world.decide(|vidmm| vidmm.remove_process(process));
        }
        world.machine.run(&mut world.operations, usize::MAX);
        for range in std::mem::take(&mut world.machine.freed) {
            world.vidmm.give_back(range);
        }
        world.check_encoded();
        prop_assert!(world.vidmm.is_unused());
        prop_assert!(world.machine.tables.is_empty());
    }
}
