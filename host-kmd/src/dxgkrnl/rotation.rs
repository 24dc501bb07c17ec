//! Connecting doorbells whose pages are moved: what happens between a request and its answer.
//!
//! The request to connect is answered when the page is there. Until then the doorbell goes on to
//! read `DISCONNECTED_RETRY`, and may lose its physical doorbell again, or be destroyed.
//!
//! Source: user-mode work submission, "Victimizing doorbell pseudocode in KMD" ("On return from this
//! DDI, Dxgkrnl maps 0xfeedfeee to process address space CPUVA").

use super::doorbell::DisconnectReason;
use super::error::RequestError;
use super::kernel::Kernel;
use super::request::reply;
use crate::ddi::ConnectedStatus;
use crate::hardware::{GuestId, HwQueueId, RotationOutcome};
use crate::port::{Effect, RequestToken};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

/// A request to connect that is not answered yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connecting {
    /// The request.
    pub(super) token: RequestToken,
    /// The HW queue, as the guest calls it.
    pub(super) hw_queue: Handle,
}

/// A request to connect that can be answered now.
#[derive(Debug)]
pub(super) struct ConnectEnd {
    /// Whose.
    pub(super) guest: GuestId,
    /// Which.
    pub(super) request: Connecting,
    /// What became of the doorbell.
    pub(super) outcome: ConnectOutcome,
}

/// What became of a doorbell that was being connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectOutcome {
    /// It is connected.
    Connected(ConnectedStatus),
    /// It was, and is not any more: a victim. What its ring held was looked at all the same.
    Victimised,
    /// The VMM did not map its page.
    Refused,
    /// The queue is lost, or the doorbell destroyed.
    Aborted,
}

impl ConnectOutcome {
    fn status(self, hw_queue: Handle) -> Result<ConnectedStatus, RequestError> {
        match self {
            Self::Connected(status) => Ok(status),
            // That of a doorbell which lost its physical one right after it got it.
            Self::Victimised => Ok(ConnectedStatus::ConnectedNotify),
            Self::Refused => Err(RequestError::PageNotMapped(hw_queue)),
            Self::Aborted => Err(RequestError::DeviceRemoved(hw_queue)),
        }
    }
}

impl Kernel {
    /// Something became of the page of a doorbell, which may have been disconnected meanwhile.
    pub(super) fn doorbell_rotated(
        &mut self,
        queue: HwQueueId,
        outcome: RotationOutcome,
        effects: &mut Vec<Effect>,
    ) {
        match outcome {
            RotationOutcome::Shown => {
                if self.callbacks.end_connect(queue) {
                    self.miniport.notify_work_submission(queue);
                }
            }
            RotationOutcome::Settled => self.callbacks.settle(queue),
            RotationOutcome::Refused => {
                self.callbacks.refuse_connect(queue);
                let owner = self.queues.get(&queue).copied();
                if let Some(owner) = owner
                    && let Some(mut scope) = self.scope(owner.guest, owner.process, effects)
                {
                    scope.disconnect(queue, DisconnectReason::Retry);
                }
            }
        }
    }

    /// Answers the requests to connect that have ended.
    pub(super) fn answer_connects(&mut self, effects: &mut Vec<Effect>) {
        for ConnectEnd { guest, request, outcome } in self.callbacks.take_ended_connects() {
            // A guest that goes is not answered any more.
            if self.guests.get(&guest).is_none_or(|guest| guest.detaching) {
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
