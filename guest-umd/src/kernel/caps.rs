// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the device can do for kernels.

use crate::adapter::Adapter;
use crate::error::Error;
use bellhop_protocol::control::kernel::{KernelCaps, QueryKernelCaps};

impl Adapter {
    /// What kernels can do on this device: whether there are any, and if not, why
    /// ([`KernelCaps::missing`]); their limits; the Vulkan device that runs them.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn kernel_caps(&self) -> Result<KernelCaps, Error> {
        self.adapter_call(&QueryKernelCaps { reserved: 0 })
    }
}
