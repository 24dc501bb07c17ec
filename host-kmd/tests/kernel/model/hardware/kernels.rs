// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's kernels.

use crate::model::Model;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, KernelNumber, KernelRefusal, KernelSource, Kernels, UnknownId,
};
use bellhop_protocol::control::kernel::KernelCaps;

impl Kernels for Model {
    fn kernel_caps(&self) -> KernelCaps {
        KernelCaps::none("the model has no kernels")
    }

    fn create_kernel(
        &self,
        space: AddressSpaceId,
        _: KernelSource,
    ) -> Result<KernelNumber, KernelRefusal> {
        self.known(UnknownId::AddressSpace(space))?;
        Err(KernelRefusal::NoKernels)
    }

    fn destroy_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId> {
        Err(UnknownId::Kernel { space, kernel })
    }
}
