// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel-mode submission is done, or goes to the driver after the paging that it waited for.
//!
//! Source: "DMA buffers" and "Interrupt" of the Windows KMD overview.

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::submission::{Deferred, DeferredWork};
use crate::hardware::{GuestId, HwQueueId};
use zerocopy::IntoBytes;

impl Kernel {
    /// `DXGK_INTERRUPT_DMA_COMPLETED`: the queue's submissions up to `fence` are done.
    pub(crate) fn dma_completed(&mut self, id: HwQueueId, fence: u64) {
        // The queue may be gone by now.
        let Some(owner) = self.queues.get(&id).copied() else { return };
        if let Some(mut access) = self.access(owner.guest, owner.process)
            && let Err(error) = access.complete_submissions(owner.handle, fence)
        {
            let span = queue_span(owner.process, owner.handle);
            tracing::error!(parent: &span, guest = owner.guest.0, %error, "a completion names a missing queue");
        }
        // VidMm may be able to evict what the submissions held.
        self.work.wake(Rule::Paging(owner.guest));
    }

    /// Paging for a deferred submission has ended: submits it, unless paging failed. Returns the body of the reply.
    pub(crate) fn submit_deferred(
        &mut self,
        guest: GuestId,
        deferred: Deferred,
        failed: bool,
    ) -> Result<Vec<u8>, RequestError> {
        let Deferred { process, context, work } = deferred;
        if !failed {
            self.ensure_power();
        }
        // A signal may be given to a software queue that loses its context then.
        let submitted = self.for_process(guest, process, |access| match work {
            DeferredWork::Submission { commands, mut holds } => {
                let submitted = if failed {
                    Err(RequestError::PagingFailed)
                } else {
                    access.submit_to_node(context, commands, &mut holds)
                };
                // Empty if the submission succeeded.
                access.guest.release_holds(process, &holds);
                submitted.map(|reply| reply.as_bytes().to_vec())
            }
            DeferredWork::Wait(list) => access
                .node_submission(context)
                .and_then(|node| access.give_wait(node.hw_queue(), &list))
                .map(|()| Vec::new()),
            DeferredWork::Signal(list) => access
                .node_submission(context)
                .and_then(|node| access.give_signal(node.hw_queue(), &list))
                .map(|()| Vec::new()),
        });
        self.work.wake(Rule::Paging(guest));
        // Without the guest, nothing is held either.
        submitted.unwrap_or(Err(RequestError::NoSuchProcess(process)))
    }
}
