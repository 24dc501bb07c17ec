// SPDX-License-Identifier: MIT OR Apache-2.0

//! The handlers of requests, one file per object.

pub(crate) mod adapter;
pub(crate) mod allocation;
pub(crate) mod context;
pub(crate) mod cross_fences;
pub(crate) mod device;
mod display;
mod donation;
pub(crate) mod doorbell;
pub(crate) mod external;
pub(crate) mod fence;
pub(crate) mod fence_waits;
mod gpu_va;
pub(crate) mod hw_queue;
pub(crate) mod kernel;
pub(crate) mod node_context;
pub(crate) mod power;
mod present;
pub(crate) mod process;
pub(crate) mod render;
pub(crate) mod residency;
pub(crate) mod sharing;
mod video;
