//! A guest's native fences: the host's own CurrentValues, in memory that no guest can map.

use super::violation::Violation;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::fence::FenceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Owner of a slot without a fence. Address-space ids begin at 1.
const NOBODY: u64 = 0;

/// A slot of the table. It stays where it is for the guest's life, so that an engine may still
/// look at a fence that is just being destroyed.
#[derive(Debug)]
#[repr(align(64))]
pub struct FenceSlot {
    owner: AtomicU64,
    /// The values and who waits for them.
    pub cell: FenceCell,
    /// An interrupt for this fence is on its way: see `Interrupts`.
    pub interrupt_pending: AtomicBool,
    always_signaled: AtomicBool,
}

impl FenceSlot {
    /// Control plane: the fence is about to be signaled for good, with `u64::MAX`, which makes every
    /// later signal one that goes backwards.
    pub fn set_always_signaled(&self) {
        // Released to `is_always_signaled` by the exchange in the signal that follows.
        self.always_signaled.store(true, Ordering::Relaxed);
    }

    /// Engine, when a signal went backwards: whether it is to do nothing.
    #[cold]
    pub fn is_always_signaled(&self) -> bool {
        // Pairs with the exchange of CurrentValue: whoever read `u64::MAX` sees the flag.
        fence(Ordering::Acquire);
        self.always_signaled.load(Ordering::Relaxed)
    }
}

/// One guest's fences.
#[derive(Debug)]
pub struct FenceTable {
    slots: Box<[FenceSlot]>,
}

impl FenceTable {
    /// A table of `count` empty slots.
    pub fn new(count: u32) -> Self {
        let slot = |_| FenceSlot {
            owner: AtomicU64::new(NOBODY),
            cell: FenceCell::new(0),
            interrupt_pending: AtomicBool::new(false),
            always_signaled: AtomicBool::new(false),
        };
        Self { slots: (0..count).map(slot).collect() }
    }

    /// A slot, with a fence in it or not.
    pub fn slot(&self, slot: u32) -> Option<&FenceSlot> {
        self.slots.get(slot as usize)
    }

    /// Engine: the fence that a packet names.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED`.
    #[inline]
    pub fn owned(&self, slot: u32, space: AddressSpaceId) -> Result<&FenceSlot, Violation> {
        match self.slots.get(slot as usize) {
            // Pairs with the store in `create`: the cell is that of the new fence.
            Some(fence) if fence.owner.load(Ordering::Acquire) == space.0 => Ok(fence),
            _ => Err(Violation::new(FaultReason::FENCE_NOT_OWNED, u64::from(slot))),
        }
    }

    /// Engine `engine`: holds a queue until the fence is at `value`; true when it is already.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED`.
    pub fn wait(
        &self,
        slot: u32,
        space: AddressSpaceId,
        engine: u32,
        value: u64,
    ) -> Result<bool, Violation> {
        let reached = self.owned(slot, space)?.cell.wait(engine, value);
        if !reached {
            // The wait's full fence pairs with the one in `destroy`: either this sees that the
            // fence is gone, or its destroyer sees that this engine waits.
            self.owned(slot, space)?;
        }
        Ok(reached)
    }

    /// Control plane: puts a fence into an empty slot and publishes its CurrentValue.
    pub fn create(&self, slot: u32, owner: AddressSpaceId, initial: u64, published: &AtomicU64) {
        if let Some(slot) = self.slot(slot) {
            slot.cell.reset(initial);
            slot.always_signaled.store(false, Ordering::Relaxed);
            published.store(initial, Ordering::Release);
            // Pairs with the load in `owned`.
            slot.owner.store(owner.0, Ordering::Release);
        }
    }

    /// Control plane: empties a slot. Returns the engines that wait for its fence, one bit each:
    /// they must look again, and then find it gone.
    pub fn destroy(&self, slot: u32) -> u64 {
        let Some(slot) = self.slot(slot) else { return 0 };
        slot.owner.store(NOBODY, Ordering::Release);
        // The full fence in there pairs with the one in `FenceCell::wait`; see `wait`.
        slot.cell.evaluate().engines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: AddressSpaceId = AddressSpaceId(7);

    fn table_with_fence(initial: u64) -> FenceTable {
        let table = FenceTable::new(2);
        let published = AtomicU64::new(0);
        table.create(1, OWNER, initial, &published);
        assert_eq!(published.into_inner(), initial);
        table
    }

    fn not_owned(slot: u32) -> Violation {
        Violation::new(FaultReason::FENCE_NOT_OWNED, u64::from(slot))
    }

    #[test]
    fn only_the_owner_of_an_existing_fence_finds_it() {
        let table = table_with_fence(3);
        assert_eq!(table.owned(1, OWNER).unwrap().cell.current(), 3);
        assert_eq!(table.owned(1, AddressSpaceId(8)).unwrap_err(), not_owned(1));
        assert_eq!(table.owned(0, OWNER).unwrap_err(), not_owned(0));
        assert_eq!(table.owned(2, OWNER).unwrap_err(), not_owned(2));
        table.destroy(1);
        assert_eq!(table.owned(1, OWNER).unwrap_err(), not_owned(1));
    }

    #[test]
    fn destroying_a_fence_names_the_engines_that_wait_for_it() {
        let table = table_with_fence(3);
        assert_eq!(table.wait(1, OWNER, 2, 3), Ok(true));
        assert_eq!(table.wait(1, OWNER, 2, 4), Ok(false));
        assert_eq!(table.wait(1, OWNER, 0, 5), Ok(false));
        assert_eq!(table.destroy(1), 0b101);
        assert_eq!(table.wait(1, OWNER, 2, 4), Err(not_owned(1)));
    }
}
