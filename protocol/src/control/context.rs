//! Requests about contexts.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `D3DKMTCreateContextVirtual`: a context against one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateContext {
    /// The device.
    pub device: Handle,
    /// The node's ordinal.
    pub node: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(CreateContext, 16, device at 0, node at 8, reserved at 12);
request!(CreateContext, CREATE_CONTEXT -> Handle);

/// `D3DKMTDestroyContext`: destroys its HW queues too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyContext {
    /// The context.
    pub context: Handle,
}
crate::assert_layout!(DestroyContext, 8, context at 0);
request!(DestroyContext, DESTROY_CONTEXT -> ());
