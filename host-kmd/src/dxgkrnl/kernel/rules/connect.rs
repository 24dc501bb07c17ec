// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connecting a doorbell after the VMM has moved its page: from the request to the reply.
//!
//! The request to connect is answered when the page is mapped. Until then the doorbell reads `DISCONNECTED_RETRY`,
//! and may lose its physical doorbell again, or be destroyed.
//!
//! Source: user-mode work submission, "Victimizing doorbell pseudocode in KMD" ("On return from this
//! DDI, Dxgkrnl maps 0xfeedfeee to process address space CPUVA").

use crate::dxgkrnl::doorbell::connect::{ConnectEnd, Connecting};
use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::queue::hw_queue::QueueOwner;
use crate::hardware::{HwQueueId, Reported as _, RotationOutcome};
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use zerocopy::IntoBytes;

impl Kernel {
    /// The rotation of a doorbell's page ended. The doorbell may have been disconnected meanwhile.
    pub(crate) fn doorbell_rotated(&mut self, queue: HwQueueId, outcome: RotationOutcome) {
        match outcome {
            RotationOutcome::Shown => {
                if self.callbacks.doorbells.end_connect(queue) {
                    self.miniport.notify_work_submission(queue).reported();
                }
            }
            RotationOutcome::Settled => self.callbacks.doorbells.settle(queue),
            RotationOutcome::Refused => {
                self.callbacks.doorbells.refuse_connect(queue);
                let owner = self.queues.get(&queue).copied();
                if let Some(owner) = owner
                    && let Some(mut access) = self.access(owner.guest, owner.process)
                {
                    access.disconnect(queue, DisconnectReason::Retry);
                }
            }
        }
    }

    /// Answers the requests to connect that have ended.
    pub(crate) fn answer_connects(&mut self) {
        for ConnectEnd { guest, request, outcome } in self.callbacks.doorbells.take_ended_connects()
        {
            let Connecting { promise, hw_queue } = request;
            let answer = outcome.status(hw_queue).map(|status| {
                let reply = ConnectDoorbellReply { status: status.into(), reserved: 0 };
                reply.as_bytes().to_vec()
            });
            if let Err(error) = &answer {
                tracing::debug!(guest = guest.0, %error, "request refused");
            }
            self.outbox.answer(promise, answer);
        }
    }
}

impl Kernel {
    /// Disconnects the doorbells of the queues that `is_wanted` selects. Their guests may connect them again.
    pub(crate) fn disconnect_doorbells(&mut self, is_wanted: impl Fn(&QueueOwner) -> bool) {
        let queues: Vec<_> = self.queues.iter().map(|(id, owner)| (*id, *owner)).collect();
        for (id, owner) in queues.into_iter().filter(|(_, owner)| is_wanted(owner)) {
            if self.callbacks.doorbells.state(id).is_some_and(|state| state.is_connected())
                && let Some(mut access) = self.access(owner.guest, owner.process)
            {
                access.disconnect(id, DisconnectReason::Retry);
            }
        }
    }
}
