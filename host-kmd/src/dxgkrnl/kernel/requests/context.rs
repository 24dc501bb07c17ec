// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts: streams of work for one node, and whether they are on the run list.
//!
//! Source: user-mode work submission, "Hardware context suspension".

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::context::{Change, Context, Suspension};
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::hardware::{GpuOrdinal, HwQueueId, SchedulingPriority};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{
    CreateContext, DestroyContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};

/// Mask of the engines of a node. Every node has one.
const ENGINES: u32 = 1;

impl ProcessAccess<'_> {
    /// `D3DKMTCreateContextVirtual`.
    pub(crate) fn create_context(&mut self, request: CreateContext) -> Handled<Handle> {
        let CreateContext { device, node, engine_affinity } = request;
        if engine_affinity & !ENGINES != 0 {
            return Err(RequestError::parameter("engine_affinity", engine_affinity.into()));
        }
        Ok(Answer::Done(self.insert_context(device, node)?))
    }

    /// Creates a context for HW queues, on a device that is neither in error nor about to be destroyed.
    pub(crate) fn insert_context(
        &mut self,
        device: Handle,
        node: u32,
    ) -> Result<Handle, RequestError> {
        self.get::<Device>(device)?.check_alive(device)?;
        let gpu = GpuOrdinal(self.node(node)?.gpu());
        self.guest.presence.check_gpu(gpu)?;
        let context = self.insert(Context::new(device, node))?;
        self.get_mut::<Device>(device)?.add_context(context);
        if self.is_held() {
            self.suspend_context(context, Suspension::MEMORY)?;
        }
        if self.guest.is_suspended {
            self.suspend_context(context, Suspension::HOST)?;
        }
        Ok(context)
    }

    /// `D3DKMTDestroyContext`.
    pub(crate) fn destroy_context(&mut self, request: DestroyContext) -> Handled<()> {
        self.get::<Context>(request.context)?;
        Ok(Answer::Terminate(Target::Context(request.context), Manner::Normal))
    }

    /// The owner suspends its context.
    pub(crate) fn suspend_own_context(&mut self, request: SuspendContext) -> Handled<()> {
        self.suspend_context(request.context, Suspension::OWNER)?;
        Ok(Answer::AfterQuiesce)
    }

    /// The owner resumes its context.
    pub(crate) fn resume_own_context(&mut self, request: ResumeContext) -> Handled<()> {
        self.resume_context(request.context, Suspension::OWNER)?;
        Ok(Answer::Done(()))
    }

    /// `D3DKMTSetContextSchedulingPriority`.
    pub(crate) fn set_context_scheduling_priority(
        &mut self,
        request: SetContextSchedulingPriority,
    ) -> Handled<()> {
        zero("reserved", request.reserved)?;
        let queues = self.queue_ids(request.context)?;
        // The refused value, with its bits reinterpreted as an unsigned number.
        let refused = RequestError::parameter("priority", request.priority.cast_unsigned().into());
        let priority = SchedulingPriority::new(request.priority).ok_or(refused)?;
        self.miniport.set_context_scheduling_priority(&queues, priority)?;
        self.get_mut::<Context>(request.context)?.set_priority(priority);
        Ok(Answer::Done(()))
    }

    /// Suspends a context. Its engine has left it once a later ticket has passed.
    pub(crate) fn suspend_context(
        &mut self,
        handle: Handle,
        by: Suspension,
    ) -> Result<(), RequestError> {
        if self.get_mut::<Context>(handle)?.suspend(by) == Some(Change::Suspend) {
            let queues = self.queue_ids(handle)?;
            if let Err(unknown) = self.miniport.suspend_context(&queues) {
                // Its queues are still on the run list.
                self.get_mut::<Context>(handle)?.resume(by);
                return Err(unknown.into());
            }
        }
        Ok(())
    }

    /// Removes a reason for the suspension of a context. With the last reason gone, its engine gets its power back.
    pub(crate) fn resume_context(
        &mut self,
        handle: Handle,
        by: Suspension,
    ) -> Result<(), RequestError> {
        let context = self.get_mut::<Context>(handle)?;
        let node = context.node();
        if context.resume(by) == Some(Change::Resume) {
            let queues = self.listed_queue_ids(handle)?;
            if !queues.is_empty() {
                self.power.wake_engine(node, self.miniport);
            }
            if let Err(unknown) = self.miniport.resume_context(&queues) {
                // Its queues are still off the run list.
                self.get_mut::<Context>(handle)?.suspend(by);
                return Err(unknown.into());
            }
            for queue in self.get::<Context>(handle)?.hw_queues().clone() {
                self.look_at_software_queue(queue);
            }
        }
        Ok(())
    }

    /// The GPU's ids of a context's queues.
    fn queue_ids(&self, context: Handle) -> Result<Vec<HwQueueId>, RequestError> {
        let queues = self.get::<Context>(context)?.hw_queues().iter();
        queues.map(|queue| Ok(self.get::<HwQueue>(*queue)?.id())).collect()
    }

    /// The GPU's ids of a context's queues that are on the run list while the context runs: none that is lost, or about
    /// to be destroyed with all its work done.
    fn listed_queue_ids(&self, context: Handle) -> Result<Vec<HwQueueId>, RequestError> {
        let mut ids = Vec::new();
        for queue in self.get::<Context>(context)?.hw_queues() {
            let queue = self.get::<HwQueue>(*queue)?;
            ids.extend(queue.is_listed().then_some(queue.id()));
        }
        Ok(ids)
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
}
