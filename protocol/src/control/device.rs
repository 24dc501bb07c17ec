// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about devices.

use super::{Handle, request};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `D3DKMTCreateDevice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CreateDevice {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(CreateDevice, 8, reserved at 0);
request!(CreateDevice, CREATE_DEVICE -> Handle);

/// `D3DKMTDestroyDevice`: also destroys everything created on the device, including ring buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DestroyDevice {
    /// The device.
    pub device: Handle,
}
crate::assert_layout!(DestroyDevice, 8, device at 0);
request!(DestroyDevice, DESTROY_DEVICE -> ());
