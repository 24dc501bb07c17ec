// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that guests bring: every GPU of the chain compiles each, so that any of its nodes can execute it.

use super::LinkedPlatform;
use crate::hardware::{
    AddressSpaceId, KernelNumber, KernelRefusal, KernelSource, Kernels, UnknownId,
};
use bellhop_protocol::control::kernel::KernelCaps;

impl Kernels for LinkedPlatform {
    fn kernel_caps(&self) -> KernelCaps {
        // The chain can do what its weakest GPU can.
        let caps = self.gpus.iter().map(|gpu| gpu.kernel_caps());
        let weakest = caps.min_by_key(|caps| (caps.are_supported(), caps.max_kernels));
        weakest.unwrap_or_else(|| self.master().kernel_caps())
    }

    fn create_kernel(
        &self,
        space: AddressSpaceId,
        source: KernelSource,
        number: Option<KernelNumber>,
    ) -> Result<KernelNumber, KernelRefusal> {
        let kernel = self.master().create_kernel(space, source.clone(), number)?;
        self.shared.begin_kernel(space, kernel, self.gpus.len());
        for (ordinal, _, gpu) in self.each().skip(1) {
            let own = self.shared.space(space, ordinal);
            // Packets name a kernel by one number on all GPUs.
            if let Err(refusal) = gpu.create_kernel(own, source.clone(), Some(kernel)) {
                self.forget(space, kernel)?;
                return Err(refusal);
            }
        }
        Ok(kernel)
    }

    fn destroy_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId> {
        self.forget(space, kernel)
    }
}

impl LinkedPlatform {
    /// Destroys a kernel on every GPU. The answer is the master's; a slave may have been refused it.
    fn forget(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId> {
        self.shared.forget_kernel(space, kernel);
        for (ordinal, _, gpu) in self.each().skip(1) {
            match gpu.destroy_kernel(self.shared.space(space, ordinal), kernel) {
                Ok(()) | Err(UnknownId::Kernel { .. }) => {}
                Err(unknown) => tracing::error!(%unknown, "a kernel's address space is gone"),
            }
        }
        self.master().destroy_kernel(space, kernel)
    }
}
