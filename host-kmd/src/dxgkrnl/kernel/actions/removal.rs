// SPDX-License-Identifier: MIT OR Apache-2.0

//! The end of contexts, video sessions, devices and processes with everything that they have.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::node::{Model, NodeSubmission};
use crate::dxgkrnl::video::session::VideoSession;
use crate::hardware::Reported as _;
use bellhop_protocol::control::Handle;

impl ProcessAccess<'_> {
    /// Takes back the command buffer of a destroyed context.
    fn remove_command_buffer(&mut self, submission: NodeSubmission) -> Result<(), RequestError> {
        let Model::Virtual(buffer) = submission.model() else { return Ok(()) };
        let (process, range) = (self.process_id, buffer.range);
        self.give_up(Resource::GpuVa { process, range, paged: false });
        self.remove_allocation(buffer.allocation)
    }

    /// Destroys a context and its HW queues.
    pub(crate) fn remove_context(&mut self, handle: Handle) -> Result<(), RequestError> {
        let context = self.remove::<Context>(handle)?;
        for hw_queue in context.hw_queues().clone() {
            self.remove_hw_queue(hw_queue)?;
        }
        if let Some(submission) = context.node_submission() {
            self.remove_command_buffer(submission)?;
        }
        // A device that is destroyed with its contexts is already gone.
        if let Ok(device) = self.get_mut::<Device>(context.device()) {
            device.remove_context(handle);
        }
        Ok(())
    }

    /// Destroys a session.
    pub(crate) fn remove_video_session(&mut self, handle: Handle) -> Result<(), RequestError> {
        let space = self.process()?.space();
        let session = self.remove::<VideoSession>(handle)?;
        // A device that is destroyed with its sessions is already gone.
        if let Ok(device) = self.get_mut::<Device>(session.device()) {
            device.remove_video_session(handle);
        }
        self.platform.destroy_video_session(space, session.number()).reported();
        Ok(())
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

    /// Destroys the process and everything that it has.
    pub(crate) fn remove_process(&mut self) -> Result<(), RequestError> {
        let devices = self.process()?.devices().clone();
        for device in devices {
            self.remove_device(device)?;
        }
        let process = self.process_id;
        // No allocation frees reserved addresses.
        for (range, refund) in self.process()?.gpu_va.remove_all() {
            self.guest.quotas.refund(Limited::Mappings, refund);
            self.give_up(Resource::GpuVa { process, range, paged: true });
        }
        self.guest.display.forget(process);
        self.guest.vidmm.remove_process(process);
        if let Some(state) = self.guest.processes.remove(&process) {
            let (space, bar) = (state.space(), state.bar());
            self.give_up(Resource::Process { process, space, bar });
        }
        Ok(())
    }
}
