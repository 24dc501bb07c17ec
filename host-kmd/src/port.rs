//! What goes in and out of the kernel: the transport's side of the control plane.

use crate::hardware::GuestId;
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;

/// Names a request until it is answered; the transport's to choose, unique among the guest's
/// unanswered requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

/// What a guest gets when it attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestResources {
    /// Where the areas of its BAR are, and with that how many doorbells and fences and how much
    /// local memory it may have.
    pub bar: BarLayout,
    /// Whether the BAR is mapped into the guest.
    pub bar_mapped: bool,
    /// The features that it is offered.
    pub features: Features,
}

/// What the kernel sends to one guest. Implemented by the transport.
///
/// Calls come from the control plane's thread and must not block on the guest.
pub trait GuestPort: Send {
    /// Answers a request; `reply` begins with a reply header.
    fn reply(&self, token: RequestToken, reply: &[u8]);

    /// Tells the guest something. The transport keeps it until the guest has room, within a bound
    /// of its own: a guest may go on waiting without ever taking an event.
    fn event(&self, event: Event);
}

/// What the kernel is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A guest came.
    Attach {
        /// Who. Not attached before.
        guest: GuestId,
        /// What it gets.
        resources: GuestResources,
    },
    /// A guest went, or was reset. [`Effect::Detached`] follows when nothing of it is left;
    /// requests that are not answered by then are not answered at all.
    Detach {
        /// Who.
        guest: GuestId,
    },
    /// A guest asks for something.
    Request {
        /// Who.
        guest: GuestId,
        /// Names the request.
        token: RequestToken,
        /// The request as the guest wrote it, copied out of its memory.
        request: Vec<u8>,
    },
    /// The hardware has interrupts.
    Interrupt,
}

/// What the kernel wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// See [`GuestPort::reply`].
    Reply {
        /// To whom.
        guest: GuestId,
        /// To which request.
        token: RequestToken,
        /// Header and reply.
        reply: Vec<u8>,
    },
    /// See [`GuestPort::event`].
    Event {
        /// To whom.
        guest: GuestId,
        /// What.
        event: Event,
    },
    /// Nothing of the guest is left: no engine touches its memory any more.
    Detached {
        /// Who.
        guest: GuestId,
    },
}
