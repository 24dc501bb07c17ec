// SPDX-License-Identifier: MIT OR Apache-2.0

//! Processes that the `bellhop` command starts beside itself, and ends: the daemon first of all.

pub mod daemon;
pub mod process;
