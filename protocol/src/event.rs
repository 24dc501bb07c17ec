// SPDX-License-Identifier: MIT OR Apache-2.0

//! Events: unsolicited messages from the host to a guest, one in each event-queue buffer.

use crate::packet::Opcode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What an [`Event`] reports.
    pub struct EventKind: u32 {
        /// A wait registered with `WAIT_FOR_FENCES` is satisfied.
        FENCE_SIGNALED = 1;
        /// A HW queue failed: its doorbell reads `DISCONNECTED_ABORT` and it executes nothing more.
        HW_QUEUE_ERROR = 2;
        /// The process exceeds its local-memory budget and should evict. `value`: the excess in bytes.
        TRIM_RESIDENCY = 3;
        /// The device was replaced, for example because its daemon restarted, and knows none of the driver's
        /// objects: the driver resets it. All other fields are 0.
        DEVICE_REPLACED = 4;
        /// A monitor began a frame. `object`: the source; `value`: the flip that is shown, 0 for none; `cookie`: VSYNCs
        /// of the source since the commit; `time`. Sent where [`ControlInterrupt`] asked for it.
        ///
        /// [`ControlInterrupt`]: crate::control::flip::ControlInterrupt
        VSYNC = 5;
        /// A flip has ended. `object`: the source; `value`: the flip; `cookie` and `time` as for `VSYNC`; `outcome`.
        FLIPPED = 6;
        /// A monitor was plugged in or unplugged. `object`: the child; `value`: 1 if one is plugged in, otherwise 0;
        /// `cookie`: the child's generation.
        CHILD_STATUS_CHANGED = 7;
        /// A viewer pressed a key or moved the pointer. `object`: the source; `value`: [`InputKind`]; `cookie`: what
        /// that says.
        INPUT = 8;
        /// The agent shall change what the monitors show. `value`: [`AgentTopology`]; `cookie`: the request's number;
        /// for `MODE` and `ROTATE`, `object`: the connector, `context`: width, and height in the upper half, `time`:
        /// refresh rate in thousandths of a Hz, 0 for any; for `ROTATE`, the width is the rotation.
        ///
        /// [`AgentTopology`]: crate::control::agent::AgentTopology
        TOPOLOGY_WANTED = 9;
        /// The agent shall set a power policy. `value`: [`PowerPolicy`]; `cookie`: the request's number.
        ///
        /// [`PowerPolicy`]: crate::control::agent::PowerPolicy
        POWER_POLICY_WANTED = 10;
        /// The agent shall stop the device and its clients. `cookie`: the request's number.
        DEVICE_STOP_WANTED = 11;
        /// The agent shall start the device and its clients. `cookie`: the request's number.
        DEVICE_START_WANTED = 12;
        /// A GPU is there again. `object`: its ordinal, 0 where there is one.
        GPU_ARRIVED = 13;
        /// A GPU was taken away. `object`: its ordinal.
        GPU_LEFT = 14;
        /// Something was reset after a hang. `value`: [`RecoveryKind`]; `object`: the node, all ones for the adapter;
        /// a node of the GPU that was reset, in a chain.
        ///
        /// [`RecoveryKind`]: crate::control::agent::RecoveryKind
        RECOVERED = 15;
        /// A process that shows something shall agree to another topology, or refuse it. Fields as for
        /// `TOPOLOGY_WANTED`, and in the upper half of `value` the milliseconds that it has for an answer.
        CONSENT_WANTED = 16;
        /// To the agent: other processes show other sources than before; `value`: a bit for each of them. To another
        /// process: its sources were taken away; `value`: 0.
        SOURCES_CHANGED = 17;
        /// The device stops, or is started; for all processes. `value`: [`DevicePresence`]; `cookie`: milliseconds until
        /// then.
        ///
        /// [`DevicePresence`]: crate::control::agent::DevicePresence
        PRESENCE_CHANGED = 18;
    }
}

