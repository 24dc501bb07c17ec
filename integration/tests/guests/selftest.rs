// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conformance suite, as a driver author runs it.

use crate::support::{DEFAULT_NOT_OFFERED, Daemon, assert_every_behaviour_is_seen, bellhop};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn every_behaviour_is_seen() {
    let output = bellhop().args(["selftest", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_every_behaviour_is_seen(&report, DEFAULT_NOT_OFFERED);
    let checks = report["checks"].as_array().unwrap();
    assert!(output.status.success());
    let listed = bellhop().args(["selftest", "--list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), checks.len());
}

/// Behaviours that a default configuration does not offer.
#[test]
fn every_behaviour_is_seen_with_a_node_for_kernel_mode_alone_and_short_times() {
    let configuration = "[adapter]\nkernel_mode_copy_nodes = 1\nengine_idle = \"20ms\"\n\
                         device_idle = \"50ms\"\ntimeout = \"1s\"\nhang_limit = 0\n\
                         optimized_fence_interrupt = true\n\
                         [guest]\ngpu_timeout_may_be_disabled = true\n\
                         [debug]\ntest_kernels = true\npower_control = true\n\
                         [fence_sharing]\nalone = [\"gpu0.sock\"]\n";
    let daemon = Daemon::start_with(1, configuration);
    let command = ["selftest", "--json", "--socket-path"];
    let output = bellhop().args(command).arg(daemon.socket(0)).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // This configuration allows what the behaviour expects to be refused.
    assert_every_behaviour_is_seen(&report, &["tdr.disabled.refused"]);
}

#[test]
fn every_behaviour_is_seen_with_several_compute_nodes() {
    let daemon =
        Daemon::start_with(1, "[adapter]\ncompute_nodes = 3\n[debug]\npower_control = true\n");
    let command = ["selftest", "--json", "--socket-path"];
    let output = bellhop().args(command).arg(daemon.socket(0)).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_every_behaviour_is_seen(&report, DEFAULT_NOT_OFFERED);
    let nodes = daemon.snapshot().nodes;
    let shown: Vec<_> =
        nodes.iter().map(|node| (node.ordinal, &*node.engine_type, &*node.name)).collect();
    let compute = ["3D", "3D1", "3D2"].map(|name| ("THREE_D", name));
    let copy = ["SDMA0", "SDMA1"].map(|name| ("COPY", name));
    let all = compute.into_iter().chain(copy);
    assert_eq!(shown, (0..).zip(all).map(|(n, (kind, name))| (n, kind, name)).collect::<Vec<_>>());
}

#[test]
fn a_guest_that_may_not_change_power_is_not_offered_it() {
    let daemon = Daemon::start(1);
    let command = ["selftest", "power.", "--json", "--socket-path"];
    let output = bellhop().args(command).arg(daemon.socket(0)).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let outcome_of = |id: &str| checks.iter().find(|c| c["id"] == id).unwrap()["outcome"].clone();
    assert_eq!(outcome_of("power.device.d3"), "not-offered");
    assert_eq!(outcome_of("power.engine.hung"), "passed");
}

/// Without native fences every offered behaviour works, and the others are reported as not offered.
#[test]
fn without_native_fences_there_is_kernel_mode_submission_with_monitored_ones() {
    let daemon = Daemon::start_with(1, "[adapter]\nnative_fences = false\n");
    let command = ["selftest", "--json", "--socket-path"];
    let output = bellhop().args(command).arg(daemon.socket(0)).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let outcomes = |outcome: &str| -> Vec<_> {
        checks.iter().filter(|check| check["outcome"] == outcome).collect()
    };
    assert_eq!(outcomes("failed"), Vec::<&Value>::new());
    let passed: Vec<_> = outcomes("passed").into_iter().map(|check| &check["id"]).collect();
    for id in [
        "adapter.nodes.metadata",
        "fence.caps",
        "fence.monitored.cpu",
        "fence.monitored.held",
        "fence.monitored.signal",
        "fence.monitored.queues",
        "fence.monitored.models",
        "fence.monitored.deadlock",
        "fence.progress.kinds",
        "fence.progress.monitored",
        "km.basic.submit",
        "km.basic-plus-plus.submit",
        "km.virtual.submit",
        "km.suspended",
    ] {
        assert!(passed.iter().any(|passed| *passed == id), "{id} is not among {passed:?}");
    }
}

#[test]
fn it_runs_against_a_daemon_that_runs_already_and_leaves_nothing_behind() {
    let daemon = Daemon::start(1);
    let run = |filter: &str| {
        let output = bellhop()
            .args(["selftest", filter, "--socket-path"])
            .arg(daemon.socket(0))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    };
    let before = daemon.resources();
    for filter in ["um.", "fault.", "doorbell."] {
        let printed = run(filter);
        assert!(printed.contains("passed") && printed.contains(filter));
        daemon.await_log("front end disconnected");
        daemon.await_resources(before);
    }
}

#[test]
fn a_filter_that_selects_nothing_is_an_error() {
    let output = bellhop().args(["selftest", "no.such.thing"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("--list"));
}

/// Without a device no behaviour can be tried, and no queue is at fault.
#[test]
fn a_suite_and_a_job_that_lose_their_device_stop_and_say_so() {
    for work in [&["selftest"][..], &["run", "--samples", "10000000"]] {
        let mut daemon = Daemon::start(1);
        let mut command = bellhop();
        command.args(work).arg("--socket-path").arg(daemon.socket(0));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        match work[0] {
            "selftest" => assert!(said.next().unwrap().unwrap().starts_with("passed")),
            _ => drop(daemon.await_log("guest attached")),
        }
        daemon.signal(Signal::KILL);
        daemon.wait();
        let failed = said.map(Result::unwrap).filter(|line| line.starts_with("FAILED")).count();
        assert!(failed <= 1, "{failed} behaviours failed");
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{errors}");
        assert!(errors.contains("the device is gone"), "{errors}");
        assert!(!errors.contains("create another"), "{errors}");
    }
}
