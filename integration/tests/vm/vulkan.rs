// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs that use Vulkan and know nothing of Bellhop, as a user of a VM who shares its GPU.

use crate::support::kernels::worker;
use crate::support::{bellhop, run, text, vm, vms};
use std::path::PathBuf;

/// Whose Vulkan executes what a VM's programs submit.
const VULKAN: [&str; 2] = ["--vulkan", "debian-13"];
/// Says who the program is, and tries behaviours, which end the shell with their status.
const TRIES: &str = "id; exec \"$0\" vulkan-suite \"$@\"";

#[test]
fn debian_s_vulkaninfo_lists_the_gpu_of_a_vm_for_a_user_without_privileges() {
    let Some(vm) = vms() else { return };
    if worker("no program in a VM uses Vulkan").is_none() {
        return;
    }
    let packages = ["--debian", "13", "--install", "vulkan-tools", "--"];
    let summary = run(vm().args(VULKAN).args(packages).args(["vulkaninfo", "--summary"]));
    assert!(summary.contains("PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU"), "{summary}");
    assert!(summary.contains("Bellhop"), "{summary}");
}

#[test]
fn a_program_of_this_machine_s_computes_in_a_vm_and_its_status_comes_back() {
    let Some(vm) = vms() else { return };
    if worker("no program in a VM uses Vulkan").is_none() {
        return;
    }
    let bellhop = PathBuf::from(bellhop().get_program());
    let mut command = vm();
    command.args(VULKAN).arg("--vulkan-driver").arg("--folder").arg(bellhop.parent().unwrap());
    command.args(["--", "sh", "-c", TRIES]).arg(&bellhop);
    let output = command.args(["dispatch.", "fence."]).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.starts_with("uid=1000(user) gid=1000(user)"), "{said}{}", text(&output.stderr));
    assert!(said.ends_with(" passed, 0 failed, 0 not offered\n"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}

/// The command says what is missing before it starts anything.
#[test]
fn what_the_guest_would_not_find_is_said_with_what_to_do() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = vm().args(arguments).output().unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let driver = ["--driver", "/bin/true"];
    let program = |options: &[&str], words: &[&str]| {
        refused(&[&driver[..], options].concat(), words);
    };
    program(&["--vulkan-driver"], &["<GUEST-COMMAND>"]);
    program(&["--folder", "/", "--", "true"], &["--vulkan-driver", "--install"]);
    program(&["--debian", "13", "--", "true"], &["--install"]);
    program(&["--install", "vulkan-tools", "--debian", "12", "--", "true"], &["12", "13"]);
    program(&["--user", "root", "--", "run"], &["--broker"]);
}
