// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests of a daemon, each a connection of the test: what works for them, what they share and what they leave
//! behind.

mod adapters;
mod broken_devices;
mod broken_programs;
mod broker;
mod composed;
mod connections;
mod displays;
mod doorbell_models;
mod drawing;
mod endings;
mod example;
mod fence_sharing;
mod hotplug;
mod independent;
mod kernel_mode;
mod links;
mod many_objects;
mod memory;
mod neighbours;
mod opengl;
mod profiles;
mod programs;
mod reference;
mod secrets;
mod selftest;
mod spread;
mod submitting;
#[path = "../support/mod.rs"]
mod support;
mod video;
mod vulkan;
mod vulkan_required;
