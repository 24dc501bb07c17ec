// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about processes: each has handles and GPU virtual addresses of its own.

use super::request;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Begins a process of this guest.
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
    /// Goes into the header of every request that the process makes; never 0.
    pub process: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(CreateProcessReply, 8, process at 0, reserved at 4);

/// [`DestroyProcess::flags`]: the process did not end by itself.
pub const TERMINATED_ABNORMALLY: u64 = 1 << 0;

/// Ends the process in the request's header, with everything that it has. The reply comes when
/// no engine touches its memory any more.
///
/// What its queues were given is waited for, unless it was [`TERMINATED_ABNORMALLY`]: then its
/// contexts are suspended and nothing more executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyProcess {
    /// [`TERMINATED_ABNORMALLY`] or 0.
    pub flags: u64,
}
crate::assert_layout!(DestroyProcess, 8, flags at 0);
request!(DestroyProcess, DESTROY_PROCESS -> ());
