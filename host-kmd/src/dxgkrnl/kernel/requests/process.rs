// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about processes. Each process has its own handles and GPU virtual addresses.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::target::{Manner, Target};
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
}
