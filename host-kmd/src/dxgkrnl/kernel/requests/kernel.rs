// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about kernels.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use bellhop_protocol::control::kernel::{
    CreateKernel, DestroyKernel, KernelCaps, KernelCreated, QueryKernelCaps, SpecialisationConstant,
};

impl ProcessAccess<'_> {
    /// What kernels can be.
    pub(crate) fn query_kernel_caps(&mut self, request: QueryKernelCaps) -> Handled<KernelCaps> {
        zero("reserved", request.reserved)?;
        Ok(Answer::Done(self.hardware.kernel_caps()))
    }

    /// Nobody can create kernels yet.
    pub(crate) fn create_kernel(
        &mut self,
        _: CreateKernel,
        _: Vec<SpecialisationConstant>,
    ) -> Handled<KernelCreated> {
        Err(RequestError::NotSupported("kernels"))
    }

    /// Nobody has kernels yet.
    pub(crate) fn destroy_kernel(&mut self, request: DestroyKernel) -> Handled<()> {
        Err(RequestError::InvalidHandle(request.kernel))
    }
}
