// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine worker: a separate process that runs kernels with Vulkan.
//!
//! A Vulkan driver compiles and executes what guests wrote. It may crash, hang or compute wrongly, so only
//! `bellhop-worker` loads it. [`probe`] starts workers to test this machine's devices, and [`report`] has the results.
//! [`owner`] starts a worker that runs kernels, gives it memory page by page, and ends it. [`mod@bench`] measures what that
//! costs over the same Vulkan in one process.

pub mod bench;
pub mod cli;
pub mod messages;
pub mod owner;
pub mod probe;
pub mod report;
pub mod security;
mod self_test;
mod serve;
mod socket;
mod vulkan;
mod waiting;
