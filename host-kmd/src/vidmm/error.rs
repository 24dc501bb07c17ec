// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why VidMm refuses.

/// Why something cannot be resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VidMmError {
    /// It can never be resident, whatever makes room.
    #[error("{0} bytes can never be resident together")]
    NeverFits(u64),
    /// Others within their budgets have the memory, or it is locked.
    #[error("there is no room for {0} bytes now")]
    NoRoom(u64),
    /// There is no host memory for it when it is evicted.
    #[error("there is no backing memory for {0} bytes")]
    NoBacking(u64),
    /// It cannot be locked as it is.
    #[error("the allocation cannot be locked")]
    NotLockable,
    /// It is locked, or under device access where that must not be.
    #[error("the allocation is in use")]
    InUse,
    /// It is not locked, or not resident on this device.
    #[error("there is nothing to undo")]
    Unbalanced,
    /// There is no such allocation or process: a mistake of the caller's.
    #[error("VidMm does not know it")]
    Unknown,
}
