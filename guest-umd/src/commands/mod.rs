// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command buffers: packets for an engine to execute.

pub(crate) mod command_buffer;
pub(crate) mod render_buffer;
