// SPDX-License-Identifier: MIT OR Apache-2.0

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
pub mod service;
pub mod vhost;
