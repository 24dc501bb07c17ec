// SPDX-License-Identifier: MIT OR Apache-2.0

//! HW queues from their creation to their end.

use crate::dxgkrnl::doorbell::object::Doorbell;
use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueIdentity, QueueOwner};
use crate::hardware::{
    AddressSpaceId, HwContextId, HwQueueDescription, HwQueueId, SchedulingPriority, UnknownId,
};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{FenceFlags, NativeFenceType};
use bellhop_protocol::control::hw_queue::{CreateHwQueueReply, HwQueueFlags};

impl ProcessAccess<'_> {
    /// Creates a queue and its progress fence in a context that is neither lost nor about to be destroyed.
    pub(crate) fn insert_hw_queue(
        &mut self,
        context_handle: Handle,
        flags: HwQueueFlags,
        address_space: AddressSpaceId,
    ) -> Result<CreateHwQueueReply, RequestError> {
        let user_mode_submission = flags.contains(HwQueueFlags::USER_MODE_SUBMISSION);
        let native_progress_fence = flags.contains(HwQueueFlags::NATIVE_PROGRESS_FENCE);
        let disable_gpu_timeout = flags.contains(HwQueueFlags::DISABLE_GPU_TIMEOUT);
        let context = self.get::<Context>(context_handle)?;
        context.check_alive(context_handle)?;
        let (device, node, state) = (context.device(), context.node(), context.state());
        let priority = context.priority();
        let process = self.process()?;
        let (process, share) = (process.space(), process.share());
        let kind = if native_progress_fence {
            FenceKind::Native(NativeFenceType::DEFAULT)
        } else {
            FenceKind::Monitored
        };
        let progress_fence = self.insert_fence(None, kind, FenceFlags::empty(), 0)?;
        let opened = self.opened_fence(progress_fence)?;
        let logs = match self.map_logs(opened.slot) {
            Ok(logs) => logs,
            Err(error) => {
                self.remove_fence(progress_fence)?;
                return Err(error);
            }
        };
        let created = self.miniport.create_hw_queue(HwQueueDescription {
            guest: self.guest_id,
            context: HwContextId(context_handle.0),
            address_space,
            process,
            share,
            node,
            progress_fence: opened.slot,
            native_progress_fence,
            disable_gpu_timeout,
        });
        let id = match created {
            Ok(id) => id,
            Err(unknown) => {
                self.unmap_logs(opened.slot);
                self.remove_fence(progress_fence)?;
                return Err(unknown.into());
            }
        };
        let queue = self.insert(HwQueue::new(QueueIdentity {
            context: context_handle,
            device,
            id,
            user_mode_submission,
            progress_fence,
        }));
        let hw_queue = match queue {
            Ok(handle) => handle,
            Err(error) => {
                self.miniport.destroy_hw_queue(id);
                self.unmap_logs(opened.slot);
                self.remove_fence(progress_fence)?;
                return Err(error);
            }
        };
        let (guest, process) = (self.guest_id, self.process_id);
        let progress_fence = opened.slot;
        let owner = QueueOwner {
            guest,
            process,
            handle: hw_queue,
            context: context_handle,
            device,
            node,
            progress_fence,
            disable_gpu_timeout,
        };
        owner.note(id, self.recorder);
        self.queues.insert(id, owner);
        self.get_mut::<Context>(context_handle)?.add_hw_queue(hw_queue);
        let begun = self.begin_hw_queue((id, opened.slot), priority, state.is_running());
        if let Err(unknown) = begun {
            self.remove_hw_queue(hw_queue)?;
            return Err(unknown.into());
        }
        Ok(CreateHwQueueReply {
            hw_queue,
            progress_fence: opened,
            wait_log_gpu_va: logs.waits,
            signal_log_gpu_va: logs.signals,
            log_entries: logs.entries,
            reserved: 0,
        })
    }

    /// Gives a new queue its logs and the state of its context: the priority, and whether it is on the run list.
    fn begin_hw_queue(
        &mut self,
        (id, progress_fence): (HwQueueId, u32),
        priority: SchedulingPriority,
        is_running: bool,
    ) -> Result<(), UnknownId> {
        self.create_logs(id, progress_fence)?;
        if priority != SchedulingPriority::default() {
            self.miniport.set_context_scheduling_priority(&[id], priority)?;
        }
        if !is_running {
            self.miniport.suspend_context(&[id])?;
        }
        Ok(())
    }

    /// A queue that the guest created. The queue of a context that submits to its node is refused: the guest cannot
    /// name it.
    pub(crate) fn own_queue(&self, handle: Handle) -> Result<&HwQueue, RequestError> {
        let queue = self.get::<HwQueue>(handle)?;
        match self.get::<Context>(queue.context())?.node_submission() {
            None => Ok(queue),
            Some(_) => Err(RequestError::InvalidHandle(handle)),
        }
    }

    /// Destroys a queue, its doorbell and its progress fence.
    pub(crate) fn remove_hw_queue(&mut self, handle: Handle) -> Result<(), RequestError> {
        let queue = self.remove::<HwQueue>(handle)?;
        let QueueIdentity { id, context, progress_fence, .. } = queue.identity();
        let doorbell = queue.doorbell();
        let (in_flight, mut held) = queue.destroy();
        self.abandon_software_queue(&mut held);
        // The doorbell may already be destroyed.
        if let Some(doorbell) = doorbell
            && self.get::<Doorbell>(doorbell).is_ok()
        {
            self.remove_doorbell(doorbell)?;
        }
        let slot = self.global_of(progress_fence)?;
        self.miniport.destroy_hw_queue(id);
        self.remove_logs(id, slot);
        self.queues.remove(&id);
        self.submissions.forget(id);
        self.give_up_in_flight(in_flight);
        self.remove_fence(progress_fence)?;
        // A context that is destroyed with its queues is already gone.
        if let Ok(context) = self.get_mut::<Context>(context) {
            context.remove_hw_queue(handle);
        }
        Ok(())
    }
}
