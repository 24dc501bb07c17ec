// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait for what they test"))]

//! The virtual GPU and its vhost-user service.
//!
//! [`gpu`] is the hardware: engines that watch doorbells and execute packets. [`control_plane`] is the task that
//! runs the kernels of `bellhop-host-kmd`. [`vhost`] attaches a guest to both. [`service`] is `bellhopd`, which
//! serves any number of guests. [`log`] bounds what each guest can log. [`monitor`] makes the monitors that an
//! administrator describes.

pub mod allowance;
pub mod cgroup;
pub mod control_plane;
pub mod gpu;
pub mod log;
pub mod monitor;
#[expect(
    clippy::disallowed_methods,
    reason = "starts and ends the daemon, and answers operators and tools, on threads of their own"
)]
pub mod service;
pub mod vhost;
