// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that use a guest's GPU through Vulkan.

use super::{Daemon, bellhop, run};
use std::process::Command;

/// `bellhop vulkan` beside a daemon that runs, as its guest of this number, with a Vulkan loader on any machine.
pub fn beside(daemon: &Daemon, number: usize) -> Command {
    let mut command = bellhop();
    command.args(["vulkan", "--vulkan", "debian-13", "--socket-path"]).arg(daemon.socket(number));
    command
}

/// Tries the behaviours of these areas as a program of the daemon's first guest; none may be missing or wrong.
#[track_caller]
pub fn assert_seen(daemon: &Daemon, areas: &[&str]) {
    let said = run(beside(daemon, 0).args(["--selftest", "--"]).args(areas));
    let last = said.lines().last().unwrap_or_default();
    assert!(last.ends_with(" passed, 0 failed, 0 not offered"), "{said}");
    assert!(!last.starts_with("0 "), "{said}");
}
