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
use crate::hardware::{GuestId, HwQueueId, KernelSubmission};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
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

/// A submission that waits for paging.
#[derive(Debug)]
pub(super) struct Deferred {
    /// Whose it is.
    pub(super) process: u32,
    /// The context.
    pub(super) context: Handle,
    /// Its packets.
    pub(super) commands: CommandBuffer,
    /// What it holds already.
    pub(super) holds: Vec<Hold>,
}

/// A HW queue's submissions that are not done, in their order.
#[derive(Debug, Default)]
pub(super) struct InFlight(VecDeque<Submitted>);

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
                        && let Err(error) = self.vidmm.evict(context, id)
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
        let Deferred { process, context, commands, mut holds } = deferred;
        let needs_power = !failed && !self.has_power();
        if needs_power {
            self.power_up(effects);
        }
        let scope = self.scope(guest, process, effects);
        let submitted = match scope {
            None => Err(RequestError::NoSuchProcess(process)),
            Some(_) if failed => Err(RequestError::PagingFailed),
            Some(mut scope) => scope.submit_to_node(context, commands, &mut holds),
        };
        if let Some(guest) = self.guests.get_mut(&guest) {
            // Nothing is left of them when it was submitted.
            guest.release_holds(process, &holds);
        }
        self.begin_paging(guest, process, None, effects);
        if needs_power {
            self.resume_after_power_up(effects);
        }
        submitted.map(|reply| reply.as_bytes().to_vec())
    }
}

impl Scope<'_> {
    /// Submits packets to a HW queue, which is not lost; its engine gets its power back. What the
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
        let (id, context) = (queue.id, queue.context);
        let context = self.get::<Context>(context)?;
        let (node, to_node) = (context.node, context.node_submission.is_some());
        if self.guest.quotas.submissions.charge(1).is_err() {
            self.reap_submissions(handle)?;
            self.guest.quotas.submissions.charge(1)?;
        }
        self.power.wake_engine(node, self.miniport);
        let submission = KernelSubmission {
            gpu_va: commands.gpu_va,
            size: commands.size,
            progress_fence_value,
            submission_fence: self.submissions.next_fence(),
        };
        let submitted = match to_node {
            true => self.miniport.submit_command(id, submission),
            false => self.miniport.submit_command_to_hw_queue(id, submission),
        };
        submitted.inspect_err(|_| self.guest.quotas.submissions.refund(1))?;
        self.submissions.begin(id);
        let queue = self.get_mut::<HwQueue>(handle)?;
        queue.last_submitted = queue.last_submitted.max(progress_fence_value);
        let fence = submission.submission_fence;
        queue.in_flight.0.push_back(Submitted { fence, holds: std::mem::take(holds) });
        Ok(fence)
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
