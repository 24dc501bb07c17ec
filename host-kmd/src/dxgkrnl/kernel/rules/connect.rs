// SPDX-License-Identifier: MIT OR Apache-2.0

//! Connecting a doorbell after the VMM has moved its page: from the request to the reply.
//!
//! The request to connect is answered when the page is mapped. Until then the doorbell reads `DISCONNECTED_RETRY`,
//! and may lose its physical doorbell again, or be destroyed.
//!
//! Source: user-mode work submission, "Victimizing doorbell pseudocode in KMD" ("On return from this
//! DDI, Dxgkrnl maps 0xfeedfeee to process address space CPUVA").

use crate::ddi::Miniport;
use crate::dxgkrnl::doorbell::connect::{ConnectEnd, Connecting};
use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::kernel::actions::queues::doorbells::disconnect;
use crate::dxgkrnl::kernel::callbacks::Callbacks;
use crate::dxgkrnl::kernel::outbox::Outbox;
use crate::dxgkrnl::queue::hw_queue::QueueOwner;
use crate::hardware::{HwQueueId, Reported as _, RotationOutcome};
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use std::collections::BTreeMap;
use zerocopy::IntoBytes;

/// The rotation of a doorbell's page ended. The doorbell may have been disconnected meanwhile.
pub(crate) fn doorbell_rotated(
    callbacks: &mut Callbacks,
    miniport: &mut dyn Miniport,
    queues: &BTreeMap<HwQueueId, QueueOwner>,
    (queue, outcome): (HwQueueId, RotationOutcome),
) {
    match outcome {
        RotationOutcome::Shown => {
            if callbacks.doorbells.end_connect(queue) {
                miniport.notify_work_submission(queue).reported();
            }
        }
        RotationOutcome::Settled => callbacks.doorbells.settle(queue),
        RotationOutcome::Refused => {
            callbacks.doorbells.refuse_connect(queue);
            if queues.contains_key(&queue) {
                disconnect(callbacks, miniport, queue, DisconnectReason::Retry);
            }
        }
    }
}

/// Answers the requests to connect that have ended.
pub(crate) fn answer_connects(callbacks: &mut Callbacks, outbox: &mut Outbox) {
    for ConnectEnd { guest, request, outcome } in callbacks.doorbells.take_ended_connects() {
        let Connecting { promise, hw_queue } = request;
        let answer = outcome.status(hw_queue).map(|status| {
            let reply = ConnectDoorbellReply { status: status.into(), reserved: 0 };
            reply.as_bytes().to_vec()
        });
        if let Err(error) = &answer {
            tracing::debug!(guest = guest.0, %error, "request refused");
        }
        outbox.answer(promise, answer);
    }
}

/// Disconnects the doorbells of the queues that `is_wanted` selects. Their guests may connect them again.
pub(crate) fn disconnect_doorbells(
    callbacks: &mut Callbacks,
    miniport: &mut dyn Miniport,
    queues: &BTreeMap<HwQueueId, QueueOwner>,
    is_wanted: impl Fn(&QueueOwner) -> bool,
) {
    for (id, _) in queues.iter().filter(|(_, owner)| is_wanted(owner)) {
        if callbacks.doorbells.state(*id).is_some_and(|state| state.is_connected()) {
            disconnect(callbacks, miniport, *id, DisconnectReason::Retry);
        }
    }
}
