// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hint to a guest that a fence has reached a value that one of its CPUs waits for.
//!
//! The control plane ends a CPU's wait with an event: the engine wakes the control plane, which wakes the guest. A
//! guest that the engine nudges directly re-checks its fences at once. A nudge is a hint: losing one does no harm,
//! since the event follows.

use std::fmt::Debug;

/// Tells one guest to re-check its fences.
pub trait Nudge: Debug + Send + Sync {
    /// Engine, after it published a value that a CPU of the guest waits for. Never waits, whatever the guest and
    /// its VMM do.
    fn nudge(&self);
}
