// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program that names its objects of Vulkan, and waits until somebody has looked at them.

use bellhop_vulkan_suite::{Failure, named};
use std::io::Write;

/// The hidden command.
pub const NAMED: &str = "vulkan-named";

/// Names objects, says so, and goes on when standard input ends.
///
/// # Errors
/// When the device has no names.
pub fn run() -> anyhow::Result<()> {
    let look = || {
        writeln!(std::io::stdout(), "the objects have names")?;
        std::io::stdin().read_line(&mut String::new())
    };
    let seen = |error: std::io::Error| Failure::Seen(error.to_string());
    Ok(named::hold(&super::lab(0)?, || look().map(|_| ()).map_err(seen))?)
}
