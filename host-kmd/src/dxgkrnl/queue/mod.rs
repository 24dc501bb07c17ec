// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues: contexts, HW queues, held work, and work in flight.

pub(crate) mod context;
pub(crate) mod hw_queue;
pub(crate) mod node;
pub(crate) mod software_queue;
pub(crate) mod submission;
pub(crate) mod submission_fences;
