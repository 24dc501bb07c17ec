//! One submission in kernel mode: how it gets to the driver, and what it holds until it is done.
//!
//! Source: "DMA buffers" and "Interrupt" of the Windows KMD overview.

use super::allocation::Allocation;
use super::context::Context;
use super::error::RequestError;
use super::guest::Guest;
use super::hw_queue::HwQueue;
use super::kernel::Kernel;
use super::pool::PageRange;
use super::retire::{Completion, Resource};
use super::scope::Scope;
use crate::hardware::{GuestId, HardwareFull, HwQueueId, KernelSubmission};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::FenceValue;
use bellhop_protocol::packet::UNIT;
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// Where the packets of a submission are.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandBuffer {
    gpu_va: u64,
    size: u32,
}

impl CommandBuffer {
    /// A buffer that can be executed as far as its place tells.
    pub(super) fn new(gpu_va: u64, size: u32) -> Result<Self, RequestError> {
        if !gpu_va.is_multiple_of(UNIT as u64) || gpu_va.checked_add(size.into()).is_none() {
            return Err(RequestError::parameter("gpu_va", gpu_va));
        }
        if size == 0 || !size.is_multiple_of(UNIT as u32) {
            return Err(RequestError::parameter("size", size.into()));
        }
        Ok(Self { gpu_va, size })
    }
}

/// Something that a submission holds until it is done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hold {
    /// An allocation of its allocation list.
    Allocation {
        /// Which.
        allocation: Handle,
        /// The context that wants it resident for the submission.
        context: Handle,
    },
    /// The place of its DMA buffer, by its offset among all.
    DmaBuffer(PageRange),
}

#[derive(Debug)]
struct Submitted {
    fence: u64,
    holds: Vec<Hold>,
}

/// Something for a context that waits for paging.
#[derive(Debug)]
pub(super) struct Deferred {
    /// Whose it is.
    pub(super) process: u32,
    /// The context.
    pub(super) context: Handle,
    /// What.
    pub(super) work: DeferredWork,
}

/// What a context is given.
#[derive(Debug)]
pub(super) enum DeferredWork {
    /// A submission.
    Submission {
        /// Its packets.
        commands: CommandBuffer,
        /// What it holds already.
        holds: Vec<Hold>,
    },
    /// A wait that what comes after is held for.
    Wait(Vec<FenceValue>),
    /// A signal for when what came before is done.
    Signal(Vec<FenceValue>),
}

impl Deferred {
    /// What is to be released if it comes to nothing.
    pub(super) fn into_holds(self) -> Vec<Hold> {
        match self.work {
            DeferredWork::Submission { holds, .. } => holds,
            DeferredWork::Wait(_) | DeferredWork::Signal(_) => Vec::new(),
        }
    }
}

/// A submission in a software queue.
#[derive(Debug)]
pub(super) struct HeldSubmission {
    submission: KernelSubmission,
    holds: Vec<Hold>,
}

/// A HW queue's submissions that are not done, in their order.
#[derive(Debug, Default)]
pub(super) struct InFlight(VecDeque<Submitted>);

impl InFlight {
    /// Whether all is done.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Guest {
    /// A submission is done, or was dropped and no engine executes it any more.
    pub(super) fn release_holds(&mut self, process: u32, holds: &[Hold]) {
        for hold in holds {
            match *hold {
                Hold::DmaBuffer(place) => self.dma_buffers.give_back(place),
                Hold::Allocation { allocation, context } => {
                    self.quotas.listed_allocations.refund(1);
                    // It goes before its submissions when its device goes.
                    let Ok(allocation) = self.handles.get_mut::<Allocation>(process, allocation)
                    else {
                        continue;
                    };
                    allocation.users = allocation.users.saturating_sub(1);
                    if let Some(id) = allocation.paged()
                        && let Err(error) = self.vidmm.evict(process, context, id)
                    {
                        tracing::error!(?id, %error, "a submission did not hold it");
                    }
                }
            }
        }
    }
}

impl Kernel {
    /// `DXGK_INTERRUPT_DMA_COMPLETED`: the queue's submissions up to `fence` are done.
    pub(super) fn dma_completed(&mut self, id: HwQueueId, fence: u64, effects: &mut Vec<Effect>) {
        // A queue that was destroyed meanwhile is nobody's.
        let Some(owner) = self.queues.get(&id).copied() else { return };
        if let Some(mut scope) = self.scope(owner.guest, owner.process, effects)
            && let Err(error) = scope.complete_submissions(owner.handle, fence)
        {
            tracing::error!(?id, %error, "a completion names no HW queue");
        }
        // Nobody may want any more what it held.
        self.begin_paging(owner.guest, owner.process, None, effects);
    }

