// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about contexts.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `D3DKMTCreateContextVirtual`: creates a context on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateContext {
    /// The device.
    pub device: Handle,
    /// The node's ordinal.
    pub node: u32,
    /// `EngineAffinity`: the engines of the node that may execute the context, one bit each. A Bellhop node has one
    /// engine, so this is 1, or 0 for any.
    pub engine_affinity: u32,
}
crate::assert_layout!(CreateContext, 16, device at 0, node at 8, engine_affinity at 12);
request!(CreateContext, CREATE_CONTEXT -> Handle);

/// `D3DKMTDestroyContext`: also destroys its HW queues, as [`DestroyHwQueue`] does.
///
/// [`DestroyHwQueue`]: super::hw_queue::DestroyHwQueue
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyContext {
    /// The context.
    pub context: Handle,
}
crate::assert_layout!(DestroyContext, 8, context at 0);
request!(DestroyContext, DESTROY_CONTEXT -> ());

/// `DxgkDdiSuspendContext` by the context's owner: takes its queues off the run list. Doorbells stay connected and
/// work can be queued, but no work executes. The reply comes when the engine has left the context. No effect on a
/// suspended context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SuspendContext {
    /// The context.
    pub context: Handle,
}
crate::assert_layout!(SuspendContext, 8, context at 0);
request!(SuspendContext, SUSPEND_CONTEXT -> ());

/// `D3DKMTSetContextSchedulingPriority`: the urgency of the context's work relative to the guest's other contexts.
/// A new context has 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetContextSchedulingPriority {
    /// The context.
    pub context: Handle,
    /// -7 to 7; higher priorities run first.
    pub priority: i32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    SetContextSchedulingPriority, 16,
    context at 0, priority at 8, reserved at 12,
);
request!(SetContextSchedulingPriority, SET_CONTEXT_SCHEDULING_PRIORITY -> ());

/// `DxgkDdiResumeContext`: the queued work executes. No effect on a context that its owner has not suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ResumeContext {
    /// The context.
    pub context: Handle,
}
crate::assert_layout!(ResumeContext, 8, context at 0);
request!(ResumeContext, RESUME_CONTEXT -> ());
