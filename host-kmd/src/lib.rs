// SPDX-License-Identifier: MIT OR Apache-2.0

//! The host's half of the control plane: the graphics kernel and the kernel-mode driver.
//!
//! Two floors, as in the references. [`dxgkrnl`] is the OS graphics kernel: objects, handles,
//! memory, fence waits. [`miniport`] is the driver of our GPU, which dxgkrnl reaches through the
//! DDIs in [`ddi`] only. Both stand on [`hardware`], which stands for the registers. [`port`] is what
//! goes in and out. The crate does no I/O and starts no task: its owner feeds it inputs and carries out effects.
#![forbid(unsafe_code)]

pub mod ddi;
pub mod dxgkrnl;
pub mod hardware;
pub mod miniport;
pub mod port;
mod vidmm;

// Subsystems have their unit tests over the GPU that the tests of the whole kernel use. It names this crate as they do.
#[cfg(test)]
extern crate self as bellhop_host_kmd;
#[cfg(test)]
#[path = "../tests/kernel/model/mod.rs"]
#[allow(dead_code, reason = "each user takes a part")]
mod model;
