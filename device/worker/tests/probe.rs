// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! The real worker without Vulkan. `integration/tests/command/kernels.rs` tests it with Vulkan.

use bellhop_worker::probe::{PATIENCE, Search, probe};
use std::process::Command;

#[test]
fn a_machine_without_a_loader_is_told_which_packages_have_it() {
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bellhop-worker"));
        command.args(["--loader", "libvulkan-that-is-not-here.so"]);
        Ok(command)
    };
    let report =
        probe(start, Search { name: None, gpus: true, first: false, patience: PATIENCE }).unwrap();
    assert!(report.device.is_none() && report.devices.is_empty());
    let why = report.missing.unwrap();
    assert!(why.contains("no Vulkan loader (libvulkan-that-is-not-here.so: "), "{why}");
    assert!(why.contains("install Mesa 25 or newer") && why.contains("libvulkan1"), "{why}");
}
