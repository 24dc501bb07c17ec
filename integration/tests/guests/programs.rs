// SPDX-License-Identifier: MIT OR Apache-2.0

//! The conformance suite of programs that share a guest's device, as an administrator of the guest runs it.

use crate::support::brokers::Brokered;
use crate::support::programs::{NOT_OFFERED, assert_every_behaviour_is_seen};
use crate::support::{
    DISPLAYS, Daemon, LINK, bellhop, conformance, outcomes, quick, report, run, text,
};

/// Nodes whose sessions the suite creates.
const VIDEO_NODES: &str = "video_decode_nodes = 1\nvideo_encode_nodes = 1\n";

const SUITE: [&str; 3] = ["selftest", "--programs", "--json"];

/// All programs are of users without privileges.
#[test]
fn every_behaviour_is_seen_through_a_broker_that_runs_already() {
    let daemon = Daemon::start(1);
    let before = daemon.resources();
    let brokered = Brokered::start(&daemon, 0, &[]);
    let seen = conformance(&mut brokered.work(&SUITE));
    assert_every_behaviour_is_seen(&seen, NOT_OFFERED);
    let listed = report(bellhop().args(["selftest", "--programs", "--list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), seen["checks"].as_array().unwrap().len());
    drop(brokered);
    daemon.await_log("front end disconnected");
    daemon.await_resources(before);
}

/// The suite starts a broker of its own where none is named.
#[test]
fn every_behaviour_of_video_and_chains_is_seen() {
    let configuration = format!("{}{DISPLAYS}{LINK}", quick(VIDEO_NODES, ""));
    let daemon = Daemon::start_with(1, &configuration);
    let seen = conformance(&mut daemon.work(&SUITE));
    assert_every_behaviour_is_seen(&seen, &["program.kernel.apart"]);
}

#[test]
fn a_program_s_kernels_are_its_own() {
    let Some(daemon) = Daemon::start_with_kernels(1, "[adapter]\ntimeout = \"10s\"\n") else {
        return;
    };
    let work = ["selftest", "--programs", "--json", "program.kernel."];
    let seen = conformance(&mut daemon.work(&work));
    assert_eq!(outcomes(&seen, "passed").count(), 1, "{seen}");
}

/// As people run it: a bellhopd, a guest, a broker and its programs.
#[test]
fn one_command_starts_everything() {
    let printed = run(bellhop().args(["selftest", "--programs", "program.shared-fence."]));
    assert!(printed.contains("passed    program.shared-fence.gpu"), "{printed}");
    let listed = run(bellhop().args(["selftest", "--programs", "--list", "program.end."]));
    assert!(listed.starts_with("program.end.killed\n"), "{listed}");
    let unknown = bellhop().args(["selftest", "--programs", "no.such.thing"]).output().unwrap();
    assert!(!unknown.status.success() && text(&unknown.stderr).contains("--list"));
}
