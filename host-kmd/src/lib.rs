// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait for what they test"))]

//! The host's half of the control plane: the graphics kernel and the kernel-mode driver.
//!
//! Two layers, as in the references. [`dxgkrnl`] is the OS graphics kernel: objects, handles, memory, fence waits.
//! [`miniport`] is the driver of our GPU, which dxgkrnl reaches only through the DDIs in [`ddi`]. Both use
//! [`hardware`], which represents the registers. [`port`] is the interface to the owner. The crate does no I/O and
//! starts no task: its owner feeds it inputs and carries out effects. [`proxy`] stands between the two layers: it makes the
//! GPUs of a chain look like one.
#![forbid(unsafe_code)]

pub mod ddi;
pub mod dxgkrnl;
pub mod hardware;
pub mod miniport;
pub mod port;
pub mod proxy;
mod vidmm;

// Unit tests of subsystems use the model GPU of the tests of the whole kernel. That model names this crate as those
// tests do.
#[cfg(test)]
extern crate self as bellhop_host_kmd;
#[cfg(test)]
#[path = "../tests/kernel/model/mod.rs"]
#[allow(dead_code, reason = "each user takes a part")]
mod model;
