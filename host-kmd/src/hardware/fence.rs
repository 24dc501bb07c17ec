//! Native fences as the GPU knows them.

use super::{GuestId, HwQueueId, PhysicalAddress, Segment};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::bar::FENCE_STRIDE;
use bellhop_protocol::fence_log::{FENCE_LOG_SIZE, FenceLogType};
use bellhop_protocol::handoff::fence::SignalRule;

/// Slots of fences whose values share a page, in the BAR as in [`Segment::Fence`].
pub const FENCES_PER_PAGE: u32 = (PAGE_SIZE / FENCE_STRIDE) as u32;

/// Bytes of [`Segment::Fence`] for the values of so many slots: as many pages of CurrentValues as the slots
/// fill, and as many of MonitoredValues behind them.
#[must_use]
pub const fn fence_storage_size(slots: u32) -> u64 {
    2 * slots.div_ceil(FENCES_PER_PAGE) as u64 * PAGE_SIZE
}

/// Bytes of both logs of a HW queue.
pub const FENCE_LOGS_SIZE: u64 = 2 * FENCE_LOG_SIZE;

/// Bytes of [`Segment::Fence`] for so many slots: their values, and behind these the logs of the HW queues
/// whose progress fences they are.
#[must_use]
pub const fn fence_segment_size(slots: u32) -> u64 {
    fence_storage_size(slots) + slots as u64 * FENCE_LOGS_SIZE
}

/// Where a log is of the HW queue whose progress fence is in a slot; the guest has so many slots. The log
/// of waits comes first.
#[must_use]
pub fn fence_log_address(slots: u32, slot: u32, log_type: FenceLogType) -> PhysicalAddress {
    let logs = fence_storage_size(slots) + u64::from(slot) * FENCE_LOGS_SIZE;
    let offset = if log_type == FenceLogType::WAITS { 0 } else { FENCE_LOG_SIZE };
    PhysicalAddress { segment: Segment::Fence, address: logs + offset }
}

/// A log of a HW queue's (`DXGKARG_SETNATIVEFENCELOGBUFFER`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceLogBuffer {
    /// What it is of.
    pub log_type: FenceLogType,
    /// Where it is: a page of the host's memory.
    pub storage: PhysicalAddress,
}

/// One of a HW queue's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLog {
    /// The queue.
    pub queue: HwQueueId,
    /// Which of its two.
    pub log_type: FenceLogType,
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
    /// Which values it may be given.
    pub rule: SignalRule,
}
