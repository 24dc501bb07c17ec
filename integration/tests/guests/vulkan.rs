// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' programs that use Vulkan, with the driver for guests.

use crate::support::vulkan::{assert_seen, beside};
use crate::support::vulkan_programs::{
    COMPUTEML, HEPHAISTOS, KOMPUTE, NCNN, PATIENT, Program, RIGHT, VKDISPATCH,
};
use crate::support::{Daemon, bellhop, brokers::Brokered, run, text};
use std::process::Stdio;

/// Adds numbers, and compares.
const ADDS: &str = "command.again";

#[test]
fn a_device_is_what_vulkan_says_and_comes_as_often_as_it_is_opened() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, &["device."]);
}

#[test]
fn memory_and_copies_have_every_byte() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, &["memory.", "transfer."]);
}

#[test]
fn shaders_are_dispatched_with_all_that_they_take() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, &["pipeline.", "dispatch.", "set."]);
}

#[test]
fn submissions_are_ordered_by_what_vulkan_has_for_it() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, &["command.", "fence.", "semaphore.", "event.", "query."]);
}

#[test]
fn a_program_loses_its_device_and_no_other() {
    let configuration = "[adapter]\ntimeout = \"5s\"\nhang_limit = 0\n";
    let Some(daemon) = Daemon::start_with_kernels(2, configuration) else { return };
    // The neighbour computes all the time.
    let mut other = beside(&daemon, 1);
    let other = other.args(["--selftest", "--", "command.", "dispatch."]).stdout(Stdio::piped());
    let other = other.spawn().unwrap();
    assert_seen(&daemon, &["lost."]);
    let output = other.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn programs_of_one_guest_use_vulkan_at_once_behind_its_broker() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let broker = Brokered::start(&daemon, 0, &[]);
    let start = || {
        // The command itself names a socket; a program of a guest with a broker has the broker's.
        let mut program = beside(&daemon, 0);
        program.args(["--", "env", "-u", "BELLHOP_SOCKET"]);
        program.arg(format!("BELLHOP_BROKER={}", broker.socket().display()));
        program.arg(bellhop().get_program()).args(["vulkan-suite", ADDS, "set."]);
        program.stdout(Stdio::piped()).spawn().unwrap()
    };
    let programs = [start(), start(), start()];
    for program in programs {
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stdout));
    }
}

#[test]
fn vulkaninfo_lists_the_device_and_what_it_offers() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let vulkaninfo = |arguments: &[&str]| {
        let mut command = beside(&daemon, 0);
        run(command.args(["--package", "vulkan-tools", "--", "vulkaninfo"]).args(arguments))
    };
    let summary = vulkaninfo(&["--summary"]);
    assert!(summary.contains("PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU"), "{summary}");
    assert!(summary.to_lowercase().contains("bellhop"), "{summary}");
    let everything = vulkaninfo(&[]);
    assert!(everything.contains("timelineSemaphore") && everything.contains("memoryHeaps"));
}

/// Runs a program with arguments.
fn computes(program: Program, arguments: &[&str], configuration: &str) {
    let Some(python) = program.python() else { return };
    let Some(daemon) = Daemon::start_with_kernels(1, configuration) else { return };
    let mut command = beside(&daemon, 0);
    let said = run(command.arg("--").args([python.path(), program.path()]).args(arguments));
    assert!(said.lines().any(|line| line == RIGHT), "{said}");
}

#[test]
fn hephaistos_computes_what_the_processor_does() {
    computes(HEPHAISTOS, &[], PATIENT);
}

/// As long as it compiles, it executes nothing: what bounds work has nothing to say about that.
#[test]
fn a_pipeline_that_takes_longer_to_compile_than_work_may_take_is_no_hang() {
    let configuration = PATIENT.replace("[guest]", "timeout = \"1s\"\n[guest]");
    let program = Program { file: "long_compile_program.py", ..HEPHAISTOS };
    computes(program, &["2"], &configuration);
}

#[test]
fn ncnn_computes_what_the_processor_does() {
    computes(NCNN, &[], PATIENT);
}

#[test]
fn kompute_computes_what_the_processor_does() {
    computes(KOMPUTE, &[], PATIENT);
}

#[test]
fn vkdispatch_computes_what_the_processor_does() {
    computes(VKDISPATCH, &[], PATIENT);
}

#[test]
fn computeml_computes_what_the_processor_does() {
    computes(COMPUTEML, &[], PATIENT);
}

#[test]
fn the_program_s_exit_status_is_the_command_s() {
    let daemon = Daemon::start(1);
    let status =
        |script: &str| beside(&daemon, 0).args(["--", "sh", "-c", script]).status().unwrap().code();
    assert_eq!(
        [status("true"), status("exit 7"), status("kill -9 $$")],
        [Some(0), Some(7), Some(137)]
    );
}

#[test]
fn a_host_that_runs_no_kernels_offers_no_device_and_the_program_goes_on() {
    let daemon = Daemon::start(1);
    let output = beside(&daemon, 0).args(["--selftest", "--", ADDS]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("there is no Vulkan device"), "{said}");
}
