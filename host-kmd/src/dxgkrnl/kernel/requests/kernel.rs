// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about kernels.

use crate::dxgkrnl::compute::source;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::kernel::waiter::DeferredKernel;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use bellhop_protocol::control::kernel::{
    CreateKernel, DestroyKernel, KernelCaps, KernelCreated, QueryKernelCaps, SpecialisationConstant,
};

impl ProcessAccess<'_> {
    /// What kernels can be, for this guest.
    pub(crate) fn query_kernel_caps(&mut self, request: QueryKernelCaps) -> Handled<KernelCaps> {
        zero("reserved", request.reserved)?;
        let mut caps = self.platform.kernel_caps();
        let limit = self.guest.quotas.limit(Limited::Kernels);
        caps.max_kernels = caps.max_kernels.min(u32::try_from(limit).unwrap_or(u32::MAX));
        Ok(Answer::Done(caps))
    }

    /// Compiles a kernel, aside. The hardware reads the SPIR-V while no paging moves it.
    pub(crate) fn create_kernel(
        &mut self,
        request: CreateKernel,
        constants: Vec<SpecialisationConstant>,
    ) -> Handled<KernelCreated> {
        let CreateKernel { device, .. } = request;
        self.get::<Device>(device)?.check_alive(device)?;
        let caps = self.platform.kernel_caps();
        if !caps.are_supported() {
            return Err(RequestError::NotSupported("kernels"));
        }
        let source = source::check(&request, &constants, &caps)?;
        if self.waits_for_paging() {
            let process = self.process_id;
            let deferred = Box::new(DeferredKernel { process, device, source });
            return Ok(Answer::CompileAfterPaging(deferred));
        }
        self.compile(device, source).map(Answer::AfterCompiling)
    }

    /// Destroys a kernel. An engine that executes it finishes.
    pub(crate) fn destroy_kernel(&mut self, request: DestroyKernel) -> Handled<()> {
        self.remove_kernel(request.kernel)?;
        Ok(Answer::Done(()))
    }
}
