// SPDX-License-Identifier: MIT OR Apache-2.0

//! The GPU's fences: global fences, and the slots by which packets name them.

pub(super) mod log;

use super::{AddressSpaceId, GuestId, PhysicalAddress, UnknownId};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::FENCE_STRIDE;
use bellhop_protocol::handoff::fence::SignalRule;

/// Number of fences that share a page of values, in the BAR and in [`Segment::Fence`](super::Segment::Fence).
pub const FENCES_PER_PAGE: u32 = (PAGE_SIZE / FENCE_STRIDE) as u32;

/// Bytes of [`Segment::Fence`](super::Segment::Fence) for the values of `slots` slots: as many pages of CurrentValues
/// as the slots fill, then as many of MonitoredValues.
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
    /// CurrentValue; in host memory, a multiple of 8.
    pub current: PhysicalAddress,
    /// MonitoredValue, in host memory elsewhere, also a multiple of 8.
    pub monitored: PhysicalAddress,
    /// Whether CurrentValue is published in the BAR, at the fence's slot.
    pub published: bool,
    /// Whether it is a native fence. If not, it is a monitored fence: its MonitoredValue is 0, and a packet that
    /// waits for it faults.
    pub native: bool,
    /// Which values may signal it.
    pub rule: SignalRule,
}

/// Fences.
pub trait Fences {
    /// Puts a global fence with CurrentValue `initial` into an empty slot, and publishes the value if the fence is
    /// published. No CPU wait monitors it yet, unless it is a monitored fence. Without an initial value CurrentValue
    /// stays unchanged, because other guests already have the fence.
    ///
    /// # Errors
    /// Fails for a guest that does not exist, or a slot or storage that it does not have.
    fn create_fence(
        &self,
        guest: GuestId,
        slot: u32,
        storage: FenceStorage,
        initial: Option<u64>,
    ) -> Result<(), UnknownId>;

    /// Makes packets of `owner` name the global fence in the slot `global` by `slot`, which may be `global` itself.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
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
    /// Fails for a guest that does not exist.
    fn close_fence(&self, guest: GuestId, slot: u32) -> Result<(), UnknownId>;

    /// Stores MonitoredValues. A full fence orders those stores before the caller's later loads, so that the caller
    /// sees each CurrentValue that no interrupt reports.
    ///
    /// # Errors
    /// Fails for a guest that does not exist, or a slot that it does not have; the other fences have their values.
    fn update_monitored_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
    ) -> Result<(), UnknownId>;
}

/// CurrentValues from the CPU: the driver signals native fences, the graphics kernel monitored ones.
pub trait CurrentValues {
    /// CurrentValue of a fence.
    ///
    /// # Errors
    /// Fails for a guest that does not exist, or a slot that it does not have.
    fn fence_value(&self, guest: GuestId, slot: u32) -> Result<u64, UnknownId>;

    /// Sets CurrentValues, each unless an engine has signaled a higher one, publishes them and releases the queues
    /// that wait for them. With `always`, later signals of these fences have no effect, and the values are
    /// `u64::MAX`.
    ///
    /// # Errors
    /// Fails for a guest that does not exist, or a slot that it does not have; the other fences have their values.
    fn update_current_values(
        &self,
        guest: GuestId,
        values: &[SlotValue],
        always: bool,
    ) -> Result<(), UnknownId>;

    /// Another guest, or its engines, may have changed CurrentValues: publishes them and releases the queues that
    /// wait for them. With `always` the fences are permanently signaled, for this guest only: `u64::MAX` is
    /// published, signals have no effect, and CurrentValues stay.
    ///
    /// # Errors
    /// Fails for a guest that does not exist, or a slot that it does not have; the other fences are published.
    fn notify_current_values(
        &self,
        guest: GuestId,
        slots: &[u32],
        always: bool,
    ) -> Result<(), UnknownId>;
}
