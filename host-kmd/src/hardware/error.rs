// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why the hardware does not do as asked.

use super::{
    AddressSpaceId, GuestId, HwQueueId, KernelNumber, PhysicalAddress, PhysicalDoorbell,
    VideoSessionNumber,
};
use bellhop_protocol::fence_log::FenceLogType;

/// A table of the hardware is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hardware has no room for another {0}")]
pub struct HardwareFull(pub &'static str);

/// A call named something that the GPU does not have: a bug of the caller, because the kernel names only what it was
/// given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownId {
    /// No such guest.
    #[error("the GPU has no guest {}", .0.0)]
    Guest(GuestId),
    /// The guest has no system context.
    #[error("guest {} has no system context", .0.0)]
    SystemContext(GuestId),
    /// No such address space.
    #[error("the GPU has no address space {}", .0.0)]
    AddressSpace(AddressSpaceId),
    /// No such HW queue.
    #[error("the GPU has no HW queue {}", .0.0)]
    HwQueue(HwQueueId),
    /// The queue has no ring, and so no doorbell.
    #[error("HW queue {} has no ring", .0.0)]
    Ring(HwQueueId),
    /// The queue has no such log.
    #[error("HW queue {} has no log of {log_type}", .queue.0)]
    FenceLog {
        /// The queue.
        queue: HwQueueId,
        /// The type of log.
        log_type: FenceLogType,
    },
    /// The address space has no such kernel.
    #[error("address space {} has no kernel {}", .space.0, .kernel.0)]
    Kernel {
        /// The address space.
        space: AddressSpaceId,
        /// The kernel.
        kernel: KernelNumber,
    },
    /// The address space has no such video session.
    #[error("address space {} has no video session {}", .space.0, .session.0)]
    VideoSession {
        /// The address space.
        space: AddressSpaceId,
        /// The session.
        session: VideoSessionNumber,
    },
    /// No such doorbell slot in the guest's BAR.
    #[error("no BAR has doorbell slot {0}")]
    DoorbellSlot(u32),
    /// No such physical doorbell.
    #[error("the GPU has no physical doorbell {}", .0.0)]
    PhysicalDoorbell(PhysicalDoorbell),
    /// The guest has no such fence slot.
    #[error("no guest has fence slot {0}")]
    FenceSlot(u32),
    /// The host has no such memory.
    #[error("the host has no memory at {0:?}")]
    Storage(PhysicalAddress),
    /// No such node.
    #[error("the GPU has no node {0}")]
    Node(u32),
}

/// Why the hardware does not do as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HardwareError {
    /// The hardware has no room, which may change.
    #[error(transparent)]
    Full(#[from] HardwareFull),
    /// A bug of the caller.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
}

impl HardwareError {
    /// Reports an unknown id as the bug that it is.
    pub fn report(self) {
        if let Self::Unknown(unknown) = self {
            tracing::error!(%unknown, "a bug of the kernel: it named what the hardware does not have");
        }
    }
}

/// Handles an unknown id where no request can fail over it.
pub trait Reported {
    /// The value that the call returns on success.
    type Value;

    /// Reports an unknown id as the bug that it is, and returns `instead`.
    fn reported_or(self, instead: Self::Value) -> Self::Value;

    /// Reports an unknown id as the bug that it is, and returns the default.
    fn reported(self) -> Self::Value
    where
        Self: Sized,
        Self::Value: Default,
    {
        self.reported_or(Self::Value::default())
    }
}

impl<T> Reported for Result<T, UnknownId> {
    type Value = T;

    fn reported_or(self, instead: T) -> T {
        self.unwrap_or_else(|unknown| {
            HardwareError::from(unknown).report();
            instead
        })
    }
}
