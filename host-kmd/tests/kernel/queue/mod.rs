// SPDX-License-Identifier: MIT OR Apache-2.0

//! Contexts, HW queues and submissions.

mod contexts;
pub mod node_contexts;
mod software_queue;
mod submit;
