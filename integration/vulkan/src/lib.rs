// SPDX-License-Identifier: MIT OR Apache-2.0

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![cfg_attr(not(test), deny(clippy::string_slice, clippy::unchecked_time_subtraction))]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

//! What a program may rely on in a Vulkan driver for compute and graphics: named behaviours, each tried through the machine's
//! Vulkan loader on the first device that it lists.
//!
//! A behaviour is what Vulkan's specification promises of what a device offers, so every correct driver shows it, not
//! Bellhop's alone. Those that are about what becomes of a device that a program abuses are Bellhop's: elsewhere the machine
//! might be lost with it.

mod bench;
mod busy;
mod case;
mod cases;
mod frames;
mod lab;
pub mod named;
pub mod peers;
mod report;

pub use bench::{BATCH, Load, Round, run as bench};
pub use busy::{Where, keep_busy};
pub use case::Case;
pub use cases::selected;
pub use frames::{Paced, frames};
pub use lab::{Failure, Lab};
pub use report::{Tally, list, run};
