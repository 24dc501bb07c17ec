//! A device that takes up where another was: its daemon was started again, and the VMM has connected
//! to it without telling the guest.
//!
//! Nothing that the driver had of the first device is there any more, and what it asked the first
//! one for is never answered. Only the queues' own memory shows that there was one; only an event can
//! tell the driver.

use super::ring::Ring;
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::{FromZeros, IntoBytes};

/// What is known of the driver that has started the queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Takeover {
    /// Nothing of them was looked at.
    #[default]
    Unknown,
    /// The driver began with this device, or knows that it did not.
    Settled,
    /// The driver believes that it goes on with the device that it began with.
    ToBeTold,
}

impl Takeover {
    /// Looks at queues of which nothing was taken yet.
    pub(super) fn of(control: &Ring, events: &Ring) -> Self {
        // A driver that starts a device has been given nothing back. It may have offered buffers for
        // events, which some VMMs have the device begin behind, but it may ask for nothing.
        let is_fresh =
            (control.next_available(), control.next_used(), events.next_used()) == (0, 0, 0);
        if is_fresh { Self::Settled } else { Self::ToBeTold }
    }

    /// Tells the driver, as soon as there is a buffer for it.
    pub(super) fn tell(&mut self, events: &Ring) {
        if events.watched_kick().is_none() {
            return;
        }
        // Each buffer is given back as it is taken, so the other device has kept none: all behind
        // the last that came back are on offer, wherever the VMM has this one begin.
        events.set_next_available(events.next_used());
        let Some((writable, _)) = events.take() else { return };
        let mut event = Event::new_zeroed();
        event.kind = EventKind::DEVICE_REPLACED;
        if events.give_back(&writable, event.as_bytes()) == size_of::<Event>() as u32 {
            *self = Self::Settled;
        }
    }
}
