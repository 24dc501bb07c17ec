//! The conformance suite, as a driver author runs it.

mod support;

use serde_json::Value;
use support::{Daemon, bellhop};

#[test]
fn every_behaviour_is_seen() {
    let output = bellhop().args(["selftest", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let failed: Vec<_> = checks.iter().filter(|check| check["outcome"] != "passed").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(output.status.success());
    let listed = bellhop().args(["selftest", "--list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), checks.len());
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
        daemon.await_log("front end gone");
        daemon.await_resources(before);
    }
}

#[test]
fn a_filter_that_selects_nothing_is_an_error() {
    let output = bellhop().args(["selftest", "no.such.thing"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("--list"));
}
