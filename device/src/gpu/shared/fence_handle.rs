// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fence that a queue's packets named last, as its engine remembers it: to signal it, or to wait for it.
//!
//! A queue signals its progress fence with every submission. Its engine looks the fence up once, and then only
//! whether the slot's opening still stands: one load, from the line that the slot's waiters are in.

use super::fence_table::{Fence, Named};
use super::partition::Partition;
use crate::gpu::memory::violation::Violation;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::owner::{Opening, Owner};
use std::sync::Arc;

/// What was found under one opening.
#[derive(Debug, Clone, Copy)]
struct Found {
    slot: u32,
    opening: Opening,
    /// The slot's.
    owner: &'static Owner,
    /// Not `'static`, as `owner`: both live as long as the handle's `partition`.
    fence: Fence<'static>,
}

/// A queue's handle of the fence that its packets named last.
#[derive(Debug)]
pub struct FenceHandle {
    found: Option<Found>,
    partition: Arc<Partition>,
    process: AddressSpaceId,
}

impl FenceHandle {
    /// A handle of no fence yet, for packets of a process of this guest.
    pub fn new(partition: &Arc<Partition>, process: AddressSpaceId) -> Self {
        Self { found: None, partition: Arc::clone(partition), process }
    }

    /// Engine: the fence that a packet names.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED`.
    #[inline]
    pub fn owned(&mut self, slot: u32) -> Result<&Fence<'_>, Violation> {
        let stands = |found: &Found| found.slot == slot && found.owner.is_open(found.opening);
        if !self.found.as_ref().is_some_and(stands) {
            self.look_up(slot)?;
        }
        let found = self.found.as_ref().map(|found| &found.fence);
        found.ok_or(Violation::new(FaultReason::FENCE_NOT_OWNED, u64::from(slot)))
    }

    /// Engine: whether a fence that packets may wait for is at `value`. Nobody calls the engine when it is:
    /// [`FenceTable::wait`](super::fence_table::FenceTable::wait) asks for that.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED` or `FENCE_NOT_NATIVE`.
    #[inline]
    pub fn has_reached(&mut self, slot: u32, value: u64) -> Result<bool, Violation> {
        let fence = self.owned(slot)?;
        if !fence.is_native {
            return Err(Violation::new(FaultReason::FENCE_NOT_NATIVE, u64::from(slot)));
        }
        Ok(fence.cell.has_reached(value))
    }

    #[cold]
    fn look_up(&mut self, slot: u32) -> Result<(), Violation> {
        self.found = None;
        let named = self.partition.fences().named(slot, self.process, self.partition.bar());
        let Named { opening, owner, fence } = named?;
        #[expect(unsafe_code, reason = "what is remembered stands beside what it is borrowed from")]
        // SAFETY: all that these refer to is in the partition: slots, which it never moves or gives back, and
        // words of memory that it keeps mapped, its own or the guest's that holds a donated area. The handle
        // keeps the partition for as long as it lends this, and it lends it for no longer than it is
        // borrowed itself.
        let (owner, fence) = unsafe {
            (
                std::mem::transmute::<&Owner, &'static Owner>(owner),
                std::mem::transmute::<Fence<'_>, Fence<'static>>(fence),
            )
        };
        self.found = Some(Found { slot, opening, owner, fence });
        Ok(())
    }
}
