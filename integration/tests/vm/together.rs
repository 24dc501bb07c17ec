// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests in VMs together: beside each other, reset, rebooted, killed.

use crate::support::typed::Typed;
use crate::support::{self, qmp::Qmp};
use crate::support::{
    Daemon, GLOBAL_NOT_OFFERED, NOT_OFFERED, assert_every_behaviour_is_seen, conformance, report,
    run, succeed, text, vms,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Command, Stdio};

/// Prefixes of behaviours that do not depend on where doorbells, fences and rings are. The two most different VMs see
/// them, and hosted guests see all behaviours under every placement.
const INDEPENDENT_OF_PLACES: [&str; 9] =
    ["context.", "fault.", "km.", "packet.", "paging.", "power.", "process.", "sched.", "tdr."];

/// Runs the conformance suite in this VM, without those behaviours, and asserts that all others are seen that are
/// offered.
#[track_caller]
fn assert_seen(vm: &mut Command, work: &[&str], not_offered: &[&str]) {
    vm.arg("--").args(work).args(["selftest", "--json"]);
    vm.args(INDEPENDENT_OF_PLACES.iter().flat_map(|skipped| ["--skip", skipped]));
    let is_skipped = |id: &str| INDEPENDENT_OF_PLACES.iter().any(|start| id.contains(start));
    let expected: Vec<_> = not_offered.iter().copied().filter(|id| !is_skipped(id)).collect();
    assert_every_behaviour_is_seen(&conformance(vm), &expected);
}

#[test]
fn without_a_bar_doorbells_and_fences_are_in_memory_that_the_guest_donates() {
    let Some(vm) = vms() else { return };
    let config = support::quick_configuration("", "bar = false");
    let config = config.path().to_str().unwrap();
    let probe = ["--variant", "iommu", "--config", config, "--", "probe", "--json"];
    let description = report(vm().args(probe));
    assert_eq!(description["bar_size"], 0);
    assert_eq!(description["placement"]["doorbells"], "guest memory");
    for variant in ["iommu", "large-memory"] {
        assert_seen(vm().args(["--variant", variant, "--config", config]), &[], NOT_OFFERED);
    }
}

#[test]
fn a_driver_that_avoids_the_bar_submits_and_is_told_as_any_other() {
    let Some(vm) = vms() else { return };
    let config = support::quick_configuration("", "");
    let options = ["--variant", "iommu", "--config", config.path().to_str().unwrap()];
    for placement in ["around-slow-bar", "guest-memory"] {
        assert_seen(vm().args(options), &["--placement", placement], NOT_OFFERED);
    }
}

