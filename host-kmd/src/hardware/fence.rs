//! Native fences as the GPU knows them.

use super::{GuestId, PhysicalAddress};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::FENCE_STRIDE;

/// Slots of fences whose values share a page, in the BAR as in [`Segment::Fence`](super::Segment::Fence).
pub const FENCES_PER_PAGE: u32 = (PAGE_SIZE / FENCE_STRIDE) as u32;

/// Bytes of [`Segment::Fence`](super::Segment::Fence) for so many slots: as many pages of CurrentValues as
/// the slots fill, and as many of MonitoredValues behind them.
#[must_use]
pub const fn fence_storage_size(slots: u32) -> u64 {
    2 * slots.div_ceil(FENCES_PER_PAGE) as u64 * PAGE_SIZE
}

/// A fence (`hGlobalNativeFence`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GlobalFence {
    /// Whose.
    pub guest: GuestId,
    /// Where it is among that guest's.
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
}
