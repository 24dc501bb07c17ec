// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's own display (`VK_KHR_display`): connectors with a monitor are displays, sources are planes. Images of a swap chain are
//! primaries, which the GPU draws and the display shows without a copy.

mod handles;
mod monitor;
mod questions;

pub(super) use monitor::Monitor;
pub(super) use questions::lookup;
