// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fence that a queue's packets named last, cached by its engine to signal it or to wait for it.
//!
//! A queue signals its progress fence with every submission. Its engine looks the fence up once, and afterwards
//! only checks that the slot's opening is current: one load, from the line of the slot that waiters do not write.

use super::table::{Fence, Named};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::AddressSpaceId;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::handoff::owner::{Opening, Owner};
use std::sync::Arc;

/// The result of a look-up under one opening.
#[derive(Debug)]
struct Found {
    slot: u32,
    opening: Opening,
    /// The owner of the slot.
    owner: &'static Owner,
    /// Not really `'static`, like `owner`: both live as long as the handle's `partition`.
    fence: Fence<'static>,
}

/// A queue's handle to the fence that its packets named last.
#[derive(Debug)]
pub struct FenceHandle {
    found: Option<Found>,
    partition: Arc<Partition>,
    process: AddressSpaceId,
}

impl FenceHandle {
    /// A handle without a fence, for packets of a process of this guest.
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

    /// Engine: returns whether a fence that packets may wait for has reached `value`. If not, the engine is not
    /// called later; [`FenceTable::wait`](super::table::FenceTable::wait) requests that.
    ///
    /// # Errors
    /// `FENCE_NOT_OWNED` or `FENCE_NOT_NATIVE`.
    #[inline]
    pub fn has_reached(&mut self, slot: u32, value: u64) -> Result<bool, Violation> {
        let fence = self.owned(slot)?;
        if !fence.is_native {
            return Err(Violation::new(FaultReason::FENCE_NOT_NATIVE, u64::from(slot)));
        }
        Ok(fence.cell.has_reached(fence.late_copy(), value))
    }

    #[cold]
    fn look_up(&mut self, slot: u32) -> Result<(), Violation> {
        self.found = None;
        let named = self.partition.fences().named(slot, self.process, self.partition.bar());
        let Named { opening, owner, fence } = named?;
        #[expect(unsafe_code, reason = "what is remembered stands beside what it is borrowed from")]
        // SAFETY: both references point into the partition: to slots, which it never moves or frees, and to words
        // of memory that it keeps mapped, its own or the guest memory that holds a donated area. The handle holds
        // the partition while it lends these references, and lends them only for as long as it is borrowed itself.
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
