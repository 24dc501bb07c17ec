// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels of guests: compiled by the hardware, destroyed, or abandoned with their device.

use crate::dxgkrnl::compute::compilations::Compilation;
use crate::dxgkrnl::compute::guest_kernel::GuestKernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::Compiling;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::handles::ObjectKind;
use crate::hardware::{
    HardwareError, KernelNumber, KernelOutcome, KernelSource, Reported as _, UnknownId,
};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::kernel::{KernelCreated, KernelResult, padded, unpadded};
use zerocopy::IntoBytes;

/// The reply about a kernel, with what the compiler said.
pub(crate) fn created(
    kernel: Handle,
    KernelNumber(number): KernelNumber,
    result: KernelResult,
    text: &str,
) -> KernelCreated {
    let text = padded(text);
    let text_length = unpadded(&text).len() as u32;
    KernelCreated { kernel, number, result, text_length, reserved: 0, text }
}

impl ProcessAccess<'_> {
    /// Has the hardware compile a kernel for a device that is not in error. The guest is charged for it from now on.
    pub(crate) fn compile(
        &mut self,
        device: Handle,
        source: KernelSource,
    ) -> Result<Compiling, RequestError> {
        let space = self.process()?.space();
        let is_alive = self.get::<Device>(device).is_ok_and(|device| !device.is_in_error());
        if !is_alive {
            return Err(RequestError::DeviceRemoved(device));
        }
        self.guest.quotas.charge_object(ObjectKind::GuestKernel)?;
        match self.platform.create_kernel(space, source, None) {
            Ok(kernel) => Ok(Compiling { space, kernel, device }),
            Err(refusal) => {
                self.guest.quotas.refund_object(ObjectKind::GuestKernel);
                Err(refusal.into())
            }
        }
    }

    /// The hardware is done with a kernel of the process, whose request is answered.
    pub(crate) fn end_compilation(
        &mut self,
        number: KernelNumber,
        compilation: Compilation,
        outcome: KernelOutcome,
    ) {
        let Compilation { device, promise, .. } = compilation;
        let reply = match outcome {
            KernelOutcome::Compiled => {
                // The guest was charged for it when this began.
                let kernel = GuestKernel::new(device, number);
                let kernel = self.guest.handles.insert(self.process_id, kernel);
                match self.get_mut::<Device>(device) {
                    Ok(device) => device.add_kernel(kernel),
                    Err(error) => tracing::error!(%error, "a kernel outlived its device"),
                }
                created(kernel, number, KernelResult::COMPILED, "")
            }
            KernelOutcome::Failed(result, text) => {
                self.guest.quotas.refund_object(ObjectKind::GuestKernel);
                created(Handle(0), KernelNumber(0), result, &text)
            }
        };
        self.answer(promise, Ok(reply.as_bytes().to_vec()));
    }

    /// A device ends: nobody waits for its kernels any more.
    pub(crate) fn abandon_compilations(&mut self, device: Handle) -> Result<(), RequestError> {
        let space = self.process()?.space();
        for (kernel, compilation) in self.compilations.take_of(space, device) {
            match self.platform.destroy_kernel(space, kernel) {
                // It may have failed, and its interrupt be on its way.
                Ok(()) | Err(UnknownId::Kernel { .. }) => {}
                Err(unknown) => HardwareError::from(unknown).report(),
            }
            self.guest.quotas.refund_object(ObjectKind::GuestKernel);
            self.answer(compilation.promise, Err(RequestError::DeviceRemoved(device)));
        }
        Ok(())
    }

    /// Destroys a kernel.
    pub(crate) fn remove_kernel(&mut self, handle: Handle) -> Result<(), RequestError> {
        let space = self.process()?.space();
        let kernel = self.remove::<GuestKernel>(handle)?;
        // A device that is destroyed with its kernels is already gone.
        if let Ok(device) = self.get_mut::<Device>(kernel.device()) {
            device.remove_kernel(handle);
        }
        self.platform.destroy_kernel(space, kernel.number()).reported();
        Ok(())
    }
}
