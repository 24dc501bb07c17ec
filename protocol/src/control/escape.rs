// SPDX-License-Identifier: MIT OR Apache-2.0

//! Private requests of tools: what objects there are.
//!
//! Source: Windows kernel-mode display driver overview, "External Events Utility": its service
//! "sends messages to the KMD via escape calls".

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// Which objects are listed. Each list's entries are a type of [`snapshot`](crate::snapshot),
    /// in JSON.
    pub struct ObjectList: u32 {
        /// [`Adapter`](crate::snapshot::Adapter), the one there is.
        ADAPTER = 1;
        /// [`Node`](crate::snapshot::Node)s of the adapter.
        NODES = 2;
        /// [`Guest`](crate::snapshot::Guest)s: who asks from within a guest sees that one.
        GUESTS = 3;
        /// [`Process`](crate::snapshot::Process)es of a guest.
        PROCESSES = 4;
        /// [`Device`](crate::snapshot::Device)s of a process.
        DEVICES = 5;
        /// [`Context`](crate::snapshot::Context)s of a device.
        CONTEXTS = 6;
        /// [`HwQueue`](crate::snapshot::HwQueue)s of a context.
        HW_QUEUES = 7;
        /// [`Allocation`](crate::snapshot::Allocation)s of a device.
        ALLOCATIONS = 8;
        /// [`Fence`](crate::snapshot::Fence)s of a device, without its queues' progress fences.
        FENCES = 9;
    }
}

/// Lists some of the objects that the guest has (`D3DKMTEscape`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Escape {
    /// Which.
    pub list: ObjectList,
    /// The process whose objects they are; 0 for lists of the adapter and of the guest.
    pub process: u32,
    /// The device or context that they belong to; 0 for the lists above those.
    pub parent: Handle,
    /// 0 for the first of them, or [`EscapeReply::next`] to continue.
    pub after: u64,
}
crate::assert_layout!(Escape, 24, list at 0, process at 4, parent at 8, after at 16);
request!(Escape, ESCAPE -> EscapeReply);

/// Most bytes of objects in one reply.
pub const ESCAPE_DATA_SIZE: usize = 4064;

/// A part of a list. Objects come and go while it is read; each is told as it was at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct EscapeReply {
    /// What to ask for next, or 0 when that was all.
    pub next: u64,
    /// How many bytes of `data` are there.
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// The objects: an array in JSON. Zero behind it.
    pub data: [u8; ESCAPE_DATA_SIZE],
}
crate::assert_layout!(EscapeReply, 4080, next at 0, length at 8, reserved at 12, data at 16);
