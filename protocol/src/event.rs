// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events: what the host tells a guest without being asked, one in each event-queue buffer.

use crate::packet::Opcode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What an [`Event`] tells.
    pub struct EventKind: u32 {
        /// A wait registered with `WAIT_FOR_FENCES` is satisfied.
        FENCE_SIGNALED = 1;
        /// A HW queue made an error: its doorbell reads `DISCONNECTED_ABORT` and it executes
        /// nothing more.
        HW_QUEUE_ERROR = 2;
        /// The process has more local memory than its budget and should evict some. `value`: how many
        /// bytes.
        TRIM_RESIDENCY = 3;
        /// The device is not the one that the driver began with, as when its daemon was started
        /// again, and knows nothing of what the driver had: the driver resets it. All else is 0.
        DEVICE_REPLACED = 4;
    }
}

open_enum! {
    /// What a HW queue did wrong.
    pub struct FaultReason: u32 {
        /// No fault.
        NONE = 0;
        /// `address`: the opcode.
        UNKNOWN_PACKET = 1;
        /// The packet's length is not its opcode's, or the buffer ends inside it. `address`: the
        /// length in bytes.
        BAD_PACKET_LENGTH = 2;
        /// A read touched a page that is not mapped. `address`: the GPU virtual address.
        READ_PAGE_FAULT = 3;
        /// A write touched a page that is not mapped. `address`: the GPU virtual address.
        WRITE_PAGE_FAULT = 4;
        /// A write touched a read-only page. `address`: the GPU virtual address.
        WRITE_PROTECTION_FAULT = 5;
        /// The write pointer is not one that the ring can have. `address`: the write pointer.
        RING_POINTER_OUT_OF_RANGE = 6;
        /// Indirect buffers nest deeper than allowed, as one that contains itself does.
        /// `address`: the innermost buffer's GPU virtual address.
        INDIRECT_BUFFER_TOO_DEEP = 7;
        /// An indirect buffer's address or size is not one it can have. `address`: the size.
        BAD_INDIRECT_BUFFER = 8;
        /// The fence's slot is empty or the fence is another process's. `address`: the slot.
        FENCE_NOT_OWNED = 9;
        /// A signal would make a fence's value smaller. `address`: the value.
        FENCE_WENT_BACKWARDS = 10;
        /// The node has no such packet or kernel. `address`: the kernel, or the opcode.
        NOT_SUPPORTED_BY_NODE = 11;
        /// An address or a length is not the multiple that the packet asks for. `address`: it.
        MISALIGNED = 12;
        /// A range wraps around the end of the address space. `address`: its start.
        ADDRESS_OUT_OF_RANGE = 13;
        /// The engine hung: the queue was executed for longer than the adapter's time-out while
        /// neither its read pointer nor its progress fence moved. Or it was to be destroyed, and what
        /// it was given was not done in that time. `address`: how long, in milliseconds.
        ENGINE_TIMEOUT = 14;
        /// The process was marked in error, or ended abnormally. `address`: 0.
        DEVICE_IN_ERROR = 15;
        /// The adapter was reset, over a queue of any guest. `address`: 0.
        ADAPTER_RESET = 16;
        /// An operation on a fence that no log has. `address`: the operation.
        BAD_LOG_OPERATION = 17;
        /// A packet waits for a monitored fence, for which only CPUs can wait. `address`: the slot.
        FENCE_NOT_NATIVE = 18;
    }
}

impl FaultReason {
    /// Whether memory was accessed that is not mapped, or not for writing.
    #[must_use]
    pub fn is_page_fault(self) -> bool {
        [Self::READ_PAGE_FAULT, Self::WRITE_PAGE_FAULT, Self::WRITE_PROTECTION_FAULT]
            .contains(&self)
    }
}

/// One event: 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Event {
    /// What it tells.
    pub kind: EventKind,
    /// The process concerned.
    pub process: u32,
    /// The object concerned: the fence, or the HW queue. `TRIM_RESIDENCY`: 0.
    pub object: u64,
    /// `FENCE_SIGNALED`: the fence's value. `HW_QUEUE_ERROR`: the address that the reason tells of.
    /// `TRIM_RESIDENCY`: the bytes.
    pub value: u64,
    /// `FENCE_SIGNALED`: the cookie of the wait. `HW_QUEUE_ERROR`: the read pointer in the ring.
    pub cookie: u64,
    /// `HW_QUEUE_ERROR`: what went wrong.
    pub reason: FaultReason,
    /// `HW_QUEUE_ERROR`: the packet that was being executed.
    pub opcode: Opcode,
    /// Zero.
    pub reserved0: u16,
    /// `HW_QUEUE_ERROR`: the context concerned.
    pub context: u64,
    /// Zero.
    pub reserved1: [u64; 2],
}
crate::assert_layout!(
    Event, 64,
    kind at 0, process at 4, object at 8, value at 16, cookie at 24, reason at 32, opcode at 36,
    reserved0 at 38, context at 40, reserved1 at 48,
);
