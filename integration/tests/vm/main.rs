// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop vm`: real guests in real VMs.

mod agent;
mod cgroups;
mod cloud_hypervisor;
mod displays;
mod kernels;
mod links;
mod secrets;
#[path = "../support/stand_in/mod.rs"]
mod stand_in;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod variants;
mod video;
