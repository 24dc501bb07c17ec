// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about devices, and devices in error: no engine executes their work, and the fences that they created are
//! permanently signaled.
//!
//! Source: native GPU fence object, "AlwaysSignaled" ("parent device of fence being put in error").

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::device::{Device, Failing};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::hardware::Fault;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};

impl ProcessAccess<'_> {
    /// Puts all devices of the process in error.
    pub(crate) fn fail_process(&mut self, fault: Fault, failing: Failing) {
        let Ok(devices) = self.process().map(|process| process.devices().clone()) else { return };
        for device in devices {
            self.fail_device(device, fault, failing);
        }
    }

    /// Puts a device in error: engines execute nothing more for it, and nothing can be created on it. Waits end for
    /// the fences that it created. A fence that it only opened is left for other devices to signal, unless they fail
    /// too.
    pub(crate) fn fail_device(&mut self, handle: Handle, fault: Fault, failing: Failing) {
        let Ok(device) = self.get_mut::<Device>(handle) else { return };
        device.fail();
        let (contexts, fences) = (device.contexts().clone(), device.fences().clone());
        for context in contexts {
            self.lose_context(context, fault);
        }
        for fence in fences {
            if failing == Failing::WithItsGuest || self.is_parent_of(handle, fence) {
                self.signal_always(fence);
            }
        }
    }

    /// `D3DKMTCreateDevice`.
    pub(crate) fn create_device(&mut self, request: CreateDevice) -> Handled<Handle> {
        zero("reserved", request.reserved)?;
        if self.process()?.is_terminating() {
            return Err(RequestError::NoSuchProcess(self.process_id));
        }
        let device = self.insert(Device::default())?;
        self.process()?.add_device(device);
        Ok(Answer::Done(device))
    }

    /// `D3DKMTDestroyDevice`.
    pub(crate) fn destroy_device(&mut self, request: DestroyDevice) -> Handled<()> {
        self.get::<Device>(request.device)?;
        Ok(Answer::Terminate(Target::Device(request.device), Manner::Normal))
    }

    /// Destroys a device and everything on it: queues and doorbells first, so that nothing uses the allocations. Only
    /// this destroys ring buffers that a doorbell refers to. Source: user-mode work submission, "Residency model of
    /// doorbell memory and ring buffer allocations".
    pub(crate) fn remove_device(&mut self, handle: Handle) -> Result<(), RequestError> {
        let device = self.remove::<Device>(handle)?;
        for context in device.contexts().clone() {
            self.remove_context(context)?;
        }
        for kernel in device.kernels() {
            self.remove_kernel(*kernel)?;
        }
        for session in device.video_sessions() {
            self.remove_video_session(*session)?;
        }
        self.abandon_compilations(handle)?;
        for fence in device.fences().clone() {
            self.remove_fence(fence)?;
        }
        for allocation in device.allocations().clone() {
            self.close(handle, allocation)?;
        }
        self.process()?.remove_device(handle);
        Ok(())
    }
}
