//! The virtual GPU and its vhost-user service.
//!
//! [`gpu`] is the hardware: engines that watch doorbells and execute packets. [`vhost`] attaches
//! a guest to it and to the control plane of `bellhop-host-kmd`. [`service`] is `bellhopd`, which
//! serves any number of guests. [`log`] bounds what each of them can have logged.

pub mod gpu;
pub mod log;
pub mod service;
pub mod vhost;
