// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about processes. Each process has its own handles and GPU virtual addresses.

use super::request;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Creates a process of this guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateProcess {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(CreateProcess, 8, reserved at 0);
request!(CreateProcess, CREATE_PROCESS -> CreateProcessReply);

/// Creates a process of this guest with a BAR of its own (feature `PROCESS_BARS`): the doorbells, last-queued values,
/// statuses and fences of the process are in this memory of the guest's, and nobody else's are. Its extents follow.
///
/// The BAR has the layout of a [`BarLayout`](crate::bar::BarLayout) with these counts and no local memory, ends with its last
/// area, and begins with a header, which the device writes before it replies. Offsets in replies to the process are in this
/// BAR. The device forgets the memory before it replies to the [`DestroyProcess`] of the last process that has the BAR.
///
/// Such a process reaches no local memory by CPU: its allocations that CPUs access consist of the guest's own pages, and it has
/// HW queues and no other way to submit. The values of a fence that another process created are not published to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateProcessWithBar {
    /// A process that has a BAR which the new one shares; the other fields are then 0. Or 0.
    pub beside: u32,
    /// Number of [`Extent`](super::allocation::Extent)s that follow: together as long as the BAR.
    pub extent_count: u32,
    /// Number of doorbells.
    pub doorbell_count: u32,
    /// Number of fences.
    pub fence_count: u32,
}
crate::assert_layout!(
    CreateProcessWithBar, 16,
    beside at 0, extent_count at 4, doorbell_count at 8, fence_count at 12,
);
request!(CreateProcessWithBar, CREATE_PROCESS_WITH_BAR -> CreateProcessReply);

/// The new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateProcessReply {
    /// The process id for the header of every request of the process; never 0.
    pub process: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(CreateProcessReply, 8, process at 0, reserved at 4);

/// Tells the host's operator which program of the guest's operating system the process is for. Tools show it as the guest's
/// word, and the device acts on nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DescribeProcess {
    /// The program's user.
    pub user: u32,
    /// The program's process id.
    pub pid: u32,
    /// The program's name, in ASCII. It ends with the field, or before the first zero.
    pub command: [u8; 16],
}
crate::assert_layout!(DescribeProcess, 24, user at 0, pid at 4, command at 8);
request!(DescribeProcess, DESCRIBE_PROCESS -> ());

/// The weight of a process of which nothing is said.
pub const DEFAULT_WEIGHT: u32 = 100;
/// The greatest weight of a process.
pub const MAX_WEIGHT: u32 = 10_000;

/// Sets the process's part of the engine time that its guest has, while other processes of the guest have work on an engine.
/// HW queues that the process creates from then on have it; those of a context have the group of its first one.
///
/// Processes of one [`group`](Self::group) use one part together, however many they are: a turn of any of them is charged to all,
/// by its own weight. Within a group, priorities order the contexts of all its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetProcessShare {
    /// Its part relative to those of others: 1 to [`MAX_WEIGHT`]; initially [`DEFAULT_WEIGHT`].
    pub weight: u32,
    /// Any number that the guest chooses for the group. Processes of which nothing is said are in group 0.
    pub group: u32,
}
crate::assert_layout!(SetProcessShare, 8, weight at 0, group at 4);
request!(SetProcessShare, SET_PROCESS_SHARE -> ());

/// [`DestroyProcess::flags`]: the process ended abnormally.
pub const TERMINATED_ABNORMALLY: u64 = 1 << 0;

/// Destroys the process in the request's header with all its objects. The reply comes when no engine accesses its
/// memory any more.
///
/// Waits for the work of its queues, unless the process was [`TERMINATED_ABNORMALLY`]: then its contexts are
/// suspended and nothing more executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyProcess {
    /// [`TERMINATED_ABNORMALLY`] or 0.
    pub flags: u64,
}
crate::assert_layout!(DestroyProcess, 8, flags at 0);
request!(DestroyProcess, DESTROY_PROCESS -> ());
