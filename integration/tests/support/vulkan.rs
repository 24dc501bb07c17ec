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

/// Tries the behaviours of these areas as a program of the daemon's first guest; none may be missing or wrong, and the validation layer
/// may find nothing.
#[track_caller]
pub fn assert_seen(daemon: &Daemon, areas: &[&str]) {
    all_passed(&run(beside(daemon, 0).args(["--validate", "--selftest", "--"]).args(areas)));
}

/// The same of the physical device of this number.
#[track_caller]
pub fn assert_seen_of(daemon: &Daemon, device: &str, areas: &[&str]) {
    let mut command = beside(daemon, 0);
    command.args(["--validate", "--selftest", "--", "--device", device]);
    all_passed(&run(command.args(areas)));
}

/// The same of a program that does what Vulkan does not allow.
#[track_caller]
pub fn assert_seen_of_a_bad_program(daemon: &Daemon, areas: &[&str]) {
    all_passed(&run(beside(daemon, 0).args(["--selftest", "--"]).args(areas)));
}

#[track_caller]
fn all_passed(said: &str) {
    let last = said.lines().last().unwrap_or_default();
    assert!(last.ends_with(" passed, 0 failed, 0 not offered"), "{said}");
    assert!(!last.starts_with("0 "), "{said}");
}
