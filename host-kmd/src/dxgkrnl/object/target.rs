// SPDX-License-Identifier: MIT OR Apache-2.0

//! What ends, and how.

use bellhop_protocol::control::Handle;

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A doorbell, with what its ring holds: the queue stays.
    Doorbell(Handle),
    /// A HW queue.
    HwQueue(Handle),
    /// A context with its queues.
    Context(Handle),
    /// A device with everything on it.
    Device(Handle),
    /// A process with everything that it has.
    Process,
    /// All processes of the guest.
    Guest,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// What was queued is waited for.
    Normal,
    /// What was queued is lost.
    Abnormal,
}
