// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests to connect that wait for their doorbell's page.

use crate::ddi::ConnectedStatus;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::promises::Promise;
use crate::hardware::GuestId;
use bellhop_protocol::control::Handle;

/// An unanswered request to connect.
#[derive(Debug)]
pub(crate) struct Connecting {
    /// The request.
    pub(crate) promise: Promise,
    /// The guest's handle for the HW queue.
    pub(crate) hw_queue: Handle,
}

/// A request to connect that can be answered now.
#[derive(Debug)]
pub(crate) struct ConnectEnd {
    /// The guest.
    pub(crate) guest: GuestId,
    /// The request.
    pub(crate) request: Connecting,
    /// What became of the doorbell.
    pub(crate) outcome: ConnectOutcome,
}

/// The outcome for a doorbell that was being connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectOutcome {
    /// It is connected.
    Connected(ConnectedStatus),
    /// Another queue has since taken its physical doorbell. The engine looked at what the ring held.
    Victimised,
    /// The VMM did not map its page.
    Refused,
    /// The queue is lost, or the doorbell destroyed.
    Aborted,
}

impl ConnectOutcome {
    pub(crate) fn status(self, hw_queue: Handle) -> Result<ConnectedStatus, RequestError> {
        match self {
            Self::Connected(status) => Ok(status),
            // A doorbell that loses its physical one right after it got it has this status too.
            Self::Victimised => Ok(ConnectedStatus::ConnectedNotify),
            Self::Refused => Err(RequestError::PageNotMapped(hw_queue)),
            Self::Aborted => Err(RequestError::DeviceRemoved(hw_queue)),
        }
    }
}
