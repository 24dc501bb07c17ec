// SPDX-License-Identifier: MIT OR Apache-2.0

//! The hardware's own ways to reach a guest, without the control plane.
//!
//! The control plane ends a CPU's wait with an event: the engine wakes the control plane, which wakes the guest. A
//! guest that the engine nudges directly re-checks its fences at once. A nudge is a hint: losing one does no harm,
//! since the event follows.
//!
//! A VSYNC event is worth as much as it is regular, so the display sends it by itself, and the guest's own thread puts it
//! into the guest's event queue. By the control plane it would wait for more threads to wake up, and for whatever the
//! control plane does just then.

use bellhop_protocol::event::Event;
use std::fmt::Debug;

/// Tells one guest to re-check its fences.
pub trait Nudge: Debug + Send + Sync {
    /// Engine, after it published a value that a CPU of the guest waits for. Never waits, whatever the guest and
    /// its VMM do.
    fn nudge(&self);
}

/// The event queue of one guest, and its connection.
pub trait GuestEvents: Debug + Send + Sync {
    /// Adds an event behind those that are there. Never waits, whatever the guest and its VMM do.
    fn send(&self, event: Event);

    /// Ends the guest's connection. Never waits either.
    fn hang_up(&self);
}
