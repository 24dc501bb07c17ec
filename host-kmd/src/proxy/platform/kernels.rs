// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels that guests bring: every GPU of the chain compiles each, so that any of its nodes can execute it.

use super::LinkedPlatform;
use crate::hardware::{
    AddressSpaceId, GpuOrdinal, KernelNumber, KernelRefusal, KernelSource, Kernels, UnknownId,
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
                self.shared.forget_kernel(space, kernel);
                // The GPU did nothing, and those behind it were not asked.
                self.destroy_on(space, kernel, |gpu| gpu < ordinal)?;
                return Err(refusal);
            }
        }
        Ok(kernel)
    }

    fn destroy_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) -> Result<(), UnknownId> {
        let failed = self.shared.forget_kernel(space, kernel);
        self.destroy_on(space, kernel, |gpu| !failed.contains(&gpu))
    }

    fn forget_failed_kernel(&self, space: AddressSpaceId, kernel: KernelNumber) {
        match self.destroy_kernel(space, kernel) {
            // The master may be what could not compile it.
            Ok(()) | Err(UnknownId::Kernel { .. }) => {}
            Err(unknown) => tracing::error!(%unknown, "a failed kernel's address space is gone"),
        }
    }
}

impl LinkedPlatform {
    /// Destroys a kernel on the GPUs that have it. The answer is the master's; a slave's interrupt may be on its way, which
    /// says that it could not compile it.
    fn destroy_on(
        &self,
        space: AddressSpaceId,
        kernel: KernelNumber,
        has: impl Fn(GpuOrdinal) -> bool,
    ) -> Result<(), UnknownId> {
        for (ordinal, _, gpu) in self.each().skip(1).filter(|(ordinal, ..)| has(*ordinal)) {
            match gpu.destroy_kernel(self.shared.space(space, ordinal), kernel) {
                Ok(()) | Err(UnknownId::Kernel { .. }) => {}
                Err(unknown) => tracing::error!(%unknown, "a kernel's address space is gone"),
            }
        }
        if has(GpuOrdinal::MASTER) {
            self.master().destroy_kernel(space, kernel)
        } else {
            Err(UnknownId::Kernel { space, kernel })
        }
    }
}