#[test]
fn two_vms_at_one_daemon_work_at_once() {
    let Some(vm) = vms() else { return };
    let daemon = Daemon::start(2);
    let start = |number: usize, variant: &str| {
        vm().args(["--variant", variant, "--socket-path"])
            .arg(daemon.socket(number))
            .args(["--", "run", "--samples", "2000", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let vms = [start(0, "iommu"), start(1, "plain")];
    for vm in vms {
        let report: Value = serde_json::from_str(&succeed(vm.wait_with_output().unwrap())).unwrap();
        assert_eq!(report["verified"], true);
    }
}

#[test]
fn two_daemons_in_one_vm_work_together() {
    let Some(vm) = vms() else { return };
    let daemons = [Daemon::start(1), Daemon::start(1)];
    let mut command = vm();
    command.args(["--variant", "two-devices"]);
    for daemon in &daemons {
        command.arg("--socket-path").arg(daemon.socket(0));
    }
    let work = ["--", "--all-devices", "run", "--samples", "500", "--json"];
    let said = run(command.args(work));
    let reports: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(|report| report["verified"] == true));
    for daemon in &daemons {
        daemon.await_log("guest attached");
    }
}

#[test]
fn a_device_that_is_reset_ten_times_with_everything_in_use_keeps_working() {
    let Some(vm) = vms() else { return };
    for variant in ["plain", "iommu", "new-kernel-iommu"] {
        let work = ["--variant", variant, "--", "churn", "--resets", "10"];
        assert!(run(vm().args(work)).contains("working"), "{variant}");
    }
}

#[test]
fn a_guest_that_reboots_ten_times_with_everything_in_use_starts_again() {
    let Some(vm) = vms() else { return };
    let mut vm = Typed::start(vm().args(["--variant", "iommu", "--reboot"]));
    for _ in 0..10 {
        vm.write("bellhop-guest churn &\n");
        vm.wait_for("working");
        vm.write("reboot -f\n");
        vm.wait_for_shell();
    }
    vm.end_with("bellhop-guest selftest um.");
}

#[test]
fn a_vm_that_is_killed_in_the_middle_of_work_leaves_nothing_with_the_daemon() {
    let Some(vm) = vms() else { return };
    let daemon = Daemon::start(1);
    let before = daemon.resources();
    for _ in 0..2 {
        let mut killed = vm()
            .args(["--variant", "iommu", "--socket-path"])
            .arg(daemon.socket(0))
            .args(["--", "churn"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line.trim() == "working"));
        // QEMU ends with it.
        killed.kill().unwrap();
        killed.wait().unwrap();
        daemon.await_log("front end disconnected");
        daemon.await_resources(before);
    }
    let work = ["--variant", "iommu", "--socket-path"];
    run(vm().args(work).arg(daemon.socket(0)).args(["--", "selftest", "um."]));
}

/// Memory modules that are plugged into a running VM: its kernel uses the first and gives the driver pages of it; the
/// driver alone uses the second; the third is plugged in and the second pulled out in the middle of the GPU's work.
#[test]
fn memory_that_is_plugged_into_a_vm_is_used_and_faults_those_who_use_it_when_it_goes() {
    let Some(vm) = vms() else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("qmp.sock");
    let mut vm = Typed::start(vm().args(["--variant", "memory-slots", "--qmp"]).arg(&socket));
    let mut qmp = Qmp::connect(&socket);
    let work = |memory: &Range<u64>, more: &str| {
        let (address, size) = (memory.start, memory.end - memory.start);
        format!("bellhop-guest hotplug --address {address} --size {size} {more}")
    };
    let used = qmp.plug_memory("used", 128);
    vm.write("cd /sys/devices/system/memory; grep -l offline memory*/state | ");
    vm.write("while read state; do echo online_kernel > $state; done\n");
    vm.write(&work(&used, "\n"));
    vm.wait_for("KiB of it");
    for _ in 0..2 {
        let driven = qmp.plug_memory("driven", 128);
        vm.write(&work(&driven, "--until-unplugged &\n"));
        vm.wait_for("working");
        qmp.plug_memory("beside", 128);
        qmp.unplug_memory("driven");
        vm.wait_for("nothing else");
        qmp.unplug_memory("beside");
        vm.write("wait\n");
    }
    vm.end_with(&work(&used, "&& bellhop-guest selftest um."));
}

/// The physical doorbell and a dummy page in turn, by stock QEMU, over ten resets of the device.
#[test]
fn a_vm_with_moved_doorbell_pages_submits_over_ten_resets() {
    let Some(vm) = vms() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("bellhopd.toml");
    let four = "[adapter]\nrotation = \"remap\"\nphysical_doorbells = 1\n[guest]\ndoorbells = 4\n";
    std::fs::write(&config, four).unwrap();
    let config = config.to_str().unwrap();
    let mut vm = Typed::start(vm().args(["--variant", "iommu", "--config", config]));
    vm.write("for i in 1 2 3 4 5 6 7 8 9 10; do ");
    vm.write("bellhop-guest --placement bar selftest doorbell.victim || exit 9; done; ");
    vm.end_with("bellhop-guest --placement bar selftest um.submit");
}

#[test]
fn a_vm_with_a_global_doorbell_submits_and_is_told_as_any_other() {
    let Some(vm) = vms() else { return };
    let config = support::quick_configuration("doorbell_model = \"global\"", "");
    let options = ["--variant", "iommu", "--config", config.path().to_str().unwrap()];
    assert_seen(vm().args(options), &[], GLOBAL_NOT_OFFERED);
}

/// A program that is killed in the guest: the kernel may give its pages to others, so the device must be stopped
/// first.
#[test]
fn a_program_that_is_killed_in_its_guest_leaves_the_device_to_the_next() {
    let Some(vm) = vms() else { return };
    for variant in ["plain", "iommu"] {
        let mut vm = Typed::start(vm().args(["--variant", variant]));
        for _ in 0..3 {
            vm.write("bellhop-guest churn &\n");
            vm.wait_for("working");
            vm.write("kill -9 $!; wait\n");
        }
        vm.end_with("bellhop-guest selftest um.");
    }
}

/// Accesses to the device that QEMU emulated, by region, while the main job ran in this VM.
fn accesses(vm: &mut Command, samples: &str) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let output = vm
        .args(["--accel", "tcg", "--trace-mmio"])
        .arg(folder.path().join("trace"))
        .args(["--", "run", "--samples", samples, "--json"])
        .output()
        .unwrap();
    let summary = text(&output.stderr);
    let report: Value = serde_json::from_str(&succeed(output)).unwrap();
    assert_eq!(report["verified"], true);
    assert!(report["submissions"].as_u64().unwrap() > samples.parse().unwrap());
    let counted = summary.lines().filter(|line| line.contains(" reads "));
    let counted: BTreeMap<_, _> = counted
        .map(|line| {
            let (region, counts) = line.trim().split_once(' ').unwrap();
            (region.to_owned(), counts.trim().to_owned())
        })
        .collect();
    assert!(!counted.is_empty(), "{summary}");
    counted
}

#[test]
fn a_hundred_thousand_submissions_trap_as_often_as_a_hundred() {
    let Some(vm) = vms() else { return };
    let accesses = |samples| accesses(vm().args(["--variant", "iommu"]), samples);
    assert_eq!(accesses("100000"), accesses("100"));
}

#[test]
fn no_access_to_shared_memory_stops_the_guest() {
    let Some(vm) = vms() else { return };
    let accesses = accesses(&mut vm(), "1000");
    let regions = accesses.keys().map(|region| region.split("-virtio").next().unwrap());
    // Set-up and interrupts only. Shared memory would be a region of its own.
    let registers = ["virtio-pci-common", "virtio-pci-device", "virtio-pci-isr"];
    assert_eq!(regions.collect::<Vec<_>>(), registers);
}
