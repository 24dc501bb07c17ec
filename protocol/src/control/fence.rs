//! Requests about native fences.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `D3DKMTCreateNativeFence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateNativeFence {
    /// The device.
    pub device: Handle,
    /// CurrentValue to begin with.
    pub initial_value: u64,
}
crate::assert_layout!(CreateNativeFence, 16, device at 0, initial_value at 8);
request!(CreateNativeFence, CREATE_NATIVE_FENCE -> CreateNativeFenceReply);

/// The new fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateNativeFenceReply {
    /// The fence.
    pub fence: Handle,
    /// Offset in the BAR of the published CurrentValue.
    pub current_value_offset: u64,
    /// The fence's slot, for packets.
    pub slot: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    CreateNativeFenceReply, 24, fence at 0, current_value_offset at 8, slot at 16, reserved at 20,
);

/// `D3DKMTDestroySynchronizationObject`: waits for it are never satisfied after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyNativeFence {
    /// The fence.
    pub fence: Handle,
}
crate::assert_layout!(DestroyNativeFence, 8, fence at 0);
request!(DestroyNativeFence, DESTROY_NATIVE_FENCE -> ());

/// `D3DKMTWaitForSynchronizationObjectFromCpu`. `SUCCESS` when the value is reached already;
/// `PENDING` when an event with the same cookie will tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct WaitForFence {
    /// The fence: any of the process's, progress fences included.
    pub fence: Handle,
    /// The value to wait for.
    pub value: u64,
    /// Comes back in the event; the process's to choose.
    pub cookie: u64,
}
crate::assert_layout!(WaitForFence, 24, fence at 0, value at 8, cookie at 16);
request!(WaitForFence, WAIT_FOR_FENCE -> ());

/// Takes a wait back. `INVALID_PARAMETER` when there is none: its event is on its way then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CancelWait {
    /// The fence.
    pub fence: Handle,
    /// The cookie that the wait was given.
    pub cookie: u64,
}
crate::assert_layout!(CancelWait, 16, fence at 0, cookie at 8);
request!(CancelWait, CANCEL_WAIT -> ());
