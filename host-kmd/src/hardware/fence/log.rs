// SPDX-License-Identifier: MIT OR Apache-2.0

//! Logs of HW queues: the fences that each has signaled and waited for.

use crate::hardware::{HwQueueId, PhysicalAddress, Segment, UnknownId, fence_storage_size};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::fence_log::{FENCE_LOG_SIZE, FenceLogType};
use bellhop_protocol::handoff::fence_log::FenceLog;

/// Bytes of both logs of a HW queue.
pub const FENCE_LOGS_SIZE: u64 = 2 * FENCE_LOG_SIZE;

/// Bytes of [`Segment::Fence`] for `slots` slots: their values, then the logs of the HW queues that have their
/// progress fences there.
#[must_use]
pub const fn fence_segment_size(slots: u32) -> u64 {
    fence_storage_size(slots) + slots as u64 * FENCE_LOGS_SIZE
}

/// Address of a log of the HW queue that has its progress fence in `slot`, of the guest's `slots`. The log of waits
/// comes first.
#[must_use]
pub fn fence_log_address(slots: u32, slot: u32, log_type: FenceLogType) -> PhysicalAddress {
    let logs = fence_storage_size(slots) + u64::from(slot) * FENCE_LOGS_SIZE;
    let offset = if log_type == FenceLogType::WAITS { 0 } else { FENCE_LOG_SIZE };
    PhysicalAddress { segment: Segment::Fence, address: logs + offset }
}

/// A log of a HW queue (`DXGKARG_SETNATIVEFENCELOGBUFFER`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceLogBuffer {
    /// The operations that it logs.
    pub log_type: FenceLogType,
    /// Its place: a page of host memory.
    pub storage: PhysicalAddress,
}

/// One of a HW queue's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLog {
    /// The queue.
    pub queue: HwQueueId,
    /// The type of log.
    pub log_type: FenceLogType,
}

/// Logs of HW queues.
pub trait FenceLogs {
    /// Gives a HW queue one of its logs, empty, before its first submission.
    ///
    /// # Errors
    /// Fails for a queue that does not exist, or storage that its guest does not have.
    fn set_fence_log(&self, queue: HwQueueId, log: FenceLogBuffer) -> Result<(), UnknownId>;

    /// Makes entries of these queues' logs readable that lie before positions already loaded.
    fn flush_fence_logs(&self, queues: &[HwQueueId]);

    /// Sets what is logged from now on. Each published status carries the level.
    fn set_logging_level(&self, level: LoggingLevel);
}

/// What logs of HW queues say.
pub trait FenceLogContents {
    /// Calls `act` with a log that [`FenceLogs::set_fence_log`] gave. Entries may be read after
    /// [`FenceLogs::flush_fence_logs`].
    ///
    /// # Errors
    /// Fails for a queue that does not exist, or does not have the log.
    fn with_fence_log(
        &self,
        log: QueueLog,
        act: &mut dyn FnMut(FenceLog<'_>),
    ) -> Result<(), UnknownId>;
}
