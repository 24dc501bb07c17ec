// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes that the `bellhop` command starts and ends, above all the daemon.

pub mod daemon;
pub mod process;
