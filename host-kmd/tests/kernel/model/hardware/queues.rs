// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's HW queues and what is submitted to them.

use crate::model::{Call, Model, Work};
use bellhop_host_kmd::hardware::{
    HardwareError, HardwareFull, HwQueueDescription, HwQueueId, KernelSubmission, Queues,
    SchedulingPriority, UnknownId,
};

impl Queues for Model {
    fn create_hw_queue(&self, description: HwQueueDescription) -> Result<HwQueueId, UnknownId> {
        self.known(UnknownId::AddressSpace(description.address_space))?;
        let fence = (description.guest, description.progress_fence);
        let (owner, is_native) =
            self.of_chain(|master| (master.opened[&fence].1, master.fences[&fence].storage.native));
        assert_eq!(owner, description.process, "it cannot signal its progress fence");
        assert_eq!(is_native, description.native_progress_fence);
        let mut state = self.state();
        assert!(state.spaces.contains_key(&description.address_space));
        let queue = HwQueueId::of(self.gpu, state.id());
        state.queues.insert(queue, description);
        Ok(queue)
    }

    fn destroy_hw_queue(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        if let Some((guest, _)) = state.systems.iter().find(|(_, system)| system.hw_queue == queue)
        {
            let guest = *guest;
            state.systems.remove(&guest);
            state.paging.remove(&guest);
            return Ok(());
        }
        assert!(!state.rings.contains_key(&queue));
        state.queues.remove(&queue).expect("a queue that exists");
        state.engines.forget(queue);
        state.fence_logs.retain(|(of, _), _| *of != queue);
        state.suspended.remove(&queue);
        state.log.push(Call::DestroyQueue(queue));
        Ok(())
    }

    fn kick(&self, queue: HwQueueId) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        assert!(state.queues.contains_key(&queue));
        state.engines.kick(queue);
        state.use_doorbell(queue);
        state.log.push(Call::Kick(queue));
        Ok(())
    }

    fn suspend_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        queues.iter().try_for_each(|queue| self.known(UnknownId::HwQueue(*queue)))?;
        let mut state = self.state();
        for queue in queues {
            if state.systems.values().any(|system| system.hw_queue == *queue) {
                continue;
            }
            assert!(state.queues.contains_key(queue));
            state.suspended.insert(*queue);
        }
        state.log.push(Call::Suspend(queues.to_vec()));
        Ok(())
    }

    fn set_scheduling_priority(
        &self,
        queues: &[HwQueueId],
        priority: SchedulingPriority,
    ) -> Result<(), UnknownId> {
        queues.iter().try_for_each(|queue| self.known(UnknownId::HwQueue(*queue)))?;
        let mut state = self.state();
        assert!(queues.iter().all(|queue| state.queues.contains_key(queue)));
        state.log.push(Call::Priority(queues.to_vec(), priority));
        Ok(())
    }

    fn preempt_hw_queue(&self, queue: HwQueueId, preemption_fence: u64) -> Result<(), UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        let is_system = state.systems.values().any(|system| system.hw_queue == queue);
        assert!(is_system || state.queues.contains_key(&queue));
        state.suspended.insert(queue);
        state.log.push(Call::Preempt(queue, preemption_fence));
        Ok(())
    }

    fn resume_hw_queues(&self, queues: &[HwQueueId]) -> Result<(), UnknownId> {
        queues.iter().try_for_each(|queue| self.known(UnknownId::HwQueue(*queue)))?;
        let mut state = self.state();
        for queue in queues {
            let description = state.queues[queue];
            assert!(!state.without_power.contains(&description.node), "power first");
            if let Some(ring) = state.rings.get(queue) {
                let space = description.address_space;
                assert!(state.mapped(space, ring.ring_va).is_some(), "the ring is evicted");
            }
            assert!(state.suspended.remove(queue), "{queue:?} was not suspended");
            state.engines.kick(*queue);
        }
        state.log.push(Call::Resume(queues.to_vec()));
        Ok(())
    }

    fn submit_kernel_mode(
        &self,
        queue: HwQueueId,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError> {
        self.known(UnknownId::HwQueue(queue))?;
        let mut state = self.state();
        if state.submission_room == 0 {
            return Err(HardwareFull("submission").into());
        }
        state.submission_room -= 1;
        let work = Work {
            value: submission.progress_fence_value,
            submission: Some(submission.submission_fence),
            ..Work::default()
        };
        state.engines.give(queue, work);
        state.log.push(Call::Submit(queue, submission));
        Ok(())
    }

    fn current_fence(&self, queue: HwQueueId) -> Result<u64, UnknownId> {
        self.known(UnknownId::HwQueue(queue))?;
        Ok(self.state().completed.get(&queue).copied().unwrap_or(0))
    }
}
