// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests in VMs together: beside each other, reset, rebooted, killed.

use crate::support::typed::Typed;
use crate::support::{self, qmp::Qmp};
use crate::support::{
    Daemon, GLOBAL_NOT_OFFERED, NOT_OFFERED, assert_every_behaviour_is_seen, succeed, text, vm,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;

/// Prefixes of behaviours that do not depend on where doorbells, fences and rings are. The two most different VMs see
/// them, and hosted guests see all behaviours under every placement.
const INDEPENDENT_OF_PLACES: [&str; 9] =
    ["context.", "fault.", "km.", "packet.", "paging.", "power.", "process.", "sched.", "tdr."];

/// Runs the conformance suite in a VM, without those behaviours.
fn selftest_of_places(options: &[&str], work: &[&str]) -> Value {
    let mut command = vm();
    command.args(options).arg("--").args(work).args(["selftest", "--json"]);
    for skipped in INDEPENDENT_OF_PLACES {
        command.args(["--skip", skipped]);
    }
    serde_json::from_str(&succeed(command.output().unwrap())).unwrap()
}

#[track_caller]
fn assert_seen(report: &Value, not_offered: &[&str]) {
    let is_skipped = |id: &str| INDEPENDENT_OF_PLACES.iter().any(|start| id.contains(start));
    let expected: Vec<_> = not_offered.iter().copied().filter(|id| !is_skipped(id)).collect();
    assert_every_behaviour_is_seen(report, &expected);
}

#[test]
fn without_a_bar_doorbells_and_fences_are_in_memory_that_the_guest_donates() {
    if !support::vms_are_here() {
        return;
    }
    let config = support::quick_configuration("", "bar = false");
    let config = config.path().to_str().unwrap();
    let mut probe = vm();
    probe.args(["--variant", "iommu", "--config", config, "--", "probe", "--json"]);
    let description: Value = serde_json::from_str(&succeed(probe.output().unwrap())).unwrap();
    assert_eq!(description["bar_size"], 0);
    assert_eq!(description["placement"]["doorbells"], "guest memory");
    for variant in ["iommu", "large-memory"] {
        let report = selftest_of_places(&["--variant", variant, "--config", config], &[]);
        assert_seen(&report, NOT_OFFERED);
    }
}

#[test]
fn a_driver_that_avoids_the_bar_submits_and_is_told_as_any_other() {
    if !support::vms_are_here() {
        return;
    }
    let config = support::quick_configuration("", "");
    let options = ["--variant", "iommu", "--config", config.path().to_str().unwrap()];
    for placement in ["around-slow-bar", "guest-memory"] {
        assert_seen(&selftest_of_places(&options, &["--placement", placement]), NOT_OFFERED);
    }
}

#[test]
fn two_vms_at_one_daemon_work_at_once() {
    if !support::vms_are_here() {
        return;
    }
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
    if !support::vms_are_here() {
        return;
    }
    let daemons = [Daemon::start(1), Daemon::start(1)];
    let mut command = vm();
    command.args(["--variant", "two-devices"]);
    for daemon in &daemons {
        command.arg("--socket-path").arg(daemon.socket(0));
    }
    let work = ["--", "--all-devices", "run", "--samples", "500", "--json"];
    let said = succeed(command.args(work).output().unwrap());
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
    if !support::vms_are_here() {
        return;
    }
    for variant in ["plain", "iommu", "new-kernel-iommu"] {
        let work = ["--variant", variant, "--", "churn", "--resets", "10"];
        assert!(succeed(vm().args(work).output().unwrap()).contains("working"), "{variant}");
    }
}

#[test]
fn a_guest_that_reboots_ten_times_with_everything_in_use_starts_again() {
    if !support::vms_are_here() {
        return;
    }
    let mut vm = Typed::start(&["--variant", "iommu", "--interactive", "--reboot"]);
    for _ in 0..10 {
        vm.wait_for_shell();
        vm.write("bellhop-guest churn &\n");
        vm.wait_for("working");
        vm.write("reboot -f\n");
    }
    vm.wait_for_shell();
    vm.write("bellhop-guest selftest um. && echo all is $((40 + 2)); exit 0\n");
    vm.wait_for("all is 42");
    assert!(vm.wait().success());
}

#[test]
fn a_vm_that_is_killed_in_the_middle_of_work_leaves_nothing_with_the_daemon() {
    if !support::vms_are_here() {
        return;
    }
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
    let output =
        vm().args(work).arg(daemon.socket(0)).args(["--", "selftest", "um."]).output().unwrap();
    succeed(output);
}

/// Memory modules that are plugged into a running VM: its kernel uses the first and gives the driver pages of it; the
/// driver alone uses the second; the third is plugged in and the second pulled out in the middle of the GPU's work.
#[test]
fn memory_that_is_plugged_into_a_vm_is_used_and_faults_those_who_use_it_when_it_goes() {
    if !support::vms_are_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("qmp.sock");
    let qmp = ["--qmp", socket.to_str().unwrap()];
    let mut vm =
        Typed::start(&[&["--variant", "memory-slots", "--interactive"], &qmp[..]].concat());
    vm.wait_for_shell();
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
    vm.write(&work(&used, "&& bellhop-guest selftest um. && echo all is $((40 + 2)); exit 0\n"));
    vm.wait_for("all is 42");
    assert!(vm.wait().success());
}

/// The physical doorbell and a dummy page in turn, by stock QEMU, over ten resets of the device.
#[test]
fn a_vm_with_moved_doorbell_pages_submits_over_ten_resets() {
    if !support::vms_are_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("bellhopd.toml");
    let four = "[adapter]\nrotation = \"remap\"\nphysical_doorbells = 1\n[guest]\ndoorbells = 4\n";
    std::fs::write(&config, four).unwrap();
    let config = config.to_str().unwrap();
    let mut vm = Typed::start(&["--variant", "iommu", "--config", config, "--interactive"]);
    vm.wait_for_shell();
    vm.write("for i in 1 2 3 4 5 6 7 8 9 10; do ");
    vm.write("bellhop-guest --placement bar selftest doorbell.victim || exit 9; done; ");
    vm.write(
        "bellhop-guest --placement bar selftest um.submit && echo all is $((40 + 2)); exit 0\n",
    );
    vm.wait_for("all is 42");
    assert!(vm.wait().success());
}

#[test]
fn a_vm_with_a_global_doorbell_submits_and_is_told_as_any_other() {
    if !support::vms_are_here() {
        return;
    }
    let config = support::quick_configuration("doorbell_model = \"global\"", "");
    let options = ["--variant", "iommu", "--config", config.path().to_str().unwrap()];
    assert_seen(&selftest_of_places(&options, &[]), GLOBAL_NOT_OFFERED);
}

/// A program that is killed in the guest: the kernel may give its pages to others, so the device must be stopped
/// first.
#[test]
fn a_program_that_is_killed_in_its_guest_leaves_the_device_to_the_next() {
    if !support::vms_are_here() {
        return;
    }
    for variant in ["plain", "iommu"] {
        let mut vm = Typed::start(&["--variant", variant, "--interactive"]);
        vm.wait_for_shell();
        for _ in 0..3 {
            vm.write("bellhop-guest churn &\n");
            vm.wait_for("working");
            vm.write("kill -9 $!; wait\n");
        }
        vm.write("bellhop-guest selftest um. && echo all is $((40 + 2)); exit 0\n");
        vm.wait_for("all is 42");
        assert!(vm.wait().success());
    }
}

/// Accesses to the device that QEMU emulated, by region, while the main job ran.
fn accesses(folder: &Path, samples: &str) -> BTreeMap<String, String> {
    let trace = folder.join(samples);
    let output = vm()
        .args(["--variant", "iommu", "--accel", "tcg", "--trace-mmio"])
        .arg(&trace)
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
    if !support::vms_are_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(accesses(folder.path(), "100000"), accesses(folder.path(), "100"));
}
