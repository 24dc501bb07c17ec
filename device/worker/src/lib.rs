// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests wait for what they test"))]

//! The engine worker: a separate process that runs kernels with Vulkan.
//!
//! A Vulkan driver compiles and executes what guests wrote. It may crash, hang or compute wrongly, so only
//! `bellhop-worker` loads it. [`probe`] starts workers to test this machine's devices, and [`report`] has the results.
//! [`owner`] starts a worker that runs kernels, gives it memory page by page, and ends it. [`mod@bench`] measures what that
//! costs over the same Vulkan in one process. [`processors`] and [`sandbox`] are what a worker gives up.

#[expect(clippy::disallowed_methods, reason = "a command that measures")]
pub mod bench;
mod caches;
#[expect(clippy::disallowed_methods, reason = "the process of a worker, which serves one guest")]
pub mod cli;
pub mod messages;
pub mod owner;
#[expect(
    clippy::disallowed_methods,
    reason = "before the daemon serves anybody: until a device is tested, and no longer than `PATIENCE`"
)]
pub mod probe;
pub mod report;
pub mod security;
mod self_test;
#[expect(clippy::disallowed_methods, reason = "the process of a worker, which serves one guest")]
mod serve;
mod socket;
mod vulkan;
mod waiting;

pub use serve::{processors, sandbox};

/// Whether the codecs were built with their assembly.
pub const HAS_ASSEMBLY: bool = cfg!(feature = "assembly");
