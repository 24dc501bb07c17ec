// SPDX-License-Identifier: MIT OR Apache-2.0

//! The handlers of requests, one file per object.

pub(crate) mod adapter;
mod allocation;
mod context;
mod device;
pub(crate) mod display;
pub(crate) mod donation;
mod doorbell;
pub(crate) mod external;
mod fence;
mod fence_waits;
mod gpu_va;
mod hw_queue;
mod kernel;
mod node_context;
pub(crate) mod power;
mod present;
mod process;
mod render;
mod residency;
mod sharing;
mod software_queue;
mod video;
