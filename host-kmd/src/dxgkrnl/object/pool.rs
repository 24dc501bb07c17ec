// SPDX-License-Identifier: MIT OR Apache-2.0

//! A pool of slot numbers.

use vm_allocator::IdAllocator;

/// Numbers from 0, handed out and taken back.
#[derive(Debug)]
pub(crate) struct SlotPool {
    /// `None` for a pool without slots, which the allocator cannot express.
    slots: Option<IdAllocator>,
    used: u32,
}

impl SlotPool {
    /// Creates a pool of the numbers below `count`.
    pub(crate) fn new(count: u32) -> Self {
        let slots = count.checked_sub(1).and_then(|last| IdAllocator::new(0, last).ok());
        Self { slots, used: 0 }
    }

    /// Takes a free number.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let slot = self.slots.as_mut()?.allocate_id().ok()?;
        self.used += 1;
        Some(slot)
    }

    /// Takes back a number in use.
    pub(crate) fn give_back(&mut self, slot: u32) {
        match self.slots.as_mut().map(|slots| slots.free_id(slot)) {
            Some(Ok(_)) => self.used -= 1,
            _ => tracing::error!(slot, "a slot came back that was not given out"),
        }
    }

    /// Number of slots in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Whether all slots are back.
    pub(crate) fn is_unused(&self) -> bool {
        self.used == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_pool_gives_nothing() {
        assert_eq!(SlotPool::new(0).take(), None);
    }

    proptest! {
        #[test]
        fn slots_are_never_given_out_twice(
            steps in proptest::collection::vec((any::<bool>(), any::<usize>()), 0..100),
        ) {
            let mut slots = SlotPool::new(8);
            let mut numbers: Vec<u32> = Vec::new();
            for (take, which) in steps {
                if take {
                    if let Some(number) = slots.take() {
                        prop_assert!(!numbers.contains(&number));
                        numbers.push(number);
                    }
                } else if !numbers.is_empty() {
                    slots.give_back(numbers.remove(which % numbers.len()));
                }
            }
            prop_assert_eq!(slots.is_unused(), numbers.is_empty());
        }
    }
}
