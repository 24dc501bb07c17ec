// SPDX-License-Identifier: MIT OR Apache-2.0

//! Takeover: the daemon was restarted, and the VMM reconnected without telling the guest.
//!
//! The driver's objects are lost with the first device, and requests to it are never answered. Only the queues'
//! memory reveals the earlier device, and only an event can tell the driver.

use super::ring::Ring;
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::{FromZeros, IntoBytes};

/// What the device knows of the driver that started the queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Takeover {
    /// The queues were not examined yet.
    #[default]
    Unknown,
    /// The driver began with this device, or was told of the replacement.
    Settled,
    /// The driver still believes in the device that it began with.
    ToBeTold,
}

impl Takeover {
    /// Examines queues from which nothing was taken yet.
    pub(super) fn of(control: &Ring, events: &Ring) -> Self {
        // When a driver starts a device, no entry was returned to it. The driver may have offered event buffers,
        // and some VMMs make the device begin after those, but it cannot have sent a request.
        let is_fresh =
            (control.next_available(), control.next_used(), events.next_used()) == (0, 0, 0);
        if is_fresh { Self::Settled } else { Self::ToBeTold }
    }

    /// Tells the driver, once it offers an event buffer.
    pub(super) fn tell(&mut self, events: &Ring) {
        if events.watched_kick().is_none() {
            return;
        }
        // A device returns each event buffer as it takes it, so the previous device kept none: all buffers after
        // the last returned one are on offer, wherever the VMM makes this device begin.
        events.set_next_available(events.next_used());
        let Some((writable, _)) = events.take() else { return };
        let mut event = Event::new_zeroed();
        event.kind = EventKind::DEVICE_REPLACED;
        if events.give_back(&writable, event.as_bytes()) == size_of::<Event>() as u32 {
            *self = Self::Settled;
        }
    }
}
