// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command's output: on a terminal of 80 columns, on a closed one, on a full disk.

#[path = "../../../device/tests/gpu/support/one_processor.rs"]
mod one_processor;

use crate::support::{Daemon, bellhop, client, report, run, text, words};
use one_processor::stay_on_one_processor;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

/// Columns of a terminal.
const WIDTH: usize = 80;

#[track_caller]
fn assert_fits(shown: &str) {
    let wide: Vec<_> = shown.lines().filter(|line| line.chars().count() > WIDTH).collect();
    assert!(wide.is_empty() && !shown.is_empty(), "{wide:#?}");
}

#[test]
fn what_the_commands_print_fits_a_terminal() {
    for arguments in [
        &["run", "--samples", "100", "--input", "/dev/null"][..],
        &["selftest", "doorbell."],
        &["selftest", "--list"],
        &["harness", "--quiet", "--example", "bad-packet-neighbour-unharmed"],
        &["harness", "--list"],
        &["bench", "round-trip", "fence", "--samples", "200", "--repetitions", "2"],
    ] {
        assert_fits(&run(bellhop().args(arguments)));
    }
}

#[test]
fn what_a_daemon_with_a_busy_guest_has_fits_a_terminal() {
    let daemon = Daemon::start(1);
    let mut client = client(&daemon, 0);
    let _queues = [0; 3].map(|_| {
        let mut queue = client.context.create_user_mode_queue(4096).unwrap();
        client.run_on(&mut queue).unwrap();
        queue
    });
    assert_fits(&run(&mut daemon.tool(&["inspect"])));
}

#[test]
fn the_help_says_that_bellhop_is_a_daemon_too_and_what_it_lets_a_guest_do() {
    let shown = |arguments: &[&str]| words(&run(bellhop().args(arguments)));
    assert!(shown(&["--help"]).contains("bellhop daemon -- --help"));
    assert!(shown(&["daemon", "--", "--help"]).contains("--socket-path"));
    let offered = shown(&["probe", "--json"]);
    assert!(offered.contains("POWER_CONTROL"), "{offered}");
    assert!(shown(&["vm", "--help"]).contains("its guest may change power states"));
}

#[test]
fn a_benchmark_that_takes_long_says_how_far_it_is() {
    let mut command = bellhop();
    command.args(["bench", "queues"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut bench = command.spawn().unwrap();
    let mut said = BufReader::new(bench.stderr.take().unwrap()).lines().map_while(Result::ok);
    let is_told = said.any(|line| line.contains("queues: 2500 of 10000 created"));
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    bench.wait().unwrap();
    assert!(is_told);
}

/// Asserts that the only line says what failed.
#[track_caller]
fn assert_fails_with(output: &Output, words: &str) {
    let errors = text(&output.stderr);
    assert!(!output.status.success() && errors.contains(words), "{output:?}");
    assert!(!errors.contains("panicked"), "{errors}");
}

/// The commands that print without a device.
const LISTS: [&[&str]; 5] = [
    &["harness", "--list"],
    &["harness", "--print", "first-submission"],
    &["selftest", "--list"],
    &["vm", "--print-command"],
    &["cdi", "generate"],
];

#[test]
fn a_reader_that_goes_away_causes_no_error() {
    for arguments in LISTS {
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        let output = bellhop().args(arguments).stdout(pipe).output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{arguments:?}: {output:?}");
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn a_full_disk_is_an_error_and_not_a_panic() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for arguments in LISTS {
        let output = bellhop().args(arguments).stdout(full()).output().unwrap();
        assert_fails_with(&output, "cannot write to standard output");
    }
    // Errors that cannot be printed.
    let output = bellhop().args(["harness", "missing.toml"]).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_file_that_cannot_be_written_is_known_before_anything_is_run() {
    for arguments in [
        &["harness", "--example", "first-submission", "--junit", "/nonexistent/results.xml"][..],
        &["selftest", "um.", "--junit", "/nonexistent/results.xml"],
    ] {
        let output = bellhop().args(arguments).output().unwrap();
        assert_fails_with(&output, "cannot write /nonexistent/results.xml");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn a_conformance_run_is_left_as_junit_without_what_was_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.xml");
    let work = ["selftest", "adapter.", "--skip", "adapter.nodes", "--junit"];
    run(bellhop().args(work).arg(&path));
    let results = std::fs::read_to_string(&path).unwrap();
    let results = quick_junit::Report::deserialize_from_str(&results).unwrap();
    let names: Vec<_> =
        results.test_suites[0].test_cases.iter().map(|case| case.name.as_str()).collect();
    assert!(names.len() > 2, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("adapter.")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("adapter.nodes")), "{names:?}");
}

#[test]
fn a_shell_in_a_vm_needs_input() {
    let output = bellhop().args(["vm", "--interactive"]).stdin(Stdio::null()).output().unwrap();
    assert_fails_with(&output, "--interactive wants a terminal or a pipe");
}

#[test]
fn a_run_on_one_processor_tells_the_truth() {
    stay_on_one_processor();
    let arguments = ["run", "--samples", "1000", "--input", "/dev/null"];
    let shown = words(&run(bellhop().args(arguments)));
    assert!(shown.contains("this run may use no other"), "{shown}");
    assert!(shown.ends_with("on 1 processor"), "{shown}");
    assert!(!shown.contains(" 0 times") && !shown.contains(" 0.0 times"), "{shown}");
    assert!(shown.contains(" times as fast (medians;") || shown.contains("NOT faster"), "{shown}");
    let report = report(bellhop().args(arguments).arg("--json"));
    assert_eq!(report["disturbances"]["processors"], 1);
    assert_eq!(report["repetitions"].as_array().unwrap().len(), 5);
    let is_faster = report["doorbell_speedup"].as_f64().unwrap() >= 1.05;
    assert_eq!(report["why_not_faster"].as_array().unwrap().is_empty(), is_faster, "{report}");
}

#[test]
fn a_benchmark_on_one_processor_says_what_it_cannot_measure() {
    stay_on_one_processor();
    let arguments = ["bench", "round-trip", "--samples", "200", "--repetitions", "1", "--json"];
    let report = report(bellhop().args(arguments));
    assert_eq!(report["figures"]["minimal_path_rtt_ns_p50"], Value::Null);
    let why = report["absent"]["minimal_path_rtt_ns_p50"].as_str().unwrap();
    assert!(why.contains("a processor each"), "{why}");
    assert!(report["figures"]["doorbell_rtt_ns_p50"].as_f64().unwrap() > 0.0);
    assert_eq!(report["configuration"]["samples"], 200);
    assert_eq!(report["configuration"]["daemon"]["round-trip"], "");
}

#[test]
fn a_run_pins_guest_and_daemon_apart_and_says_so() {
    let allowed = sched_getaffinity(None).unwrap();
    let numbers: Vec<_> =
        (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
    let job = ["run", "--samples", "10", "--input", "/dev/null", "--json"];
    let pinned = report(bellhop().args(job));
    if let [first, _, ..] = numbers[..] {
        let expected = format!("guest on {first}, bellhopd on ");
        assert!(pinned["pinning"].as_str().unwrap().starts_with(&expected), "{pinned}");
    }
    assert_eq!(pinned["disturbances"]["processors"], numbers.len());
    let free = report(bellhop().args(job).args(["--pin", "no"]));
    assert_eq!(free["pinning"], "not pinned: --pin no");
    assert_eq!(free["disturbances"]["processors"], numbers.len());
}
