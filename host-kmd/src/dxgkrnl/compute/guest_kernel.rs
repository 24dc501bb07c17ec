// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel that a guest brought, and that is compiled.

use crate::hardware::KernelNumber;
use bellhop_protocol::control::Handle;

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct GuestKernel {
    /// The device that owns it.
    device: Handle,
    /// The number by which packets name it.
    number: KernelNumber,
}

impl GuestKernel {
    /// The kernel of this number, owned by this device.
    pub(crate) fn new(device: Handle, number: KernelNumber) -> Self {
        Self { device, number }
    }

    /// The device that owns it.
    pub(crate) fn device(&self) -> Handle {
        self.device
    }

    /// The number by which packets name it.
    pub(crate) fn number(&self) -> KernelNumber {
        self.number
    }
}
