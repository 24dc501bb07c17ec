// SPDX-License-Identifier: MIT OR Apache-2.0

//! The life of a doorbell.

use crate::ddi::{ConnectedStatus, InvalidParameter};
use bellhop_protocol::doorbell::ConnectionStatus;

/// Why a doorbell is disconnected: the two statuses `DISCONNECTED_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisconnectReason {
    /// The guest may connect again.
    Retry,
    /// The queue is lost.
    Abort,
}

impl TryFrom<ConnectionStatus> for DisconnectReason {
    type Error = InvalidParameter;

    fn try_from(status: ConnectionStatus) -> Result<Self, InvalidParameter> {
        match status {
            ConnectionStatus::DISCONNECTED_RETRY => Ok(Self::Retry),
            ConnectionStatus::DISCONNECTED_ABORT => Ok(Self::Abort),
            status => Err(InvalidParameter::NotADisconnectedStatus(status)),
        }
    }
}

/// The life of a doorbell.
///
/// ```text
///  create ──> Disconnected ──connect──> Connected(how) ──┐
///                  ^ └──────abort──────────┐   │         │
///                  └──disconnect, victimise┼───┘      abort
///                                          v             │
///                                       Aborted <────────┘
/// ```
/// If the VMM moves pages, two states come between. Each can be disconnected and aborted as `Connected` can:
///
/// ```text
///  Disconnected ──connect──> Connecting(how) ──page shown──> Settling(how) ──settled──> Connected(how)
/// ```
/// A doorbell can be destroyed in any state. An aborted doorbell stays aborted. The engine switches between
/// `CONNECTED` and `CONNECTED_NOTIFY` by itself as it falls asleep and wakes; dxgkrnl does not track that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DoorbellState {
    /// No physical doorbell watches it; the guest may connect it.
    Disconnected,
    /// A physical doorbell watches it; its page is not mapped yet.
    Connecting(ConnectedStatus),
    /// Its page is mapped; rings may still miss it.
    Settling(ConnectedStatus),
    /// A physical doorbell watches it.
    Connected(ConnectedStatus),
    /// The queue is lost.
    Aborted,
}

impl DoorbellState {
    /// The initial state.
    pub(crate) const CREATED: Self = Self::Disconnected;

    /// The state after a physical doorbell began to watch it.
    pub(crate) const fn connected(self, status: ConnectedStatus) -> Self {
        match self {
            Self::Aborted => Self::Aborted,
            _ => Self::Connected(status),
        }
    }

    /// The state after a physical doorbell began to watch it, while its page is not mapped yet.
    pub(crate) const fn connecting(self, status: ConnectedStatus) -> Self {
        match self {
            Self::Aborted => Self::Aborted,
            _ => Self::Connecting(status),
        }
    }

    /// The state after the page was mapped. Unchanged if the doorbell waits for no page.
    pub(crate) const fn shown(self) -> Self {
        match self {
            Self::Connecting(status) => Self::Settling(status),
            state => state,
        }
    }

    /// The state after rings stopped missing the page. Unchanged if the doorbell is not settling.
    pub(crate) const fn settled(self) -> Self {
        match self {
            Self::Settling(status) => Self::Connected(status),
            state => state,
        }
    }

    /// The state after dxgkrnl disconnected the doorbell or the driver took it as a victim.
    pub(crate) const fn disconnected(self, reason: DisconnectReason) -> Self {
        match (self, reason) {
            (Self::Aborted, _) | (_, DisconnectReason::Abort) => Self::Aborted,
            (_, DisconnectReason::Retry) => Self::Disconnected,
        }
    }

    /// Whether a physical doorbell watches it.
    pub(crate) const fn is_connected(self) -> bool {
        matches!(self, Self::Connecting(_) | Self::Settling(_) | Self::Connected(_))
    }

