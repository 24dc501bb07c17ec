//! HW queues, kernel-mode submission included.

use super::context::Context;
use super::doorbell::Doorbell;
use super::error::RequestError;
use super::fence_storage::FenceKind;
use super::request::{Answer, Handled, zero};
use super::scope::Scope;
use super::software_queue::{HeldSignal, SoftwareQueue};
use super::submission::{CommandBuffer, HeldSubmission, InFlight};
use super::termination::{Manner, Target};
use super::trace::Recorder;
use crate::hardware::{
    AddressSpaceId, GuestId, HwContextId, HwQueueDescription, HwQueueId, SchedulingPriority,
};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::NODE_USER_MODE_SUBMISSION_SUPPORTED;
use bellhop_protocol::control::fence::{FenceFlags, NativeFenceType};
use bellhop_protocol::control::hw_queue::{
    CreateHwQueue, CreateHwQueueReply, DestroyHwQueue, HwQueueFlags, SubmitCommand,
};
use bellhop_protocol::features::Features;
use bellhop_protocol::trace::What;

/// A HW queue.
#[derive(Debug)]
pub(super) struct HwQueue {
    /// The context that it goes with.
    pub(super) context: Handle,
    /// That context's device.
    pub(super) device: Handle,
    /// The queue as the GPU knows it.
    pub(super) id: HwQueueId,
    /// Whether work comes through a doorbell, or else through requests.
    pub(super) user_mode_submission: bool,
    /// Its doorbell, until engines have forgotten that one.
    pub(super) doorbell: Option<Handle>,
    /// Its progress fence.
    pub(super) progress_fence: Handle,
    /// The last value that a kernel-mode submission gives its progress fence.
    pub(super) last_submitted: u64,
    /// What was submitted in kernel mode and is not done.
    pub(super) in_flight: InFlight,
    /// What it was given in kernel mode and is held.
    pub(super) software: SoftwareQueue<Vec<HeldSignal>, HeldSubmission>,
    /// It made an error and takes nothing more.
    pub(super) in_error: bool,
    /// It is about to be destroyed and takes nothing more.
    pub(super) terminating: bool,
}

impl HwQueue {
    /// Refuses a queue that is in error or about to be destroyed.
    pub(super) fn check_alive(&self, handle: Handle) -> Result<(), RequestError> {
        let is_lost = self.in_error || self.terminating;
        if is_lost { Err(RequestError::DeviceRemoved(handle)) } else { Ok(()) }
    }
}

/// Whose a HW queue is, for interrupts that name it.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueOwner {
    /// The guest.
    pub(super) guest: GuestId,
    /// The process.
    pub(super) process: u32,
    /// The queue's handle.
    pub(super) handle: Handle,
    /// The node that executes it.
    pub(super) node: u32,
    /// The slot of its progress fence.
    pub(super) progress_fence: u32,
    /// It may make no progress for as long as it likes.
    pub(super) disable_gpu_timeout: bool,
}

impl QueueOwner {
    /// Tells a tool that traces of the queue.
    pub(super) fn note(&self, id: HwQueueId, recorder: &Recorder) {
        recorder.note(|| What::Queue {
            queue: id.0,
            node: self.node,
            guest: self.guest.0,
            process: self.process,
            handle: self.handle.into(),
            progress_fence: self.progress_fence,
        });
    }
}

