// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop vm --vmm cloud-hypervisor`: a guest without interrupts and without a BAR, in the VMM itself.
//!
//! cloud-hypervisor runs on the KVM of a VM that QEMU emulates, so that it runs anywhere. Booting the two nested VMs
//! takes a minute or more, so one test does everything in them.

use crate::support::{self, run, text, vm, vms};
use bellhop_integration::guest_binary;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::NamedTempFile;

const VARIABLE: &str = "BELLHOP_CLOUD_HYPERVISOR";

/// The program: the one that the variable names or that is installed, else one beside the checkout.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&folders).map(|folder| folder.join("cloud-hypervisor"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = root.join("shared/vmm/cloud-hypervisor");
    named.into_iter().chain(installed).chain([beside]).find(|path| path.is_file())
}

/// A program for the guest that runs `bellhop-guest` as a script says.
fn scripted(script: &str) -> NamedTempFile {
    let guest = std::fs::read(guest_binary::find(None).unwrap()).unwrap();
    // The program follows the script.
    let head = |length: usize| {
        format!(
            "#!/bin/sh\ntail -c +{} \"$0\" > /tmp/guest\nchmod +x /tmp/guest\n{script}\nexit\n",
            length + 1
        )
    };
    // The script's length, including the digits of that length.
    let length = (0..1 << 20).find(|length| head(*length).len() == *length).unwrap();
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(head(length).as_bytes()).unwrap();
    file.write_all(&guest).unwrap();
    file.as_file().set_permissions(PermissionsExt::from_mode(0o755)).unwrap();
    file
}

#[test]
fn a_guest_of_cloud_hypervisor_does_the_main_job_without_an_interrupt() {
    let Some(vm) = vms() else { return };
    let Some(program) = program() else {
        let why = format!("there is no cloud-hypervisor in PATH, and {VARIABLE} names none");
        let how =
            format!("put it into PATH, or its path into {VARIABLE}; docs/vmm.md has where from");
        support::skip(&why, "no guest of it is run", &how);
        return;
    };
    // Thousands of waits are 16,000 requests, one after another. Each enters two hypervisors, of which one is
    // emulated: up to 30 ms. Other VMs try it.
    let guest = scripted(
        "set -e\n/tmp/guest probe\n/tmp/guest run --samples 200\n\
         /tmp/guest selftest doorbell.status\n/tmp/guest selftest --skip thousands fence.wait\n\
         echo this is told of >&2\nexit 42",
    );
    let mut command = vm();
    command.env(VARIABLE, program).args(["--vmm", "cloud-hypervisor", "--nested"]);
    command.args(["--timeout", "600"]);
    command.arg("--guest-binary").arg(guest.path().canonicalize().unwrap());
    let output = command.output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(42), "{said}\n{errors}");
    assert!(said.contains("without interrupts"), "{said}");
    assert!(said.contains("0 failed") && !said.contains("FAILED"), "{said}");
    assert!(errors.contains("this is told of"), "{errors}");
}

/// The command says what this machine lacks.
#[test]
fn what_is_missing_is_said_and_what_is_qemu_s_is_refused() {
    let refused = |vm: &mut Command, words: &[&str]| {
        let output = vm.args(["--guest-binary", "/bin/true"]).output().unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    let it = ["--vmm", "cloud-hypervisor"];
    let nowhere = "/no/such/folder";
    refused(vm().env("PATH", nowhere).env_remove(VARIABLE).args(it), &["not in PATH", VARIABLE]);
    refused(vm().env(VARIABLE, "/no/such/program").args(it), &["/no/such/program"]);
    refused(vm().args(it).args(["--variant", "iommu"]), &["--variant is for --vmm qemu"]);
    refused(vm().args(it).arg("--agent"), &["--agent is for --vmm qemu"]);
    refused(vm().arg("--nested"), &["--vmm cloud-hypervisor"]);
    assert!(run(vm().arg("--help")).contains("cloud-hypervisor"));
}
