// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rank of a queue among the queues of its guest.

use bellhop_host_kmd::hardware::SchedulingPriority;

/// Lines of a guest: one for each priority, and the system context's above them.
pub const LINES: usize = SchedulingPriority::COUNT + 1;

/// The line of the system context.
pub const SYSTEM: usize = SchedulingPriority::COUNT;

/// The rank of a queue's context: the line of its guest that the context waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// Before all other contexts of its guest.
    System,
    /// Among the contexts of this priority.
    Priority(SchedulingPriority),
}

impl Rank {
    /// Index of that line.
    #[inline]
    pub fn line(self) -> usize {
        match self {
            Self::System => SYSTEM,
            Self::Priority(priority) => priority.index(),
        }
    }
}
