// SPDX-License-Identifier: MIT OR Apache-2.0

//! Native fence logs: an engine's record of a HW queue's signals and waits.
//!
//! A HW queue has two logs, a page each. [`handoff::fence_log`](crate::handoff::fence_log) writes and reads them.
//!
//! Source: native GPU fence object, "Native fence log buffer design".

use crate::PAGE_SIZE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of one log.
pub const FENCE_LOG_SIZE: u64 = PAGE_SIZE;
/// Number of entries that a log has room for.
pub const FENCE_LOG_ENTRIES: u32 = ((FENCE_LOG_SIZE - size_of::<FenceLogHeader>() as u64)
    / size_of::<FenceLogEntry>() as u64) as u32;
const _: () = assert!(FENCE_LOG_ENTRIES == 84);

open_enum! {
    /// `DXGK_NATIVE_FENCE_LOG_TYPE`: the kind of operation that a log records.
    pub struct FenceLogType: u32 {
        /// The waits that held the queue, or that it passed.
        WAITS = 1;
        /// The signals that the queue executed.
        SIGNALS = 2;
    }
}

open_enum! {
    /// `DXGK_NATIVE_FENCE_LOG_OPERATION`: the operation that an entry records.
    pub struct FenceLogOperation: u32 {
        /// A signal was executed.
        SIGNAL_EXECUTED = 0;
        /// A wait ended, or was satisfied from the start.
        WAIT_UNBLOCKED = 1;
    }
}

impl FenceLogOperation {
    /// The log that records this operation.
    #[must_use]
    #[inline]
    pub const fn log(self) -> Option<FenceLogType> {
        match self {
            Self::SIGNAL_EXECUTED => Some(FenceLogType::SIGNALS),
            Self::WAIT_UNBLOCKED => Some(FenceLogType::WAITS),
            _ => None,
        }
    }
}

/// `DXGK_NATIVE_FENCE_LOG_HEADER`, at the start of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FenceLogHeader {
    /// `FirstFreeEntryIndex`: index of the next entry. The lower half of one 64-bit word.
    pub first_free_entry_index: u32,
    /// Number of times that the index wrapped to 0: the upper half of the word.
    pub wraparound_count: u32,
    /// The kind of operation that the log records.
    pub log_type: FenceLogType,
    /// Zero.
    pub reserved0: u32,
    /// Number of entries that the log has room for.
    pub number_of_entries: u64,
    /// Zero.
    pub reserved1: [u64; 2],
}
crate::assert_layout!(
    FenceLogHeader, 40,
    first_free_entry_index at 0, wraparound_count at 4, log_type at 8, reserved0 at 12,
    number_of_entries at 16, reserved1 at 24,
);

/// `DXGK_NATIVE_FENCE_LOG_ENTRY`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct FenceLogEntry {
    /// The value signaled or waited for, copied from the packet.
    pub fence_value: u64,
    /// `hNativeFence`: the process's slot for the fence, copied from the packet.
    pub fence: u32,
    /// [`FenceLogOperation`], copied from the packet.
    pub operation: u32,
    /// `Reserved0`: when the driver queued the operation, on the adapter's clock; 0 if it does not say. Copied
    /// unchecked from the packet.
    pub queued_timestamp: u64,
    /// `FenceObservedGpuTimestamp`: when the engine found the wait unsatisfied and held the queue; 0 if it did not,
    /// and for signals.
    pub observed_timestamp: u64,
    /// Zero.
    pub reserved: u64,
    /// `FenceEndGpuTimestamp`: when the operation completed. Never less than in the previous entry.
    pub end_timestamp: u64,
}
crate::assert_layout!(
    FenceLogEntry, 48,
    fence_value at 0, fence at 8, operation at 12, queued_timestamp at 16, observed_timestamp at 24,
    reserved at 32, end_timestamp at 40,
);
