// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel with the driver of our GPU, over a GPU of a few maps. Tests are in a folder for each subsystem of the
//! kernel; beside these folders are the GPU, and the guests and drivers that the tests use.

mod any_guest;
mod bench;
mod ddi;
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
