// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! The programs of a guest with a Bellhop GPU.
//!
//! This program drives a Bellhop GPU over virtio-pci in a VM. In a container or beside the daemon,
//! [`fake_guest`] stands for the VMM and the guest's kernel, and the driver reaches a `bellhopd` over its
//! socket. [`jobs`] is work that a guest does, [`conformance`] checks what every guest may rely on, and
//! [`hostile`] is a guest that attacks its device.

pub mod agent;
pub mod bench;
pub mod broker;
mod canvas;
mod churn;
pub mod cli;
pub mod client;
mod complaints;
pub mod compositor;
pub mod conformance;
pub mod fake_guest;
pub mod files;
mod guest;
pub mod hostile;
mod hotplug;
pub mod inspect;
pub mod intercepted;
pub mod jobs;
pub mod link;
mod listener;
pub mod machine;
pub mod onlooker;
pub mod output;
mod own_kernels;
pub mod pictures;
pub mod present;
pub mod probe;
pub mod processors;
pub mod secrets;
mod stream;
pub mod timing;
pub mod units;
pub mod video;

pub use guest::Guest;
pub use stream::Nodes;