impl Scope<'_> {
    /// `D3DKMTCreateHwQueue`, with its progress fence at 0.
    pub(super) fn create_hw_queue(
        &mut self,
        request: CreateHwQueue,
    ) -> Handled<CreateHwQueueReply> {
        zero("reserved", request.reserved)?;
        let flags = HwQueueFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        let context = self.get::<Context>(request.context)?;
        if context.node_submission.is_some() {
            return Err(RequestError::NotSupported("the context submits to its node"));
        }
        let node = context.node;
        let user_mode_submission = flags.contains(HwQueueFlags::USER_MODE_SUBMISSION);
        let native_progress_fence = flags.contains(HwQueueFlags::NATIVE_PROGRESS_FENCE);
        if native_progress_fence {
            self.check_native_fences()?;
        }
        let disable_gpu_timeout = flags.contains(HwQueueFlags::DISABLE_GPU_TIMEOUT);
        if disable_gpu_timeout && !self.guest.features.contains(Features::DISABLE_GPU_TIMEOUT) {
            return Err(RequestError::NotSupported("queues whose GPU time-out is off"));
        }
        if user_mode_submission && self.node(node)?.flags & NODE_USER_MODE_SUBMISSION_SUPPORTED == 0
        {
            return Err(RequestError::NotSupported("user-mode submission"));
        }
        if user_mode_submission && !self.guest.has_doorbells() {
            return Err(RequestError::NotSupported("doorbells in memory that the guest reaches"));
        }
        if user_mode_submission && !native_progress_fence {
            // "User-mode queues can't support monitored fences."
            return Err(RequestError::parameter("flags", request.flags.into()));
        }
        let address_space = self.process()?.space;
        self.insert_hw_queue(request.context, flags, address_space).map(Answer::Done)
    }

    /// Makes a queue in a context that is not lost, and its progress fence.
    pub(super) fn insert_hw_queue(
        &mut self,
        context_handle: Handle,
        flags: HwQueueFlags,
        address_space: AddressSpaceId,
    ) -> Result<CreateHwQueueReply, RequestError> {
        let user_mode_submission = flags.contains(HwQueueFlags::USER_MODE_SUBMISSION);
        let native_progress_fence = flags.contains(HwQueueFlags::NATIVE_PROGRESS_FENCE);
        let disable_gpu_timeout = flags.contains(HwQueueFlags::DISABLE_GPU_TIMEOUT);
        let context = self.get::<Context>(context_handle)?;
        let (device, node, state) = (context.device, context.node, context.state);
        let priority = context.priority;
        if state.is_lost() {
            return Err(RequestError::DeviceRemoved(context_handle));
        }
        let process = self.process()?.space;
        let kind = match native_progress_fence {
            true => FenceKind::Native(NativeFenceType::DEFAULT),
            false => FenceKind::Monitored,
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
        let id = self.miniport.create_hw_queue(HwQueueDescription {
            guest: self.guest_id,
            context: HwContextId(context_handle.0),
            address_space,
            process,
            node,
            progress_fence: opened.slot,
            native_progress_fence,
            disable_gpu_timeout,
        });
        let queue = self.insert(HwQueue {
            context: context_handle,
            device,
            id,
            user_mode_submission,
            doorbell: None,
            progress_fence,
            last_submitted: 0,
            in_flight: InFlight::default(),
            software: SoftwareQueue::default(),
            in_error: false,
            terminating: false,
        });
        let hw_queue = match queue {
            Ok(handle) => handle,
            Err(error) => {
                self.miniport.destroy_hw_queue(id);
                self.unmap_logs(opened.slot);
                self.remove_fence(progress_fence)?;
                return Err(error);
            }
        };
        self.create_logs(id, opened.slot);
        let (guest, process) = (self.guest_id, self.process_id);
        let progress_fence = opened.slot;
        let handle = hw_queue;
        let owner =
            QueueOwner { guest, process, handle, node, progress_fence, disable_gpu_timeout };
        owner.note(id, self.recorder);
        self.queues.insert(id, owner);
        if priority != SchedulingPriority::default() {
            self.miniport.set_context_scheduling_priority(&[id], priority);
        }
        if !state.is_running() {
            self.miniport.suspend_context(&[id]);
        }
        self.get_mut::<Context>(context_handle)?.hw_queues.insert(hw_queue);
        Ok(CreateHwQueueReply {
            hw_queue,
            progress_fence: opened,
            wait_log_gpu_va: logs.waits,
            signal_log_gpu_va: logs.signals,
            log_entries: logs.entries,
            reserved: 0,
        })
    }

    /// A queue that the guest was given: not the one that is part of a context which submits to its
    /// node.
    pub(super) fn own_queue(&self, handle: Handle) -> Result<&HwQueue, RequestError> {
        let queue = self.get::<HwQueue>(handle)?;
        match self.get::<Context>(queue.context)?.node_submission {
            None => Ok(queue),
            Some(_) => Err(RequestError::InvalidHandle(handle)),
        }
    }

    /// `D3DKMTDestroyHwQueue`.
    pub(super) fn destroy_hw_queue(&mut self, request: DestroyHwQueue) -> Handled<()> {
        self.own_queue(request.hw_queue)?;
        Ok(Answer::Terminate(Target::HwQueue(request.hw_queue), Manner::Normal))
    }

    /// Destroys a queue, its doorbell and its progress fence.
    pub(super) fn remove_hw_queue(&mut self, handle: Handle) -> Result<(), RequestError> {
        let mut queue = self.remove::<HwQueue>(handle)?;
        self.abandon_software_queue(&mut queue.software);
        // A doorbell that was destroyed just before is not there any more.
        if let Some(doorbell) = queue.doorbell
            && self.get::<Doorbell>(doorbell).is_ok()
        {
            self.remove_doorbell(doorbell)?;
        }
        let slot = self.global_of(queue.progress_fence)?;
        self.miniport.destroy_hw_queue(queue.id);
        self.remove_logs(queue.id, slot);
        self.queues.remove(&queue.id);
        self.submissions.forget(queue.id);
        self.give_up_in_flight(queue.in_flight);
        self.remove_fence(queue.progress_fence)?;
        // The context is gone already when it takes its queues with it.
        if let Ok(context) = self.get_mut::<Context>(queue.context) {
            context.hw_queues.remove(&handle);
        }
        Ok(())
    }

    /// `D3DKMTSubmitCommandToHwQueue`.
    pub(super) fn submit_command(&mut self, request: SubmitCommand) -> Handled<()> {
        zero("reserved", request.reserved)?;
        let queue = self.own_queue(request.hw_queue)?;
        if queue.user_mode_submission {
            return Err(RequestError::NotSupported("the queue takes work through its doorbell"));
        }
        queue.check_alive(request.hw_queue)?;
        let SubmitCommand { gpu_va, size, progress_fence_value, .. } = request;
        let commands = CommandBuffer::new(gpu_va, size)?;
        self.submit(request.hw_queue, commands, progress_fence_value, &mut Vec::new())?;
        Ok(Answer::Done(()))
    }
}
