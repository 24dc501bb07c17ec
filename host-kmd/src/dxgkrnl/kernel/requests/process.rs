// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about processes. Each process has its own handles and GPU virtual addresses.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::context::Context;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::process::{
    CreateProcess, CreateProcessReply, DestroyProcess, TERMINATED_ABNORMALLY,
};

impl ProcessAccess<'_> {
    /// Creates a process.
    pub(crate) fn create_process(&mut self, request: CreateProcess) -> Handled<CreateProcessReply> {
        zero("reserved", request.reserved)?;
        self.guest.quotas.charge(Limited::Processes, 1)?;
        let space = match self.miniport.create_process(self.guest_id) {
            Ok(space) => space,
            Err(full) => {
                self.guest.quotas.refund(Limited::Processes, 1);
                return Err(full.into());
            }
        };
        let process = self.new_process_id();
        let state = Process::new(space);
        self.guest.vidmm.add_process(process);
        self.guest.processes.insert(process, state);
        Ok(Answer::Done(CreateProcessReply { process, reserved: 0 }))
    }

    /// Ends the process.
    pub(crate) fn destroy_process(&mut self, request: DestroyProcess) -> Handled<()> {
        let manner = match request.flags {
            0 => Manner::Normal,
            TERMINATED_ABNORMALLY => Manner::Abnormal,
            flags => return Err(RequestError::parameter("flags", flags)),
        };
        Ok(Answer::Terminate(Target::Process, manner))
    }

    /// The process's contexts.
    pub(crate) fn contexts(&mut self) -> Vec<Handle> {
        let Ok(process) = self.process() else { return Vec::new() };
        let devices = process.devices().clone();
        let contexts = |device: &Handle| match self.get::<Device>(*device) {
            Ok(device) => device.contexts().iter().copied().collect(),
            Err(_) => Vec::new(),
        };
        devices.iter().flat_map(contexts).filter(|c| self.get::<Context>(*c).is_ok()).collect()
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
            let space = state.space();
            self.give_up(Resource::Process { process, space });
        }
        Ok(())
    }
}
