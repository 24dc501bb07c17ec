// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! The `bellhop` command, which people use on the host of a Bellhop GPU.
//!
//! `bellhop-guest` runs in a guest. [`hosted`] starts a daemon and such a guest as separate processes,
//! `bellhop_vm` a daemon and a virtual machine.

pub mod bench;
pub mod cli;
pub mod container;
pub mod guest_binary;
pub mod harness;
pub mod hosted;
pub mod hostile_worker;
pub mod inspect;
pub mod lines;
pub mod link;
pub mod operator;
pub mod screen;
pub mod trace;
pub mod vulkan;

pub use cli::manual;
