// SPDX-License-Identifier: MIT OR Apache-2.0

//! HW queues: the ways of a submission to an engine.

pub(crate) mod doorbell;
pub(crate) mod fallback;
pub(crate) mod hw_queue;
pub(crate) mod kernel_mode;
pub(crate) mod ring;
pub(crate) mod user_mode;
