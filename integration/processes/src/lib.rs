// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! Processes that the `bellhop` command starts and ends, above all the daemon.

pub mod daemon;
pub mod process;
