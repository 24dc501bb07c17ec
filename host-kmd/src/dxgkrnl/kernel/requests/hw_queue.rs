// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about HW queues, and kernel-mode submission to them.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::nodes;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::target::{Manner, Target};
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::submission::CommandBuffer;
use bellhop_protocol::control::adapter::NODE_USER_MODE_SUBMISSION_SUPPORTED;
use bellhop_protocol::control::hw_queue::{
    CreateHwQueue, CreateHwQueueReply, DestroyHwQueue, HwQueueFlags, SubmitCommand,
};
use bellhop_protocol::features::Features;

impl ProcessAccess<'_> {
    /// `D3DKMTCreateHwQueue`, with its progress fence at 0.
    pub(crate) fn create_hw_queue(
        &mut self,
        request: CreateHwQueue,
    ) -> Handled<CreateHwQueueReply> {
        zero("reserved", request.reserved)?;
        let flags = HwQueueFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        let context = self.get::<Context>(request.context)?;
        if context.node_submission().is_some() {
            return Err(RequestError::NotSupported("the context submits to its node"));
        }
        let node = context.node();
        let user_mode_submission = flags.contains(HwQueueFlags::USER_MODE_SUBMISSION);
        let native_progress_fence = flags.contains(HwQueueFlags::NATIVE_PROGRESS_FENCE);
        if native_progress_fence {
            self.check_native_fences()?;
        }
        let disable_gpu_timeout = flags.contains(HwQueueFlags::DISABLE_GPU_TIMEOUT);
        if disable_gpu_timeout && !self.guest.features().contains(Features::DISABLE_GPU_TIMEOUT) {
            return Err(RequestError::NotSupported("queues whose GPU time-out is off"));
        }
        let metadata = nodes::node(self.guest, self.miniport, node)?;
        if user_mode_submission && metadata.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED == 0 {
            return Err(RequestError::NotSupported("user-mode submission"));
        }
        if user_mode_submission && !self.guest.has_doorbells() {
            return Err(RequestError::NotSupported("doorbells in memory that the guest reaches"));
        }
        if user_mode_submission && !native_progress_fence {
            // "User-mode queues can't support monitored fences."
            return Err(RequestError::parameter("flags", request.flags.into()));
        }
        let address_space = self.process()?.space();
        self.insert_hw_queue(request.context, flags, address_space).map(Answer::Done)
    }

    /// `D3DKMTDestroyHwQueue`.
    pub(crate) fn destroy_hw_queue(&mut self, request: DestroyHwQueue) -> Handled<()> {
        self.own_queue(request.hw_queue)?;
        Ok(Answer::Terminate(Target::HwQueue(request.hw_queue), Manner::Normal))
    }

    /// `D3DKMTSubmitCommandToHwQueue`.
    pub(crate) fn submit_command(&mut self, request: SubmitCommand) -> Handled<()> {
        zero("reserved", request.reserved)?;
        let queue = self.own_queue(request.hw_queue)?;
        if queue.takes_user_mode_submission() {
            return Err(RequestError::NotSupported("the queue takes work through its doorbell"));
        }
        queue.check_alive(request.hw_queue)?;
        let SubmitCommand { gpu_va, size, progress_fence_value, .. } = request;
        let commands = CommandBuffer::new(gpu_va, size)?;
        self.submit(request.hw_queue, commands, progress_fence_value, &mut Vec::new())?;
        Ok(Answer::Done(()))
    }
}
