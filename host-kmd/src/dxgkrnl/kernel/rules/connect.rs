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
use crate::dxgkrnl::kernel::request::reply;
use crate::dxgkrnl::queue::hw_queue::QueueOwner;
use crate::hardware::{HwQueueId, Reported as _, RotationOutcome};
use crate::port::Effect;
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

impl Kernel {
    /// The rotation of a doorbell's page ended. The doorbell may have been disconnected meanwhile.
    pub(crate) fn doorbell_rotated(
        &mut self,
        queue: HwQueueId,
        outcome: RotationOutcome,
        effects: &mut Vec<Effect>,
    ) {
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
                    && let Some(mut access) = self.access(owner.guest, owner.process, effects)
                {
                    access.disconnect(queue, DisconnectReason::Retry);
                }
            }
        }
    }

    /// Answers the requests to connect that have ended.
    pub(crate) fn answer_connects(&mut self, effects: &mut Vec<Effect>) {
        for ConnectEnd { guest, request, outcome } in self.callbacks.doorbells.take_ended_connects()
        {
            // A detaching guest gets no more answers.
            if self.guests.get(&guest).is_none_or(|guest| guest.is_detaching()) {
                continue;
            }
            let Connecting { token, hw_queue } = request;
            let reply = match outcome.status(hw_queue) {
                Ok(status) => {
                    let body = ConnectDoorbellReply { status: status.into(), reserved: 0 };
                    reply(Status::SUCCESS, 0, body.as_bytes())
                }
                Err(error) => {
                    tracing::debug!(guest = guest.0, %error, "request refused");
                    reply(error.status(), error.detail(), &[])
                }
            };
            effects.push(Effect::Reply { guest, token, reply });
        }
    }
}

impl Kernel {
    /// Disconnects the doorbells of the queues that `is_wanted` selects. Their guests may connect them again.
    pub(crate) fn disconnect_doorbells(
        &mut self,
        is_wanted: impl Fn(&QueueOwner) -> bool,
        effects: &mut Vec<Effect>,
    ) {
        let queues: Vec<_> = self.queues.iter().map(|(id, owner)| (*id, *owner)).collect();
        for (id, owner) in queues.into_iter().filter(|(_, owner)| is_wanted(owner)) {
            if self.callbacks.doorbells.state(id).is_some_and(|state| state.is_connected())
                && let Some(mut access) = self.access(owner.guest, owner.process, effects)
            {
                access.disconnect(id, DisconnectReason::Retry);
            }
        }
    }
}
