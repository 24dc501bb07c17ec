// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine worker: kernels run with Vulkan in a process of their own.
//!
//! A Vulkan driver compiles and executes what guests wrote. It may crash, hang or compute wrongly, so it is loaded
//! by `bellhop-worker` and nowhere else: [`probe`] asks such a process what it has, and [`report`] is the answer.
//! [`owner`] starts one that runs kernels, gives it memory page by page, and ends it.

pub mod cli;
pub mod messages;
pub mod owner;
pub mod probe;
pub mod report;
mod self_test;
mod serve;
mod socket;
mod vulkan;
