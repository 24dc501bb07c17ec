// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! The kernel with the driver of our GPU, over a GPU made of a few maps. Each subsystem of the kernel has a folder of
//! tests; beside the folders are the GPU, and the guests and drivers that the tests use.

mod any_guest;
mod bench;
mod compute;
mod ddi;
mod display;
mod doorbell;
mod fence;
mod kernel;
mod memory;
mod model;
mod object;
mod observe;
mod power;
mod queue;
mod recovery;
mod video;
