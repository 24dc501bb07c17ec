// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bellhop run`, the main job, as a person runs it.

use crate::support::{Daemon, bellhop, report, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {report}"))
}

#[test]
fn every_byte_is_verified_and_doorbells_far_outnumber_control_messages() {
    let report = report(bellhop().args(["run", "--json"]));
    assert_eq!(report["verified"], true);
    let executable = std::fs::metadata(env!("CARGO_BIN_EXE_bellhop")).unwrap().len();
    assert_eq!(number(&report, "bytes"), executable);
    assert!(number(&report, "submissions") > 20_000);
    // Set-up takes some requests, and waiting at most one for each chunk; the rest are for rings that found the doorbell
    // disconnected. A submission itself sends none, and a ring that found an engine asleep kicks it.
    let others = number(&report, "control_messages") - number(&report, "connects");
    assert!(others < 300 + number(&report, "chunks"), "{report}");
    assert!(number(&report, "doorbells") >= number(&report, "submissions"));
    for key in ["notifies", "interrupts", "engine_wakeups"] {
        number(&report, key);
    }
    let latency = &report["submit_to_fence_ns"];
    let percentiles: Vec<_> =
        ["p50", "p90", "p99", "p99_9", "max"].iter().map(|key| number(latency, key)).collect();
    assert!(percentiles[0] > 0 && percentiles.is_sorted(), "{percentiles:?}");
}

#[test]
fn an_input_larger_than_local_memory_streams_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("bellhopd.toml");
    std::fs::write(&config, "[guest]\nlocal_memory = \"4MiB\"\n").unwrap();
    let input = folder.path().join("input");
    // An odd length, and no two equal chunks.
    let bytes: Vec<u8> = (0..(9 << 20) + 12_345u32).flat_map(|i| [(i / 97) as u8]).collect();
    std::fs::write(&input, &bytes).unwrap();
    let report = report(
        bellhop()
            .args(["run", "--json", "--samples", "10", "--chunk", "128", "--input"])
            .arg(&input)
            .arg("--config")
            .arg(&config),
    );
    assert_eq!(report["verified"], true);
    assert_eq!(number(&report, "bytes"), bytes.len() as u64);
}

#[test]
fn an_empty_input_is_verified_too() {
    let report = report(bellhop().args(["--json", "--samples", "10", "--input", "/dev/null"]));
    assert_eq!(report["verified"], true);
    assert_eq!(number(&report, "bytes"), 0);
}

#[test]
fn it_works_against_a_daemon_that_runs_already_time_after_time() {
    let daemon = Daemon::start(1);
    for _ in 0..3 {
        let report = report(&mut daemon.work(&["run", "--json", "--samples", "100"]));
        assert_eq!(report["verified"], true);
    }
}

#[test]
fn an_input_that_is_not_there_is_named_in_one_line() {
    let output = bellhop().args(["run", "--input", "/nonexistent/file"]).output().unwrap();
    assert!(!output.status.success());
    let errors = text(&output.stderr);
    assert!(errors.contains("/nonexistent/file"), "{errors}");
    assert_eq!(errors.trim_end().lines().count(), 1, "{errors}");
}

/// The child processes of `pid`.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// A running job that would take hours, and its two processes.
fn endless_job(temporary: &Path) -> (std::process::Child, Vec<u32>) {
    let mut child = bellhop()
        .args(["run", "--samples", "10000000", "--input", "/dev/zero"])
        .env("TMPDIR", temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first progress output comes from the guest, when both processes run.
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    progress.read_exact(&mut [0; 1]).unwrap();
    std::thread::spawn(move || progress.lines().map_while(Result::ok).for_each(drop));
    let children = children(child.id());
    assert_eq!(children.len(), 2, "daemon and guest");
    (child, children)
}

fn assert_all_gone(children: &[u32]) {
    for pid in children {
        // An orphan may still be a zombie until its new parent reaps it.
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}

#[test]
fn interrupting_it_ends_all_three_processes_and_leaves_no_socket() {
    let temporary = tempfile::tempdir().unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (mut child, children) = endless_job(temporary.path());
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_all_gone(&children);
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
    }
}
