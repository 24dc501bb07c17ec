// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about processes. Each process has its own handles and GPU virtual addresses.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::process::Process;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::hardware::{ProcessBarId, ProcessShare};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::control::process::{
    CreateProcess, CreateProcessReply, CreateProcessWithBar, DescribeProcess, DestroyProcess,
    MAX_WEIGHT, SetObjectName, SetProcessShare, TERMINATED_ABNORMALLY,
};
use bellhop_protocol::features::Features;

impl ProcessAccess<'_> {
    /// Creates a process.
    pub(crate) fn create_process(&mut self, request: CreateProcess) -> Handled<CreateProcessReply> {
        zero("reserved", request.reserved)?;
        self.insert_process(None).map(Answer::Done)
    }

    /// Creates a process with a BAR of its own, or of another process.
    pub(crate) fn create_process_with_bar(
        &mut self,
        request: CreateProcessWithBar,
        extents: Vec<Extent>,
    ) -> Handled<CreateProcessReply> {
        if !self.guest.features().contains(Features::PROCESS_BARS) {
            return Err(RequestError::NotSupported("BARs of processes' own"));
        }
        let CreateProcessWithBar { beside, doorbell_count, fence_count, .. } = request;
        if beside == 0 {
            let layout = BarLayout { doorbell_count, fence_count, local_memory: 0 };
            let bar = self.make_process_bar(layout, &extents)?;
            return self
                .insert_process(Some(bar))
                .inspect_err(|_| self.leave_process_bar(bar))
                .map(Answer::Done);
        }
        let shared = self.guest.processes.get(&beside).and_then(Process::bar);
        let bar = shared.ok_or(RequestError::parameter("beside", beside.into()))?;
        zero("extent_count", request.extent_count)?;
        zero("doorbell_count", doorbell_count)?;
        zero("fence_count", fence_count)?;
        let reply = self.insert_process(Some(bar))?;
        self.guest.process_bars.join(bar);
        Ok(Answer::Done(reply))
    }

    fn insert_process(
        &mut self,
        bar: Option<ProcessBarId>,
    ) -> Result<CreateProcessReply, RequestError> {
        self.guest.quotas.charge(Limited::Processes, 1)?;
        let space = match self.miniport.create_process(self.guest_id) {
            Ok(space) => space,
            Err(full) => {
                self.guest.quotas.refund(Limited::Processes, 1);
                return Err(full.into());
            }
        };
        let process = self.new_process_id();
        self.guest.vidmm.add_process(process);
        self.guest.processes.insert(process, Process::new(space, bar));
        Ok(CreateProcessReply { process, reserved: 0 })
    }

    /// Keeps for tools which program the process is for.
    pub(crate) fn describe_process(&mut self, request: DescribeProcess) -> Handled<()> {
        self.process()?.describe(request);
        Ok(Answer::Done(()))
    }

    /// Sets the process's part of its guest's engine time.
    pub(crate) fn set_process_share(&mut self, request: SetProcessShare) -> Handled<()> {
        let SetProcessShare { weight, group } = request;
        if !(1..=MAX_WEIGHT).contains(&weight) {
            return Err(RequestError::parameter("weight", weight.into()));
        }
        self.process()?.set_share(ProcessShare { group, weight });
        Ok(Answer::Done(()))
    }

    /// Keeps for tools what the process calls one of its objects.
    pub(crate) fn set_object_name(&mut self, request: SetObjectName) -> Handled<()> {
        if !self.guest.features().contains(Features::OBJECT_NAMES) {
            return Err(RequestError::NotSupported("names of objects"));
        }
        let wrong = |byte: u8| RequestError::parameter("name", byte.into());
        let (process, object) = (self.process_id, request.object);
        self.guest.handles.set_name(process, object, request.name().map_err(wrong)?)?;
        self.guest.record_name(process, object, self.recorder);
        Ok(Answer::Done(()))
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
