// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel is compiled aside, by the hardware: nobody else waits, and its request is answered at the end. A device that
//! ends before takes the kernel with it, and the request is answered `DEVICE_REMOVED`.

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::request::Compiling;
use crate::dxgkrnl::kernel::waiter::DeferredKernel;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{AddressSpaceId, GuestId, KernelNumber, KernelOutcome};

impl Kernel {
    /// Paging is done that a kernel waited for: the hardware begins to compile it, unless paging failed.
    pub(crate) fn compile_deferred(
        &mut self,
        guest: GuestId,
        deferred: DeferredKernel,
        failed: bool,
    ) -> Result<(Compiling, u32), RequestError> {
        let DeferredKernel { process, device, source } = deferred;
        if failed {
            return Err(RequestError::PagingFailed);
        }
        let mut access = self.access(guest, process).ok_or(RequestError::DeviceRemoved(device))?;
        Ok((access.compile(device, source)?, process))
    }

    /// The hardware is done with a kernel.
    pub(crate) fn kernel_compiled(
        &mut self,
        space: AddressSpaceId,
        kernel: KernelNumber,
        outcome: KernelOutcome,
    ) {
        if let KernelOutcome::Failed(..) = outcome {
            self.platform.forget_failed_kernel(space, kernel);
        }
        let Some(compilation) = self.compilations.end(space, kernel) else {
            tracing::debug!(?space, ?kernel, "its device ended before it was compiled");
            return;
        };
        let (guest, process) = (compilation.guest, compilation.process);
        if let Some(mut access) = self.access(guest, process) {
            access.end_compilation(kernel, compilation, outcome);
        }
    }
}
