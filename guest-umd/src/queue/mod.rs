// SPDX-License-Identifier: MIT OR Apache-2.0

//! HW queues: the ways for a submission to reach an engine.

pub(crate) mod doorbell;
pub(crate) mod fallback;
pub(crate) mod hw_queue;
pub(crate) mod kernel_mode;
pub(crate) mod line;
pub(crate) mod ring;
pub(crate) mod small_packets;
pub(crate) mod user_mode;
