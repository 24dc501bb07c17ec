// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conformance suite, as a driver author runs it.

use crate::support::{
    DEFAULT_NOT_OFFERED, DISPLAYS, Daemon, assert_every_behaviour_is_seen, bellhop, conformance,
    outcomes, report, run, text,
};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn every_behaviour_is_seen() {
    let seen = conformance(bellhop().args(["selftest", "--json"]));
    assert_every_behaviour_is_seen(&seen, DEFAULT_NOT_OFFERED);
    let listed = report(bellhop().args(["selftest", "--list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), seen["checks"].as_array().unwrap().len());
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
    let report = Daemon::start_with(1, configuration).selftest(&[]);
    // This configuration allows what the behaviour expects to be refused.
    assert_every_behaviour_is_seen(&report, &["tdr.disabled.refused"]);
}

#[test]
fn every_behaviour_is_seen_with_several_nodes_of_each_type() {
    let daemon = Daemon::start_with(
        1,
        "[adapter]\ngraphics_nodes = 3\ncompute_nodes = 2\n[debug]\npower_control = true\n",
    );
    assert_every_behaviour_is_seen(&daemon.selftest(&[]), DEFAULT_NOT_OFFERED);
    let nodes = daemon.snapshot().nodes;
    let shown: Vec<_> =
        nodes.iter().map(|node| (node.ordinal, &*node.engine_type, &*node.name)).collect();
    let graphics = ["3D", "3D1", "3D2"].map(|name| ("THREE_D", name));
    let copy = ["SDMA0", "SDMA1"].map(|name| ("COPY", name));
    let compute = ["Compute0", "Compute1"].map(|name| ("COMPUTE", name));
    let all = graphics.into_iter().chain(copy).chain(compute);
    assert_eq!(shown, (0..).zip(all).map(|(n, (kind, name))| (n, kind, name)).collect::<Vec<_>>());
}

#[test]
fn every_behaviour_of_a_guest_s_own_kernels_is_seen() {
    // On a machine that is busy with other things, a kernel of milliseconds has taken two seconds.
    let patient = "[adapter]\ntimeout = \"10s\"\n";
    let Some(daemon) = Daemon::start_with_kernels(1, patient) else { return };
    let seen = daemon.selftest(&["kernel."]);
    assert_every_behaviour_is_seen(&seen, &[]);
    assert_eq!(outcomes(&seen, "passed").count(), seen["checks"].as_array().unwrap().len());
}

#[test]
fn every_behaviour_of_a_display_is_seen() {
    let daemon = Daemon::start_with(1, &format!("{DISPLAYS}[debug]\npower_control = true\n"));
    let before = daemon.resources();
    for area in ["display.", "screen."] {
        let seen = daemon.selftest(&[area]);
        assert_every_behaviour_is_seen(&seen, &[]);
        assert_eq!(outcomes(&seen, "passed").count(), seen["checks"].as_array().unwrap().len());
    }
    daemon.await_log("front end disconnected");
    daemon.await_resources(before);
}

/// Each way to show frames ends all of them, and a mode that the monitor does not have is refused with those that it has.
#[test]
fn an_animation_tells_what_became_of_its_frames() {
    let daemon = Daemon::start_with(1, DISPLAYS);
    for sync in ["vsync", "immediate", "mailbox"] {
        let sync = format!("--sync={sync}");
        let line = ["present", "--frames=60", "--mode=640x480@240", &sync, "--json"];
        let report = report(&mut daemon.work(&line));
        let of = |name: &str| report[name].as_u64().unwrap();
        assert_eq!((of("presented"), of("lost")), (60, 0), "{report}");
        assert_eq!(of("shown") + of("dropped"), 60, "{report}");
        assert!(sync.contains("mailbox") || of("dropped") == 0, "{report}");
    }
    let output = daemon.work(&["present", "--mode=1024x768"]).output().unwrap();
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("it has 1280x720@60.00, 640x480@240.00"), "{said}");
    let without = Daemon::start(1);
    let output = without.work(&["present"]).output().unwrap();
    assert!(text(&output.stderr).contains("this guest has no display"));
}

#[test]
fn a_guest_that_may_not_change_power_is_not_offered_it() {
    let report = Daemon::start(1).selftest(&["power."]);
    let is = |outcome: &str, id: &str| outcomes(&report, outcome).any(|check| check["id"] == id);
    assert!(is("not-offered", "power.device.d3") && is("passed", "power.engine.hung"), "{report}");
}

/// Without native fences every offered behaviour works, and the others are reported as not offered.
#[test]
fn without_native_fences_there_is_kernel_mode_submission_with_monitored_ones() {
    let daemon = Daemon::start_with(1, "[adapter]\nnative_fences = false\n");
    let report = daemon.selftest(&[]);
    assert_eq!(outcomes(&report, "failed").next(), None);
    let passed: Vec<_> = outcomes(&report, "passed").map(|check| &check["id"]).collect();
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
    let before = daemon.resources();
    for filter in ["um.", "fault.", "doorbell."] {
        let printed = run(&mut daemon.work(&["selftest", filter]));
        assert!(printed.contains("passed") && printed.contains(filter));
        daemon.await_log("front end disconnected");
        daemon.await_resources(before);
    }
}

#[test]
fn a_filter_that_selects_nothing_is_an_error() {
    let output = bellhop().args(["selftest", "no.such.thing"]).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--list"));
}

/// Without a device no behaviour can be tried, and no queue is at fault.
#[test]
fn a_suite_and_a_job_that_lose_their_device_stop_and_say_so() {
    for work in [&["selftest"][..], &["run", "--samples", "10000000"]] {
        let mut daemon = Daemon::start(1);
        let mut command = daemon.work(work);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        match work[0] {
            "selftest" => assert!(said.next().unwrap().unwrap().starts_with("passed")),
            _ => drop(daemon.await_log("guest attached")),
        }
        daemon.kill();
        let failed = said.map(Result::unwrap).filter(|line| line.starts_with("FAILED")).count();
        assert!(failed <= 1, "{failed} behaviours failed");
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{errors}");
        assert!(errors.contains("the device is gone"), "{errors}");
        assert!(!errors.contains("create another"), "{errors}");
    }
}
