// SPDX-License-Identifier: MIT OR Apache-2.0

//! Logs of native fences: what a HW queue's engine notes of the queue's signals and waits.
//!
//! A HW queue has two of them, a page each. How they are written and read is
//! [`handoff::fence_log`](crate::handoff::fence_log).
//!
//! Source: native GPU fence object, "Native fence log buffer design".

use crate::PAGE_SIZE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of one log.
pub const FENCE_LOG_SIZE: u64 = PAGE_SIZE;
/// How many entries a log has room for.
pub const FENCE_LOG_ENTRIES: u32 = ((FENCE_LOG_SIZE - size_of::<FenceLogHeader>() as u64)
    / size_of::<FenceLogEntry>() as u64) as u32;
const _: () = assert!(FENCE_LOG_ENTRIES == 84);

open_enum! {
    /// `DXGK_NATIVE_FENCE_LOG_TYPE`: what a log is of.
    pub struct FenceLogType: u32 {
        /// The waits that the queue was held for, or passed.
        WAITS = 1;
        /// The signals that it executed.
        SIGNALS = 2;
    }
}

open_enum! {
    /// `DXGK_NATIVE_FENCE_LOG_OPERATION`: what an entry is of.
    pub struct FenceLogOperation: u32 {
        /// A signal was executed.
        SIGNAL_EXECUTED = 0;
        /// A wait was over, or there was nothing to wait for.
        WAIT_UNBLOCKED = 1;
    }
}

impl FenceLogOperation {
    /// The log that has its entries.
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
    /// `FirstFreeEntryIndex`: where the next entry goes. The lower half of one 64-bit word.
    pub first_free_entry_index: u32,
    /// How often that went back to 0: the upper half of the word.
    pub wraparound_count: u32,
    /// What the log is of.
    pub log_type: FenceLogType,
    /// Zero.
    pub reserved0: u32,
    /// How many entries there is room for.
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
    /// The value that was signaled or waited for, as the packet says.
    pub fence_value: u64,
    /// `hNativeFence`: the process's slot for the fence, as the packet says.
    pub fence: u32,
    /// [`FenceLogOperation`], as the packet says.
    pub operation: u32,
    /// `Reserved0`: when the driver queued the operation, on the adapter's clock, or 0 when it does not
    /// say. As the packet says, whatever it is.
    pub queued_timestamp: u64,
    /// `FenceObservedGpuTimestamp`: when the engine saw that the wait was not over and held the queue; 0
    /// when it did not, and for signals.
    pub observed_timestamp: u64,
    /// Zero.
    pub reserved: u64,
    /// `FenceEndGpuTimestamp`: when the operation was complete. Never less than that of the entry before.
    pub end_timestamp: u64,
}
crate::assert_layout!(
    FenceLogEntry, 48,
    fence_value at 0, fence at 8, operation at 12, queued_timestamp at 16, observed_timestamp at 24,
    reserved at 32, end_timestamp at 40,
);
