// SPDX-License-Identifier: MIT OR Apache-2.0

//! HW queues: the run list, and kernel-mode submission.

use super::Gpu;
use crate::gpu::shared::chip::attention;
use crate::gpu::shared::hw_queue::{HwQueue, Role};
use bellhop_host_kmd::hardware::{
    HardwareError, HardwareFull, HwQueueDescription, HwQueueId, KernelSubmission, Queues,
    SchedulingPriority, UnknownId,
};
use std::sync::Arc;

impl Queues for Gpu {
    fn create_hw_queue(&self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId> {
        let HwQueueDescription { guest, context, address_space, process, node, .. } = description;
        let HwQueueDescription { progress_fence, disable_gpu_timeout, share, .. } = description;
        let (partition, space) = (self.guest(guest)?, self.space(address_space)?);
        self.engine(node)?;
        let mut registry = self.registry();
        let id = registry.new_queue_id();
        let role = Role::Guest { context, process, share, progress_fence, disable_gpu_timeout };
        let queue = HwQueue::new(id, self.chip.engine_of(node), partition, space, role);
        registry.queues.insert(id, Arc::new(queue));
        Ok(id)
    }

    fn destroy_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        let was_there = self.registry().remove_queue(&self.chip, queue);
        was_there.then_some(()).ok_or(UnknownId::HwQueue(queue))
    }

    fn suspend_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.each_queue(queues, |queue| queue.membership.suspend())
    }

    fn resume_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        self.each_queue(queues, |queue| {
            queue.membership.resume();
            self.kick_queue(queue);
        })
    }

    fn preempt_hw_queue(&self, queue: HwQueueId, preemption_fence: u64) -> Result<(), UnknownId> {
        let queue = self.queue(queue)?;
        let port = self.engine(self.chip.node_of(queue.engine))?;
        queue.membership.suspend();
        queue.preemption.ask(preemption_fence);
        port.preempted.push(queue);
        port.raise(attention::PREEMPT);
        Ok(())
    }

    fn set_scheduling_priority(
        &self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId> {
        self.each_queue(queues, |queue| queue.set_priority(priority))
    }

    fn submit_kernel_mode(
        &self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError> {
        let pushed = self.queue(queue)?.submissions.push(submission);
        Ok(pushed.map_err(|_| HardwareFull("submission to this queue"))?)
    }

    fn current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        Ok(self.queue(queue)?.last_completed())
    }

    fn kick(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.kick_queue(&self.queue(queue)?);
        Ok(())
    }
}
