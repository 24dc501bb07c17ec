// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where a queue stands among the queues of its guest.

use bellhop_host_kmd::hardware::SchedulingPriority;

/// Processes of a guest that use one part of its engine time together: the number of their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Party(pub u32);

/// The rank of a queue's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// Before all other contexts of its guest.
    System,
    /// Among the contexts of this priority.
    Priority(SchedulingPriority),
}
