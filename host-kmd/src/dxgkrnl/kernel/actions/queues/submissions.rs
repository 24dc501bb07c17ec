// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel-mode submission goes to the driver, and holds memory until it is done.
//!
//! Source: "DMA buffers" and "Interrupt" of the Windows KMD overview.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::{Hold, Resource};
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::queue::node::NodeSubmission;
use crate::dxgkrnl::queue::software_queue::Released;
use crate::dxgkrnl::queue::submission::{CommandBuffer, HeldSubmission, InFlight};
use crate::hardware::{HardwareError, HardwareFull, KernelSubmission};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::node_context::SubmissionReply;

impl Guest {
    /// Releases the holds of a submission that is done or that no engine executes any more.
    pub(crate) fn release_holds(&mut self, process: u32, holds: &[Hold]) {
        for hold in holds {
            match *hold {
                Hold::DmaBuffer(place) => self.dma_buffers.give_back(place),
                Hold::Allocation { allocation, context } => {
                    self.quotas.refund(Limited::ListedAllocations, 1);
                    // Destroying a device destroys its allocations before their submissions are done.
                    let Ok(allocation) = self.handles.get_mut::<Allocation>(process, allocation)
                    else {
                        continue;
                    };
                    allocation.drop_user();
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

impl ProcessAccess<'_> {
    /// Submits packets to a HW queue that is not lost, or holds them in its software queue. The submission's holds
    /// are released when it is done; if this fails, they stay with the caller. Returns the submission's fence id.
    pub(crate) fn submit(
        &mut self,
        handle: Handle,
        commands: CommandBuffer,
        progress_fence_value: u64,
        holds: &mut Vec<Hold>,
    ) -> Result<u64, RequestError> {
        let queue = self.get::<HwQueue>(handle)?;
        let (id, is_held) = (queue.id(), !queue.held().is_empty());
        if self.guest.quotas.charge(Limited::Submissions, 1).is_err() {
            self.reap_submissions(handle)?;
            self.guest.quotas.charge(Limited::Submissions, 1)?;
        }
        let submission = KernelSubmission {
            gpu_va: commands.gpu_va,
            size: commands.size,
            progress_fence_value,
            submission_fence: self.submissions.next_fence(),
        };
        let accepted = if is_held {
            self.guest.quotas.charge(Limited::Held, 1)
        } else {
            self.submit_to_hardware(handle, submission).map_err(RequestError::from)
        };
        accepted.inspect_err(|_| self.guest.quotas.refund(Limited::Submissions, 1))?;
        self.submissions.begin(id);
        let holds = std::mem::take(holds);
        let queue = self.get_mut::<HwQueue>(handle)?;
        queue.note_submitted(progress_fence_value);
        let fence = submission.submission_fence;
        if is_held {
            queue.held_mut().push_submission(HeldSubmission { submission, holds })
        } else {
            queue.begin_submission(fence, holds)
        }
        Ok(fence)
    }

    /// Gives the hardware a submission, and the engine power.
    fn submit_to_hardware(
        &mut self,
        handle: Handle,
        submission: KernelSubmission,
    ) -> Result<(), HardwareError> {
        let Ok(queue) = self.get::<HwQueue>(handle) else {
            return Err(HardwareFull("queue").into());
        };
        let id = queue.id();
        let Ok(context) = self.get::<Context>(queue.context()) else {
            return Err(HardwareFull("context").into());
        };
        let (node, to_node) = (context.node(), context.node_submission().is_some());
        self.power.wake_engine(node, self.miniport);
        if to_node {
            self.miniport.submit_command(id, submission)
        } else {
            self.miniport.submit_command_to_hw_queue(id, submission)
        }
    }

    /// Submits a held submission. Returns it if the hardware does not accept it.
    pub(crate) fn submit_held(
        &mut self,
        handle: Handle,
        held: HeldSubmission,
    ) -> Result<(), (HeldSubmission, HardwareError)> {
        let HeldSubmission { submission, holds } = held;
        if let Err(error) = self.submit_to_hardware(handle, submission) {
            return Err((HeldSubmission { submission, holds }, error));
        }
        let fence = submission.submission_fence;
        if let Ok(queue) = self.get_mut::<HwQueue>(handle) {
            queue.begin_submission(fence, holds);
        }
        Ok(())
    }

    /// Drops held submissions.
    pub(crate) fn give_up_held(&mut self, held: Vec<HeldSubmission>) {
        self.guest.quotas.refund(Limited::Submissions, held.len() as u64);
        let holds: Vec<_> = held.into_iter().flat_map(|dropped| dropped.holds).collect();
        if !holds.is_empty() {
            self.give_up(Resource::Submissions { process: self.process_id, holds });
        }
    }

    /// Releases the holds of a queue's finished submissions before their interrupts arrive: the guest may already
    /// have seen its progress fence.
    pub(crate) fn reap_submissions(&mut self, handle: Handle) -> Result<(), RequestError> {
        let id = self.get::<HwQueue>(handle)?.id();
        let fence = self.miniport.query_current_fence(id)?;
        self.complete_submissions(handle, fence)
    }

    /// Releases the holds of a queue's submissions up to `fence`, which are done.
    pub(crate) fn complete_submissions(
        &mut self,
        handle: Handle,
        fence: u64,
    ) -> Result<(), RequestError> {
        while let Some(holds) = self.get_mut::<HwQueue>(handle)?.complete_submission(fence) {
            self.guest.quotas.refund(Limited::Submissions, 1);
            self.guest.release_holds(self.process_id, &holds);
        }
        self.look_at_software_queue(handle);
        Ok(())
    }

    /// Drops a queue's submissions in flight, which engines may still execute.
    pub(crate) fn give_up_in_flight(&mut self, in_flight: InFlight) {
        self.guest.quotas.refund(Limited::Submissions, in_flight.len() as u64);
        let holds = in_flight.into_holds();
        if !holds.is_empty() {
            self.give_up(Resource::Submissions { process: self.process_id, holds });
        }
    }

    /// A context that submits to its node and is not lost.
    pub(crate) fn node_submission(&self, handle: Handle) -> Result<NodeSubmission, RequestError> {
        let context = self.get::<Context>(handle)?;
        let submission = context
            .node_submission()
            .ok_or(RequestError::NotSupported("the context submits to its HW queues"))?;
        let alive = self.get::<HwQueue>(submission.hw_queue())?.check_alive(handle);
        alive.map(|()| submission)
    }

    /// Submits packets to a context's node. See [`ProcessAccess::submit`].
    pub(crate) fn submit_to_node(
        &mut self,
        context: Handle,
        commands: CommandBuffer,
        holds: &mut Vec<Hold>,
    ) -> Result<SubmissionReply, RequestError> {
        let node = self.node_submission(context)?;
        let progress_fence_value = node.next_value();
        let submission_fence =
            self.submit(node.hw_queue(), commands, progress_fence_value, holds)?;
        self.get_mut::<Context>(context)?.count_submission();
        Ok(SubmissionReply { submission_fence, progress_fence_value })
    }

    /// Something happened that a software queue may wait for.
    pub(crate) fn look_at_software_queue(&mut self, hw_queue: Handle) {
        let holds = self.get::<HwQueue>(hw_queue).is_ok_and(|queue| !queue.held().is_empty());
        if holds {
            let (guest, process) = (self.guest_id, self.process_id);
            self.work.release(Released { guest, process, hw_queue, fault: None });
        }
    }

    /// Whether new submissions of this guest must wait for paging.
    pub(crate) fn waits_for_paging(&self) -> bool {
        self.guest.vidmm.has_plan() || self.guest.paging.is_busy()
    }
}
