// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences: 64-bit values that order work and that programs wait for.

pub(crate) mod builder;
pub(crate) mod in_queue;
pub(crate) mod list;
pub(crate) mod object;
pub(crate) mod poll;
pub(crate) mod sharing;
pub(crate) mod signal;
pub(crate) mod wait;
