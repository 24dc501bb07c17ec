// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets on native fences.
//!
//! A packet names a fence by its *slot*, which creating the fence returned. The fence must belong
//! to the queue's process. Source: native GPU fence object, "Conditional interrupt notification"
//! and "Synchronization issues".

use super::header::{Opcode, PacketHeader};
use crate::fence_log::FenceLogOperation;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `SIGNAL_FENCE`: makes `value` the fence's CurrentValue, releases the GPU waiters that it satisfies, and raises
/// an interrupt only if it is greater than the fence's MonitoredValue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SignalFence {
    /// `argument` is the fence's slot.
    pub header: PacketHeader,
    /// The new CurrentValue; it must not be less than the old one.
    pub value: u64,
}
crate::assert_layout!(SignalFence, 16, header at 0, value at 8);

impl SignalFence {
    /// Signals the fence in `slot`.
    #[must_use]
    pub const fn new(slot: u32, value: u64) -> Self {
        Self { header: PacketHeader::new(Opcode::SIGNAL_FENCE, size_of::<Self>(), slot), value }
    }

    /// The fence's slot.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.header.argument
    }
}

/// `WAIT_FENCE`: holds the queue, not the engine, until the fence's CurrentValue is at least
/// `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitFence {
    /// `argument` is the fence's slot.
    pub header: PacketHeader,
    /// The value to wait for.
    pub value: u64,
}
crate::assert_layout!(WaitFence, 16, header at 0, value at 8);

impl WaitFence {
    /// Waits for the fence in `slot`.
    #[must_use]
    pub const fn new(slot: u32, value: u64) -> Self {
        Self { header: PacketHeader::new(Opcode::WAIT_FENCE, size_of::<Self>(), slot), value }
    }

    /// The fence's slot.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.header.argument
    }
}

/// `CONDITIONAL_INTERRUPT`: raises an interrupt only if the fence's CurrentValue is greater than
/// its MonitoredValue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ConditionalInterrupt {
    /// `argument` is the fence's slot.
    pub header: PacketHeader,
}
crate::assert_layout!(ConditionalInterrupt, 8, header at 0);

impl ConditionalInterrupt {
    /// Evaluates the fence in `slot`.
    #[must_use]
    pub const fn new(slot: u32) -> Self {
        Self { header: PacketHeader::new(Opcode::CONDITIONAL_INTERRUPT, size_of::<Self>(), slot) }
    }

    /// The fence's slot.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.header.argument
    }
}

/// `WRITE_FENCE`: makes `value` the fence's CurrentValue; waiters wake only after a following
/// [`ConditionalInterrupt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WriteFence {
    /// `argument` is the fence's slot.
    pub header: PacketHeader,
    /// The new CurrentValue; it must not be less than the old one.
    pub value: u64,
}
crate::assert_layout!(WriteFence, 16, header at 0, value at 8);

impl WriteFence {
    /// Writes the fence in `slot`.
    #[must_use]
    pub const fn new(slot: u32, value: u64) -> Self {
        Self { header: PacketHeader::new(Opcode::WRITE_FENCE, size_of::<Self>(), slot), value }
    }

    /// The fence's slot.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.header.argument
    }
}

/// `LOG_FENCE`: records an operation, with the time, in one of the queue's logs, at the next free entry, which the
/// engine tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LogFence {
    /// `argument` is the fence's slot.
    pub header: PacketHeader,
    /// The value signaled or waited for.
    pub value: u64,
    /// The operation. A wait entry refers to the packet before it; otherwise the queue counts as never held.
    pub operation: FenceLogOperation,
    /// Zero.
    pub reserved: u32,
    /// When the driver queued the operation, on the adapter's clock; 0 if it does not say.
    pub queued_timestamp: u64,
}
crate::assert_layout!(
    LogFence, 32,
    header at 0, value at 8, operation at 16, reserved at 20, queued_timestamp at 24,
);

impl LogFence {
    /// Records an operation on the fence in `slot`.
    #[must_use]
    pub const fn new(slot: u32, value: u64, operation: FenceLogOperation) -> Self {
        let header = PacketHeader::new(Opcode::LOG_FENCE, size_of::<Self>(), slot);
        Self { header, value, operation, reserved: 0, queued_timestamp: 0 }
    }

    /// The fence's slot.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.header.argument
    }
}

/// A signal with its log entry, in the order that the reference asks for: value, entry, interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LoggedSignal {
    /// The value.
    pub write: WriteFence,
    /// Its entry.
    pub log: LogFence,
    /// The interrupt.
    pub interrupt: ConditionalInterrupt,
}
crate::assert_layout!(LoggedSignal, 56, write at 0, log at 16, interrupt at 48);

impl LoggedSignal {
    /// Signals the fence in `slot`.
    #[must_use]
    pub const fn new(slot: u32, value: u64) -> Self {
        Self {
            write: WriteFence::new(slot, value),
            log: LogFence::new(slot, value, FenceLogOperation::SIGNAL_EXECUTED),
            interrupt: ConditionalInterrupt::new(slot),
        }
    }
}

/// A wait with its log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LoggedWait {
    /// The wait.
    pub wait: WaitFence,
    /// Its entry, written when the wait ends.
    pub log: LogFence,
}
crate::assert_layout!(LoggedWait, 48, wait at 0, log at 16);

impl LoggedWait {
    /// Waits for the fence in `slot`.
    #[must_use]
    pub const fn new(slot: u32, value: u64) -> Self {
        Self {
            wait: WaitFence::new(slot, value),
            log: LogFence::new(slot, value, FenceLogOperation::WAIT_UNBLOCKED),
        }
    }
}
