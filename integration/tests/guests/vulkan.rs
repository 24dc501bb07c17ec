// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests' programs that use Vulkan, with the driver for guests.

use crate::support::vulkan::{
    ALLOWED, DEVICE, DISPATCHES, DRAWING, IMAGES, IMPATIENT, LOST, MEMORY, OPERATIONS, ORDER,
    SHARING, assert_killed_at_any_moment, assert_seen, assert_seen_of,
    assert_seen_of_a_bad_program, assert_told_what_is_wrong, beside,
};
use crate::support::vulkan_programs::{
    COMPUTEML, GGML, HEPHAISTOS, KOMPUTE, NCNN, NCNN_LAYERS, PATIENT, Program, VKDISPATCH,
};
use crate::support::{Daemon, bellhop, brokers::Brokered, is_here, run, text};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

/// Adds numbers, and compares.
const ADDS: &str = "command.again";

const GROUP: &[&str] = &["group."];
/// Those of a guest with a monitor: `drawing` tries them.
const DISPLAY: &[&str] = &["display."];

/// A chain of two GPUs, of which the second sleeps while nobody uses it.
const CHAIN: &str = "[adapters.second]\nkernels = \"auto\"\n\
     [link.pair]\nadapters = [\"\", \"second\"]\npower = \"when_needed\"\n";

#[test]
fn no_behaviour_is_left_out() {
    let all = [ALLOWED.concat(), LOST.to_vec(), GROUP.to_vec(), DISPLAY.to_vec()].concat();
    let listed = run(bellhop().args(["vulkan-suite", "--list"]));
    let names = listed.lines().filter(|line| !line.starts_with(' '));
    let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
    let left_out = names.iter().filter(|name| !all.iter().any(|area| name.starts_with(area)));
    assert_eq!(left_out.collect::<Vec<_>>(), Vec::<&&str>::new());
    assert!(names.len() > 400, "{}", names.len());
}

#[test]
fn a_device_is_what_vulkan_says_and_comes_as_often_as_it_is_opened() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, DEVICE);
}

#[test]
fn memory_and_copies_have_every_byte() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, MEMORY);
}

#[test]
fn shaders_are_dispatched_with_all_that_they_take() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, DISPATCHES);
}

#[test]
fn images_have_every_texel_whoever_writes_or_reads_it() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    assert_seen(&daemon, IMAGES);
}

#[test]
fn draws_have_every_texel_that_they_cover_and_no_other() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    assert_seen(&daemon, DRAWING);
}

#[test]
fn shaders_compute_what_the_processor_does_with_each_operation() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    assert_seen(&daemon, OPERATIONS);
}

#[test]
fn invocations_find_themselves_and_what_they_share_in_memory() {
    let Some(daemon) = Daemon::start_with_kernels(1, PATIENT) else { return };
    assert_seen(&daemon, SHARING);
}

#[test]
fn submissions_are_ordered_by_what_vulkan_has_for_it() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    assert_seen(&daemon, ORDER);
}

#[test]
fn a_program_loses_its_device_and_no_other() {
    let Some(daemon) = Daemon::start_with_kernels(2, IMPATIENT) else { return };
    // The neighbour computes all the time.
    let mut other = beside(&daemon, 1);
    let other = other.args(["--selftest", "--", "command.", "dispatch."]).stdout(Stdio::piped());
    let other = other.spawn().unwrap();
    assert_seen_of_a_bad_program(&daemon, LOST);
    let output = other.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn the_gpus_of_a_chain_are_one_device_or_several() {
    let Some(daemon) = Daemon::start_with_kernels(1, CHAIN) else { return };
    assert_seen(&daemon, GROUP);
    // Each is as good as the only one.
    for device in ["0", "1"] {
        let areas = ["command.again", "dispatch.grid", "fence.", "semaphore.", "event.", "query."];
        assert_seen_of(&daemon, device, &areas);
    }
}

/// Wherever a program is in its commands when it is killed: the next one of its guest finds a device, and a neighbour notices
/// nothing.
#[test]
fn a_program_that_is_killed_at_any_command_leaves_nothing() {
    let neighbour = ["command.", "dispatch.", "set."];
    assert_killed_at_any_moment(&neighbour, &["dispatch.", "memory."], &["command.", "memory."]);
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

/// A fence of Vulkan's is a value of its queue's progress fence, and has no name of its own on the device.
#[test]
fn a_tool_sees_the_names_that_a_program_gives_its_device_queue_memory_and_semaphore() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let mut program = beside(&daemon, 0);
    program.arg("--").arg(bellhop().get_program()).arg("vulkan-named");
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(program.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "the objects have names");
    let seen = daemon.snapshot();
    let devices = seen.guests[0].processes.iter().flat_map(|process| &process.devices);
    let named: Vec<_> = devices.filter(|device| device.name.is_some()).collect();
    let [device] = named.as_slice() else { panic!("{named:?}") };
    let queues = device.contexts.iter().flat_map(|context| &context.hw_queues);
    let names = |names: Vec<&Option<String>>| -> Vec<String> {
        names.into_iter().flatten().cloned().collect()
    };
    assert_eq!(device.name.as_deref(), Some("the device"));
    assert_eq!(names(queues.map(|queue| &queue.name).collect()), ["the queue"]);
    let memory = device.allocations.iter().map(|allocation| &allocation.name);
    assert_eq!(names(memory.collect()), ["the memory"]);
    assert_eq!(names(device.fences.iter().map(|fence| &fence.name).collect()), ["the semaphore"]);
    let tree = run(&mut daemon.tool(&["inspect"]));
    for name in ["device", "queue", "memory", "semaphore"] {
        assert!(tree.contains(&format!("\"the {name}\"")), "{tree}");
    }
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

/// The second one has no view of the first one's fences: the device tells it their values.
#[test]
fn programs_of_one_guest_take_turns_by_semaphores_that_they_share() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let broker = Brokered::start(&daemon, 0, &[]);
    let mut first = beside(&daemon, 0);
    first.args(["--", "env", "-u", "BELLHOP_SOCKET"]);
    first.arg(format!("BELLHOP_BROKER={}", broker.socket().display()));
    let said = run(first.arg(bellhop().get_program()).arg("vulkan-peers"));
    assert_eq!(said, "the programs took turns\n");
}

#[test]
fn vulkaninfo_lists_the_device_and_what_it_offers() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let vulkaninfo = |arguments: &[&str]| {
        let mut command = beside(&daemon, 0);
        command.args(["--validate", "--package", "vulkan-tools", "--", "vulkaninfo"]);
        run(command.args(arguments))
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
    let words = command.args(["--validate", "--"]).args([python.path(), program.path()]);
    program.assert_right(&words.args(arguments).output().unwrap());
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
fn every_kind_of_layer_of_ncnn_computes_what_the_processor_does() {
    computes(NCNN_LAYERS, &[], PATIENT);
}

#[test]
fn kompute_computes_what_the_processor_does() {
    computes(KOMPUTE, &[], PATIENT);
}

#[test]
fn ggml_generates_the_words_that_the_processor_does() {
    computes(GGML, &[], PATIENT);
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
fn a_program_that_does_what_vulkan_does_not_allow_has_failed_and_is_told_why() {
    if !is_here("python3", "no program with an error is validated") {
        return;
    }
    let daemon = Daemon::start(1);
    let mut command = beside(&daemon, 0);
    assert_told_what_is_wrong(command.args(["--validate", "--", "python3"]));
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
