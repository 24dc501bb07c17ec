// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel does to the objects of one process. Requests and rules call these; none of these calls a request or a
//! rule.

pub(crate) mod agents;
pub(crate) mod fences;
pub(crate) mod flips;
mod kernels;
pub(crate) mod memory;
pub(crate) mod nodes;
mod process_bars;
pub(crate) mod queues;
mod removal;
pub(crate) mod targets;
