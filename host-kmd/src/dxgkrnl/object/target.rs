// SPDX-License-Identifier: MIT OR Apache-2.0

//! The target of a termination, and its manner.

use bellhop_protocol::control::Handle;

/// The target of a termination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A doorbell, with the work in its ring: the queue stays.
    Doorbell(Handle),
    /// A HW queue.
    HwQueue(Handle),
    /// A context with its queues.
    Context(Handle),
    /// A device with everything on it.
    Device(Handle),
    /// An allocation that a display shows.
    Allocation(Handle),
    /// A process with everything that it has.
    Process,
    /// All processes of the guest.
    Guest,
}

/// The manner of a termination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Waits for queued work.
    Normal,
    /// Loses queued work.
    Abnormal,
}