open_enum! {
    /// What a HW queue did wrong.
    pub struct FaultReason: u32 {
        /// No fault.
        NONE = 0;
        /// `address`: the opcode.
        UNKNOWN_PACKET = 1;
        /// The packet's length does not match its opcode, or the buffer ends inside it. `address`: the length in
        /// bytes.
        BAD_PACKET_LENGTH = 2;
        /// A read touched a page that is not mapped. `address`: the GPU virtual address.
        READ_PAGE_FAULT = 3;
        /// A write touched a page that is not mapped. `address`: the GPU virtual address.
        WRITE_PAGE_FAULT = 4;
        /// A write touched a read-only page. `address`: the GPU virtual address.
        WRITE_PROTECTION_FAULT = 5;
        /// The ring cannot have this write pointer. `address`: the write pointer.
        RING_POINTER_OUT_OF_RANGE = 6;
        /// Indirect buffers nest deeper than allowed, as one that contains itself does. `address`: the innermost
        /// buffer's GPU virtual address.
        INDIRECT_BUFFER_TOO_DEEP = 7;
        /// An indirect buffer's address or size is invalid. `address`: the size.
        BAD_INDIRECT_BUFFER = 8;
        /// The fence's slot is empty, or another process owns the fence. `address`: the slot.
        FENCE_NOT_OWNED = 9;
        /// A signal would decrease a fence's value. `address`: the value.
        FENCE_WENT_BACKWARDS = 10;
        /// The node does not support the packet or kernel. `address`: the kernel, or the opcode.
        NOT_SUPPORTED_BY_NODE = 11;
        /// An address or length is not a multiple of what the packet requires. `address`: that address or length.
        MISALIGNED = 12;
        /// A range wraps around the end of the address space. `address`: its start.
        ADDRESS_OUT_OF_RANGE = 13;
        /// The engine hung: it executed the queue for longer than the adapter's time-out while neither the read
        /// pointer nor the progress fence moved. Or the queue was to be destroyed and did not finish its work in
        /// that time. `address`: the time in milliseconds.
        ENGINE_TIMEOUT = 14;
        /// The process was marked in error, or ended abnormally. `address`: 0.
        DEVICE_IN_ERROR = 15;
        /// The adapter was reset because of a queue of any guest. `address`: 0.
        ADAPTER_RESET = 16;
        /// A fence operation that belongs in no log. `address`: the operation.
        BAD_LOG_OPERATION = 17;
        /// A packet waits for a monitored fence, for which only CPUs can wait. `address`: the slot.
        FENCE_NOT_NATIVE = 18;
        /// The process has no kernel of this number, or it is not compiled. `address`: the number.
        NO_SUCH_KERNEL = 19;
        /// Not the kernel's arguments, or more work groups than the device can have. `address`: the offending value.
        BAD_KERNEL_ARGUMENTS = 20;
        /// The host's Vulkan device refused to run the kernel, or was lost. `address`: the kernel's number; where the
        /// command begins in its stream.
        KERNEL_FAILED = 21;
        /// The process on the host that ran the kernel ended. `address`: the kernel's number; 0 for commands.
        KERNEL_LOST = 22;
        /// A rectangle has a size, pitch, clip, filter or format that surfaces cannot have. `address`: that value.
        BAD_RECTANGLE = 23;
        /// The host's operator has put the guest's devices in error. `address`: 0.
        FAILED_BY_OPERATOR = 24;
        /// The host's operator has taken the guest's GPU away. `address`: 0.
        GPU_REMOVED = 25;
        /// The guest's agent has stopped the device. `address`: 0.
        DEVICE_STOPPED = 26;
        /// The process has no video session of this number on the node. `address`: the number.
        NO_SUCH_SESSION = 27;
        /// Not a packet that the session can have. `address`: the offending value.
        BAD_VIDEO_ARGUMENTS = 28;
        /// A packet would make protected memory readable: it copies to memory that is not protected, or is one that does
        /// not read protected memory. `address`: the GPU virtual address that it may not write, or may not read.
        PROTECTED_MEMORY = 30;
        /// The process on the host that has the keys ended, or did not answer. `address`: the opcode.
        SECURITY_LOST = 31;
        /// A packet of a security node has a length that it cannot have. `address`: that length.
        BAD_SECURITY_ARGUMENTS = 32;
        /// Not a stream of commands. `address`: where the command begins in the stream, or the stream's length.
        BAD_COMMANDS = 33;
    }
}

impl FaultReason {
    /// Returns whether the fault is an access to an unmapped page, or a write to a read-only one.
    #[must_use]
    pub fn is_page_fault(self) -> bool {
        [Self::READ_PAGE_FAULT, Self::WRITE_PAGE_FAULT, Self::WRITE_PROTECTION_FAULT]
            .contains(&self)
    }
}

open_enum! {
    /// How a flip ended.
    pub struct FlipOutcome: u32 {
        /// The primary was shown.
        SHOWN = 0;
        /// A later flip replaced it before it was shown.
        DROPPED = 1;
        /// Its source was taken away, its primary destroyed, a fence of it closed, or the display reset.
        LOST = 2;
    }
}

open_enum! {
    /// What a viewer did.
    pub struct InputKind: u32 {
        /// A key: its keysym of X11 in the bits from 1 on; bit 0: it went down.
        KEY = 1;
        /// The pointer: x in the upper 32 bits, y in bits 16 to 31, both in pixels of the source; pressed buttons in
        /// bits 0 to 15, as RFB numbers them.
        POINTER = 2;
    }
}

/// One event: 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Event {
    /// What the event reports.
    pub kind: EventKind,
    /// The process concerned.
    pub process: u32,
    /// The object concerned: the fence, the HW queue, the source or the child. `TRIM_RESIDENCY`: 0.
    pub object: u64,
    /// `FENCE_SIGNALED`: the fence's value. `HW_QUEUE_ERROR`: the `address` of the reason. `TRIM_RESIDENCY`: the
    /// excess in bytes. Events of a display: see [`EventKind`].
    pub value: u64,
    /// `FENCE_SIGNALED`: the cookie of the wait. `HW_QUEUE_ERROR`: the read pointer in the ring. Events of a display:
    /// see [`EventKind`].
    pub cookie: u64,
    /// `HW_QUEUE_ERROR`: what went wrong.
    pub reason: FaultReason,
    /// `HW_QUEUE_ERROR`: the packet in execution.
    pub opcode: Opcode,
    /// Zero.
    pub reserved0: u16,
    /// `HW_QUEUE_ERROR`: the context concerned.
    pub context: u64,
    /// `VSYNC`, `FLIPPED`: when, in ticks of the clock of `TIMESTAMP`.
    pub time: u64,
    /// `FLIPPED`: how the flip ended.
    pub outcome: FlipOutcome,
    /// Zero.
    pub reserved1: u32,
}
crate::assert_layout!(
    Event, 64,
    kind at 0, process at 4, object at 8, value at 16, cookie at 24, reason at 32, opcode at 36,
    reserved0 at 38, context at 40, time at 48, outcome at 56,
    reserved1 at 60,
);