    /// Paging has come far enough for a submission. Returns what its request is answered with.
    pub(super) fn submit_deferred(
        &mut self,
        guest: GuestId,
        deferred: Deferred,
        failed: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<Vec<u8>, RequestError> {
        let Deferred { process, context, work } = deferred;
        let needs_power = !failed && !self.has_power();
        if needs_power {
            self.power_up(effects);
        }
        let mut holds = Vec::new();
        let submitted = match (self.scope(guest, process, effects), work) {
            (None, work) => {
                holds = Deferred { process, context, work }.into_holds();
                Err(RequestError::NoSuchProcess(process))
            }
            (Some(mut scope), DeferredWork::Submission { commands, holds: its }) => {
                holds = its;
                let submitted = match failed {
                    true => Err(RequestError::PagingFailed),
                    false => scope.submit_to_node(context, commands, &mut holds),
                };
                submitted.map(|reply| reply.as_bytes().to_vec())
            }
            (Some(mut scope), DeferredWork::Wait(list)) => scope
                .node_submission(context)
                .and_then(|node| scope.give_wait(node.hw_queue, &list))
                .map(|()| Vec::new()),
            (Some(mut scope), DeferredWork::Signal(list)) => scope
                .node_submission(context)
                .and_then(|node| scope.give_signal(node.hw_queue, &list))
                .map(|()| Vec::new()),
        };
        if let Some(guest) = self.guests.get_mut(&guest) {
            // Nothing is left of them when it was submitted.
            guest.release_holds(process, &holds);
        }
        self.begin_paging(guest, process, None, effects);
        if needs_power {
            self.resume_after_power_up(effects);
        }
        submitted
    }
}

impl Scope<'_> {
    /// Submits packets to a HW queue, which is not lost, or holds them in its software queue. What the
    /// submission holds is released when it is done, and is the caller's still if this fails.
    /// Returns the submission's fence id.
    pub(super) fn submit(
        &mut self,
        handle: Handle,
        commands: CommandBuffer,
        progress_fence_value: u64,
        holds: &mut Vec<Hold>,
    ) -> Result<u64, RequestError> {
        let queue = self.get::<HwQueue>(handle)?;
        let (id, is_held) = (queue.id, !queue.software.is_empty());
        if self.guest.quotas.submissions.charge(1).is_err() {
            self.reap_submissions(handle)?;
            self.guest.quotas.submissions.charge(1)?;
        }
        let submission = KernelSubmission {
            gpu_va: commands.gpu_va,
            size: commands.size,
            progress_fence_value,
            submission_fence: self.submissions.next_fence(),
        };
        let accepted = match is_held {
            true => self.guest.quotas.held.charge(1),
            false => self.submit_to_hardware(handle, submission).map_err(RequestError::from),
        };
        accepted.inspect_err(|_| self.guest.quotas.submissions.refund(1))?;
        self.submissions.begin(id);
        let holds = std::mem::take(holds);
        let queue = self.get_mut::<HwQueue>(handle)?;
        queue.last_submitted = queue.last_submitted.max(progress_fence_value);
        let fence = submission.submission_fence;
        match is_held {
            true => queue.software.push_submission(HeldSubmission { submission, holds }),
            false => queue.in_flight.0.push_back(Submitted { fence, holds }),
        }
        Ok(fence)
    }

    /// Gives the hardware a submission; its engine gets its power back.
    fn submit_to_hardware(
        &mut self,
        handle: Handle,
        submission: KernelSubmission,
    ) -> Result<(), HardwareFull> {
        let Ok(queue) = self.get::<HwQueue>(handle) else { return Err(HardwareFull("queue")) };
        let id = queue.id;
        let Ok(context) = self.get::<Context>(queue.context) else {
            return Err(HardwareFull("context"));
        };
        let (node, to_node) = (context.node, context.node_submission.is_some());
        self.power.wake_engine(node, self.miniport);
        match to_node {
            true => self.miniport.submit_command(id, submission),
            false => self.miniport.submit_command_to_hw_queue(id, submission),
        }
    }

    /// A submission's turn has come that was held. Comes back when the hardware has no room.
    pub(super) fn submit_held(
        &mut self,
        handle: Handle,
        held: HeldSubmission,
    ) -> Result<(), HeldSubmission> {
        let HeldSubmission { submission, holds } = held;
        if self.submit_to_hardware(handle, submission).is_err() {
            return Err(HeldSubmission { submission, holds });
        }
        let fence = submission.submission_fence;
        if let Ok(queue) = self.get_mut::<HwQueue>(handle) {
            queue.in_flight.0.push_back(Submitted { fence, holds });
        }
        Ok(())
    }

    /// Submissions that were held are dropped.
    pub(super) fn give_up_held(&mut self, held: Vec<HeldSubmission>) {
        self.guest.quotas.submissions.refund(held.len() as u64);
        let holds: Vec<_> = held.into_iter().flat_map(|dropped| dropped.holds).collect();
        if !holds.is_empty() {
            self.given_up.push(Resource::Submissions { process: self.process_id, holds });
        }
    }

    /// Releases what submissions of a queue hold that are done, whose interrupt is still on its way:
    /// the guest may have seen its progress fence already.
    pub(super) fn reap_submissions(&mut self, handle: Handle) -> Result<(), RequestError> {
        let id = self.get::<HwQueue>(handle)?.id;
        let fence = self.miniport.query_current_fence(id);
        self.complete_submissions(handle, fence)
    }

    /// Releases what the submissions of a queue hold that are done: all up to `fence`.
    fn complete_submissions(&mut self, handle: Handle, fence: u64) -> Result<(), RequestError> {
        while let Some(done) = self
            .get_mut::<HwQueue>(handle)?
            .in_flight
            .0
            .pop_front_if(|submitted| submitted.fence <= fence)
        {
            self.guest.quotas.submissions.refund(1);
            self.guest.release_holds(self.process_id, &done.holds);
        }
        self.look_at_software_queue(handle);
        Ok(())
    }

    /// The submissions of a queue are dropped; engines may execute them yet.
    pub(super) fn give_up_in_flight(&mut self, in_flight: InFlight) {
        self.guest.quotas.submissions.refund(in_flight.0.len() as u64);
        let holds: Vec<_> = in_flight.0.into_iter().flat_map(|dropped| dropped.holds).collect();
        if !holds.is_empty() {
            self.given_up.push(Resource::Submissions { process: self.process_id, holds });
        }
    }
}

impl Kernel {
    /// Retires what an interrupt or a command of the host's took away, if it did.
    pub(super) fn retire_given_up(&mut self, guest: GuestId, given_up: Vec<Resource>) {
        if !given_up.is_empty() {
            self.retire(guest, given_up, Completion::Nothing);
        }
    }
}
