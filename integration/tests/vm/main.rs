// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop vm`: real guests in real VMs.

mod agent;
mod cgroups;
mod cloud_hypervisor;
mod desktop;
mod displays;
mod drawing;
mod kernels;
mod links;
#[path = "../support/named_kernels.rs"]
mod named_kernels;
mod portable;
mod programs;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod variants;
mod video;
mod vulkan;
