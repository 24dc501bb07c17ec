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
