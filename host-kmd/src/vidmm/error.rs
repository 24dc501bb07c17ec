// SPDX-License-Identifier: MIT OR Apache-2.0

//! The errors of VidMm.

/// Why VidMm refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VidMmError {
    /// The allocation can never be resident, even with all evictable memory freed.
    #[error("{0} bytes can never be resident together")]
    NeverFits(u64),
    /// Others within their budgets have the memory, or it is locked.
    #[error("there is no room for {0} bytes now")]
    NoRoom(u64),
    /// The GPU whose private memory alone it may be in was taken away.
    #[error("the GPU that has the memory was taken away")]
    NoGpu,
    /// There is no host memory to reserve for the allocation's eviction.
    #[error("there is no backing memory for {0} bytes")]
    NoBacking(u64),
    /// An allocation with these properties cannot be locked.
    #[error("the allocation cannot be locked")]
    NotLockable,
    /// The allocation is locked or accessible to devices, which this request does not allow.
    #[error("the allocation is in use")]
    InUse,
    /// The allocation is not locked, or not resident on this device.
    #[error("there is nothing to undo")]
    Unbalanced,
    /// There is no such allocation or process: a bug of the caller.
    #[error("VidMm does not know it")]
    Unknown,
}
