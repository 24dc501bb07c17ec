// SPDX-License-Identifier: MIT OR Apache-2.0

//! The `bellhop` command and its daemon, as people, tools and service managers use them.

mod agent;
mod bench;
mod container;
mod ctl;
mod daemon;
mod dependencies;
mod descriptors;
mod display_document;
mod edid;
mod engine_kernels;
mod inspect;
mod kernels;
mod left_out;
mod links;
mod main_job;
mod output;
mod own_kernels;
mod programs;
#[path = "../../../device/tests/gpu/support/rig.rs"]
#[expect(dead_code, reason = "the device's own tests use the rest")]
mod rig;
mod screen;
mod service;
#[path = "../support/mod.rs"]
mod support;
mod system_bus;
mod trace;
mod workers;
