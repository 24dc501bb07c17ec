// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about contexts: streams of work for one node.
//!
//! Source: user-mode work submission, "Hardware context suspension".

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::context::{Context, Suspension};
use crate::hardware::SchedulingPriority;
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
}
