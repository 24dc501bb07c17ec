// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that guests bring. This GPU has none.

use super::Gpu;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, KernelNumber, KernelRefusal, KernelSource, Kernels, UnknownId,
};
use bellhop_protocol::control::kernel::KernelCaps;

impl Kernels for Gpu {
    fn kernel_caps(&self) -> KernelCaps {
        KernelCaps::none("this version of Bellhop has no engine that runs kernels")
    }

    fn create_kernel(
        &self,
        space: AddressSpaceId,
        _: KernelSource,
    ) -> Result<KernelNumber, KernelRefusal> {
        self.space(space)?;
        Err(KernelRefusal::NoKernels)
    }

    fn destroy_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId> {
        self.space(space)?;
        Err(UnknownId::Kernel { space, kernel })
    }
}
