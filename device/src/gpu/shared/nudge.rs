// SPDX-License-Identifier: MIT OR Apache-2.0

//! A hint to a guest that a fence is where one of its CPUs waits for it.
//!
//! The control plane ends a CPU's wait with an event: the engine wakes the control plane, and that wakes the guest.
//! A guest that is nudged by the engine itself looks at its fences at once. A nudge is a hint: nothing is lost
//! with it, since the event follows.

use std::fmt::Debug;

/// Tells one guest to look at its fences.
pub trait Nudge: Debug + Send + Sync {
    /// Engine, after it published a value that a CPU of the guest waits for. Never waits, whatever the guest and
    /// its VMM do.
    fn nudge(&self);
}
