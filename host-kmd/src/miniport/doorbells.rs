//! Dedicated doorbells: which queue has which of the few physical ones, and whose turn it is to
//! lose one.
//!
//! Source: user-mode work submission, "Dedicated doorbells" and "Victimizing doorbell pseudocode
//! in KMD". State only: whoever asks does to the hardware what the answer says.

use crate::hardware::{HwQueueId, PhysicalDoorbell};
use std::collections::{BTreeMap, HashMap};

/// A physical doorbell in use.
#[derive(Debug)]
struct Assignment {
    doorbell: PhysicalDoorbell,
    /// Key of the queue in `by_last_use`.
    last_use: u64,
}

/// All physical doorbells of the GPU.
#[derive(Debug)]
pub struct PhysicalDoorbells {
    free: Vec<PhysicalDoorbell>,
    assigned: HashMap<HwQueueId, Assignment>,
    /// The same queues, least recently connected or notified first. Rings themselves are not
    /// seen: the fast path leaves no trace here.
    by_last_use: BTreeMap<u64, HwQueueId>,
    uses: u64,
}

impl PhysicalDoorbells {
    /// `count` doorbells, all free.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self {
            free: (0..count).rev().map(PhysicalDoorbell).collect(),
            assigned: HashMap::new(),
            by_last_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Gives a free doorbell to a queue that has none; `None` when all are taken, or the queue has
    /// one.
    pub fn assign(&mut self, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        if self.assigned.contains_key(&queue) {
            return None;
        }
        let doorbell = self.free.pop()?;
        let last_use = self.next_use();
        self.assigned.insert(queue, Assignment { doorbell, last_use });
        self.by_last_use.insert(last_use, queue);
        Some(doorbell)
    }

    /// Takes the queue's doorbell back, if it has one.
    pub fn release(&mut self, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        let Assignment { doorbell, last_use } = self.assigned.remove(&queue)?;
        self.by_last_use.remove(&last_use);
        self.free.push(doorbell);
        Some(doorbell)
    }

    /// The queue's doorbell, if it has one.
    #[must_use]
    pub fn of(&self, queue: HwQueueId) -> Option<PhysicalDoorbell> {
        self.assigned.get(&queue).map(|assignment| assignment.doorbell)
    }

    /// How many are not free.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // There are no more than a `u32` counts.
        self.assigned.len() as u32
    }

    /// Remembers that the queue used its doorbell just now, if it has one.
    pub fn touch(&mut self, queue: HwQueueId) {
        let last_use = self.next_use();
        if let Some(assignment) = self.assigned.get_mut(&queue) {
            self.by_last_use.remove(&assignment.last_use);
            assignment.last_use = last_use;
            self.by_last_use.insert(last_use, queue);
        }
    }

    /// The queue to take a doorbell from: the one that used its own least recently.
    #[must_use]
    pub fn victim(&self) -> Option<HwQueueId> {
        self.by_last_use.first_key_value().map(|(_, queue)| *queue)
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn the_victim_is_the_queue_that_used_its_doorbell_least_recently() {
        let mut doorbells = PhysicalDoorbells::new(3);
        for queue in 0..3 {
            assert_eq!(doorbells.assign(HwQueueId(queue)), Some(PhysicalDoorbell(queue as u32)));
        }
        assert_eq!(doorbells.victim(), Some(HwQueueId(0)));
        doorbells.touch(HwQueueId(0));
        assert_eq!(doorbells.victim(), Some(HwQueueId(1)));
        assert_eq!(doorbells.assign(HwQueueId(9)), None);
        assert_eq!(doorbells.release(HwQueueId(1)), Some(PhysicalDoorbell(1)));
        assert_eq!(doorbells.assign(HwQueueId(9)), Some(PhysicalDoorbell(1)));
        assert_eq!(doorbells.victim(), Some(HwQueueId(2)));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Assign(u64),
        Release(u64),
        Touch(u64),
        Victimise(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0..4, 0..12u64).prop_map(|(kind, queue)| match kind {
            0 => Step::Assign(queue),
            1 => Step::Release(queue),
            2 => Step::Touch(queue),
            _ => Step::Victimise(queue),
        })
    }

    proptest! {
        /// Against a plain list in order of use.
        #[test]
        fn no_doorbell_is_ever_two_queues(
            count in 0..5u32,
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let mut doorbells = PhysicalDoorbells::new(count);
            let mut model: Vec<(HwQueueId, PhysicalDoorbell)> = Vec::new();
            for step in steps {
                match step {
                    Step::Assign(queue) => {
                        let queue = HwQueueId(queue);
                        let has_one = model.iter().any(|(q, _)| *q == queue);
                        let got = doorbells.assign(queue);
                        prop_assert_eq!(got.is_some(), !has_one && model.len() < count as usize);
                        model.extend(got.map(|doorbell| (queue, doorbell)));
                    }
                    Step::Release(queue) => {
                        let queue = HwQueueId(queue);
                        let expected = model.iter().position(|(q, _)| *q == queue);
                        let expected = expected.map(|at| model.remove(at).1);
                        prop_assert_eq!(doorbells.release(queue), expected);
                    }
                    Step::Touch(queue) => {
                        let queue = HwQueueId(queue);
                        doorbells.touch(queue);
                        if let Some(at) = model.iter().position(|(q, _)| *q == queue) {
                            let entry = model.remove(at);
                            model.push(entry);
                        }
                    }
                    Step::Victimise(queue) => {
                        let queue = HwQueueId(queue);
                        prop_assert_eq!(doorbells.victim(), model.first().map(|(q, _)| *q));
                        if model.len() == count as usize
                            && !model.is_empty()
                            && model.iter().all(|(q, _)| *q != queue)
                        {
                            let (victim, freed) = model.remove(0);
                            prop_assert_eq!(doorbells.release(victim), Some(freed));
                            prop_assert_eq!(doorbells.assign(queue), Some(freed));
                            model.push((queue, freed));
                        }
                    }
                }
                let distinct: HashSet<_> = model.iter().map(|(_, doorbell)| *doorbell).collect();
                prop_assert_eq!(distinct.len(), model.len());
            }
        }
    }
}
