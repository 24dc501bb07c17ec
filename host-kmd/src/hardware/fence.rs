// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences as the GPU knows them: global fences, and the slots by which packets name them.

use super::{AddressSpaceId, GuestId, PhysicalAddress, UnknownId};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::FENCE_STRIDE;
use bellhop_protocol::handoff::fence::SignalRule;

/// Fences that share a page of values, by their slots, in the BAR as in [`Segment::Fence`](super::Segment::Fence).
pub const FENCES_PER_PAGE: u32 = (PAGE_SIZE / FENCE_STRIDE) as u32;

/// Bytes of [`Segment::Fence`](super::Segment::Fence) for the values of `slots` slots: as many pages of CurrentValues
/// as the slots fill, and as many of MonitoredValues behind them.
#[must_use]
pub const fn fence_storage_size(slots: u32) -> u64 {
    2 * slots.div_ceil(FENCES_PER_PAGE) as u64 * PAGE_SIZE
}

/// A fence (`hGlobalNativeFence`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlobalFence {
    /// The guest that has it.
    pub guest: GuestId,
    /// Its slot among the guest's fences.
    pub slot: u32,
}

/// A value for the global fence in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotValue {
    /// The fence's slot.
    pub slot: u32,
    /// Its value.
    pub value: u64,
}

/// Where a fence's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceStorage {
    /// CurrentValue; in memory of the host's, a multiple of 8.
    pub current: PhysicalAddress,
    /// MonitoredValue, likewise and elsewhere.
    pub monitored: PhysicalAddress,
    /// Whether CurrentValue is published in the BAR, at the fence's slot.
    pub published: bool,
    /// Whether it is a native fence. One that is not is a monitored fence: its MonitoredValue is 0, and a
    /// packet that waits for it faults.
    pub native: bool,
    /// Which values it may be given.
    pub rule: SignalRule,
}

/// Fences.
pub trait Fences {
    /// Puts a global fence with CurrentValue `initial` into an empty slot, and publishes that if the fence
    /// is published. No CPU wait monitors it yet, unless it is a monitored fence. Without an initial value
    /// CurrentValue stays what it is: other guests have the fence already.
    ///
    /// # Errors
    /// For a guest that does not exist, or a slot or storage that it does not have.
    fn create_fence(
        &self,
        guest: GuestId,
        slot: u32,
        storage: FenceStorage,
        initial: Option<u64>,
    ) -> Result<(), UnknownId>;

    /// Makes a slot the name by which packets of `owner` know the global fence in the slot `global`, which
    /// may be that slot itself.
    ///
    /// # Errors
    /// For a guest that does not exist.
    fn open_fence(
        &self,
        guest: GuestId,
        slot: u32,
        global: u32,
        owner: AddressSpaceId,
    ) -> Result<(), UnknownId>;

    /// Packets that name a slot fault from now on.
    ///
    /// # Errors
    /// For a guest that does not exist.
    fn close_fence(&self, guest: GuestId, slot: u32) -> Result<(), UnknownId>;

    /// CurrentValue of a fence.
    ///
    /// # Errors
    /// For a guest that does not exist, or a slot that it does not have.
    fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId>;

    /// Stores MonitoredValues; a full fence stands between that and whatever the caller loads next, so
    /// that it sees each CurrentValue that no interrupt tells of.
    ///
    /// # Errors
    /// For a guest that does not exist, or a slot that it does not have; the other fences have theirs.
    fn update_monitored_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId>;

    /// Makes values CurrentValues, each unless an engine got further, publishes them and releases the
    /// queues that wait for them. With `always`, signals of these fences do nothing from now on, and
    /// the values are `u64::MAX`.
    ///
    /// # Errors
    /// For a guest that does not exist, or a slot that it does not have; the other fences have theirs.
    fn update_current_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
        always: bool,
    ) -> Result<(), UnknownId>;

    /// CurrentValues may have been changed by another guest's engines, or for it: publishes them and
    /// releases the queues that wait for them. With `always` the fences are signaled for good, to this guest
    /// alone: `u64::MAX` is published, signals do nothing, and CurrentValues stay.
    ///
    /// # Errors
    /// For a guest that does not exist, or a slot that it does not have; the other fences are published.
    fn notify_current_values(
        &self,
        guest: GuestId,
        slots: &[u32],
        always: bool,
    ) -> Result<(), UnknownId>;
}
