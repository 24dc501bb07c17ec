//! Packets on native fences.
//!
//! A packet names a fence by its *slot*, which creating the fence returned. The fence must belong
//! to the queue's process. Source: native GPU fence object, "Conditional interrupt notification"
//! and "Synchronization issues".

use super::{Opcode, PacketHeader};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `SIGNAL_FENCE`: makes `value` the fence's CurrentValue, releases GPU waiters that it satisfies,
/// and raises an interrupt only if it is greater than the fence's MonitoredValue.
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