    /// The state's name, for tools.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Connecting(_) => "connecting",
            Self::Settling(_) => "settling",
            Self::Connected(_) => "connected",
            Self::Aborted => "aborted",
        }
    }

    /// The status that the guest reads.
    pub(crate) fn status(self) -> ConnectionStatus {
        match self {
            Self::Disconnected | Self::Connecting(_) => ConnectionStatus::DISCONNECTED_RETRY,
            Self::Settling(_) => ConnectionStatus::CONNECTED_NOTIFY,
            Self::Connected(status) => status.into(),
            Self::Aborted => ConnectionStatus::DISCONNECTED_ABORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Connect(ConnectedStatus),
        BeginConnect(ConnectedStatus),
        Show,
        Settle,
        Disconnect,
        Victimise,
        Fault,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Connect(ConnectedStatus::Connected)),
            Just(Event::Connect(ConnectedStatus::ConnectedNotify)),
            Just(Event::BeginConnect(ConnectedStatus::Connected)),
            Just(Event::BeginConnect(ConnectedStatus::ConnectedNotify)),
            Just(Event::Show),
            Just(Event::Settle),
            Just(Event::Disconnect),
            Just(Event::Victimise),
            Just(Event::Fault),
        ]
    }

    #[test]
    fn a_doorbell_begins_as_disconnected_retry() {
        assert_eq!(DoorbellState::CREATED.status(), ConnectionStatus::DISCONNECTED_RETRY);
    }

    #[test]
    fn only_the_two_disconnected_statuses_are_reasons() {
        for status in ConnectionStatus::ALL {
            let is_reason = matches!(
                *status,
                ConnectionStatus::DISCONNECTED_RETRY | ConnectionStatus::DISCONNECTED_ABORT
            );
            assert_eq!(DisconnectReason::try_from(*status).is_ok(), is_reason);
        }
        assert!(DisconnectReason::try_from(ConnectionStatus(4)).is_err());
    }

    proptest! {
        /// The reference's rules: the guest reads the last event, and nothing follows an abort. While its page is not
        /// mapped, a doorbell reads as one to connect; while rings may miss the page, as one to notify.
        #[test]
        fn the_status_is_that_of_the_last_event_until_an_abort(
            events in proptest::collection::vec(event(), 0..40),
        ) {
            use ConnectionStatus as Status;
            let mut state = DoorbellState::CREATED;
            let mut expected = Status::DISCONNECTED_RETRY;
            // The status that it will be connected with, and whether its page is mapped.
            let mut on_its_way: Option<(ConnectedStatus, bool)> = None;
            for event in events {
                let is_aborted = expected == Status::DISCONNECTED_ABORT;
                let next = match event {
                    Event::Connect(status) => state.connected(status),
                    Event::BeginConnect(status) => state.connecting(status),
                    Event::Show => state.shown(),
                    Event::Settle => state.settled(),
                    Event::Disconnect | Event::Victimise => {
                        state.disconnected(DisconnectReason::Retry)
                    }
                    Event::Fault => state.disconnected(DisconnectReason::Abort),
                };
                if !is_aborted {
                    match (event, on_its_way) {
                        (Event::Connect(status), _) => {
                            (expected, on_its_way) = (status.into(), None);
                        }
                        (Event::BeginConnect(status), _) => {
                            expected = Status::DISCONNECTED_RETRY;
                            on_its_way = Some((status, false));
                        }
                        (Event::Show, Some((status, false))) => {
                            expected = Status::CONNECTED_NOTIFY;
                            on_its_way = Some((status, true));
                        }
                        (Event::Settle, Some((status, true))) => {
                            (expected, on_its_way) = (status.into(), None);
                        }
                        (Event::Show | Event::Settle, _) => {}
                        (Event::Disconnect | Event::Victimise, _) => {
                            (expected, on_its_way) = (Status::DISCONNECTED_RETRY, None);
                        }
                        (Event::Fault, _) => {
                            (expected, on_its_way) = (Status::DISCONNECTED_ABORT, None);
                        }
                    }
                }
                prop_assert_eq!(next.status(), expected);
                let connected = [Status::CONNECTED, Status::CONNECTED_NOTIFY];
                let has_one = connected.contains(&expected) || on_its_way.is_some();
                prop_assert_eq!(next.is_connected(), has_one);
                state = next;
            }
        }
    }
}
