// SPDX-License-Identifier: MIT OR Apache-2.0

//! Private requests of tools: listing objects.
//!
//! Source: Windows kernel-mode display driver overview, "External Events Utility": its service
//! "sends messages to the KMD via escape calls".

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// The kind of objects to list. Each list's entries are a type of [`snapshot`](crate::snapshot), in JSON.
    pub struct ObjectList: u32 {
        /// [`Adapter`](crate::snapshot::Adapter): the one adapter.
        ADAPTER = 1;
        /// [`Node`](crate::snapshot::Node)s of the adapter.
        NODES = 2;
        /// [`Guest`](crate::snapshot::Guest)s; a request from within a guest sees only that guest.
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
        /// [`Kernel`](crate::snapshot::Kernel)s of a process.
        KERNELS = 10;
        /// [`Worker`](crate::snapshot::Worker)s of the adapter; a request from within a guest sees only that guest's.
        WORKERS = 11;
        /// [`Display`](crate::snapshot::Display)s of a guest: its connectors.
        DISPLAYS = 12;
    }
}

/// Lists some of the guest's objects (`D3DKMTEscape`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Escape {
    /// The kind of objects.
    pub list: ObjectList,
    /// The process that owns the objects; 0 for lists of the adapter and of the guest.
    pub process: u32,
    /// The device or context that owns the objects; 0 for lists above those.
    pub parent: Handle,
    /// 0 to begin, or [`EscapeReply::next`] to continue.
    pub after: u64,
}
crate::assert_layout!(Escape, 24, list at 0, process at 4, parent at 8, after at 16);
request!(Escape, ESCAPE -> EscapeReply);

/// Maximum number of bytes of objects in one reply.
pub const ESCAPE_DATA_SIZE: usize = 4064;

/// A part of a list. Objects come and go between parts; each object is described as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct EscapeReply {
    /// The `after` of the next request, or 0 at the end of the list.
    pub next: u64,
    /// Number of valid bytes in `data`.
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// The objects: a JSON array. Zero-filled after it.
    pub data: [u8; ESCAPE_DATA_SIZE],
}
crate::assert_layout!(EscapeReply, 4080, next at 0, length at 8, reserved at 12, data at 16);
