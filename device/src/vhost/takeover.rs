// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device that replaces another: the daemon was restarted, and the VMM connected again without telling the
//! guest.
//!
//! The driver's objects went with the first device, and requests to it are never answered. Only the queues'
//! memory shows that there was another device, and only an event can tell the driver.

use super::ring::Ring;
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::{FromZeros, IntoBytes};

/// What the device knows of the driver that started the queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Takeover {
    /// The queues were not examined yet.
    #[default]
    Unknown,
    /// The driver began with this device, or was told that it did not.
    Settled,
    /// The driver believes that it still drives the device that it began with.
    ToBeTold,
}

impl Takeover {
    /// Examines queues from which nothing was taken yet.
    pub(super) fn of(control: &Ring, events: &Ring) -> Self {
        // When a driver starts a device, no entry was returned to it. The driver may have offered event
        // buffers, behind which some VMMs have the device begin, but it may not have sent a request.
        let is_fresh =
            (control.next_available(), control.next_used(), events.next_used()) == (0, 0, 0);
        if is_fresh { Self::Settled } else { Self::ToBeTold }
    }

    /// Tells the driver, as soon as there is an event buffer.
    pub(super) fn tell(&mut self, events: &Ring) {
        if events.watched_kick().is_none() {
            return;
        }
        // A device returns each event buffer as it takes it, so the other device kept none: all buffers
        // behind the last one returned are on offer, wherever the VMM has this device begin.
        events.set_next_available(events.next_used());
        let Some((writable, _)) = events.take() else { return };
        let mut event = Event::new_zeroed();
        event.kind = EventKind::DEVICE_REPLACED;
        if events.give_back(&writable, event.as_bytes()) == size_of::<Event>() as u32 {
            *self = Self::Settled;
        }
    }
}
