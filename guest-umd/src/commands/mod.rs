// SPDX-License-Identifier: MIT OR Apache-2.0

//! Command buffers: packets for an engine to execute.

pub(crate) mod command_buffer;
mod kernel_dispatch;
pub(crate) mod render_buffer;
