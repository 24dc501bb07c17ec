// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels of guests' own, as people run them and see them.

use crate::support::kernels::{Doubling, worker};
use crate::support::{self, Daemon, TIMEOUT, bellhop, quick_configuration, report, run, text};
use bellhop_guest::inspect;
use bellhop_guest_umd::{Arguments, CommandBuffer, Kernel};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::fs;
use std::process::Command;

/// The command with a Vulkan that computes correctly. `None` if there is none: then `loss` is not tested.
fn with_vulkan(loss: &str) -> Option<impl Fn(&str) -> Command> {
    worker(loss)?;
    Some(|command: &str| {
        let mut bellhop = bellhop();
        bellhop.args([command, "--vulkan", "debian-13"]);
        bellhop
    })
}

#[test]
fn the_main_job_s_transformation_is_a_kernel_of_the_guest_s_own() {
    let Some(bellhop) = with_vulkan("the main job uses the built-in kernel alone") else { return };
    let report = report(bellhop("run").args(["--json", "--samples", "10"]));
    assert_eq!(report["verified"], true);
    let transformed = &report["transformed"];
    assert_eq!(transformed["by"], "own_kernel", "{report}");
    assert!(transformed["device"].as_str().unwrap().contains("llvmpipe"), "{report}");
    assert!(transformed["driver"].as_str().unwrap().contains("Mesa 25."), "{report}");
}

#[test]
fn the_least_memory_of_a_worker_is_enough_for_the_main_job_on_few_processors_and_on_many() {
    let Some(bellhop) = with_vulkan("no worker has little memory") else { return };
    for processors in [1, 2, 4, 16] {
        let configuration = tempfile::NamedTempFile::new().unwrap();
        let keys = format!("kernel_memory = \"128MiB\"\nkernel_processors = {processors}\n");
        fs::write(configuration.path(), format!("[adapter]\n{keys}")).unwrap();
        let mut job = bellhop("run");
        let job = job.args(["--json", "--samples", "10", "--config"]).arg(configuration.path());
        let report = report(job);
        assert_eq!(report["verified"], true);
        assert_eq!(report["transformed"]["by"], "own_kernel", "{processors}: {report}");
    }
}

#[test]
fn without_kernels_the_main_job_uses_the_built_in_one_and_says_why() {
    let configuration = quick_configuration("kernels = \"off\"", "");
    let mut job = bellhop();
    job.args(["run", "--samples", "10", "--config"]).arg(configuration.path());
    let said = support::words(&run(&mut job));
    assert!(said.contains("verified: every byte"), "{said}");
    let why = "transformed by: the built-in kernel; the device runs none of the guest's own: the host's \
               configuration allows none (adapter.kernels)";
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_kernel_works_on_files_and_its_mistakes_are_shown() {
    let Some(bellhop) = with_vulkan("no kernel works on files") else { return };
    let doubling = Doubling::new();
    let mut doubles = support::bellhop();
    let said = run(doubling.ask(&mut doubles).args(["--vulkan", "debian-13"]));
    assert!(said.starts_with("double.wgsl: 16 x 1 x 1 work groups of 64 x 1 x 1 in "), "{said}");
    doubling.assert_done();
    let fail = |source: &str| {
        let path = doubling.folder().join("wrong.wgsl");
        fs::write(&path, source).unwrap();
        let output = bellhop("kernel").args(["--zeroes", "64"]).arg(path).output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let said = fail("@compute @workgroup_size(1) fn f() { let x = y; }");
    assert!(said.contains("wrong.wgsl") && said.contains("identifier: `y`"), "{said}");
    let said = fail(
        "@group(0) @binding(0) var<storage, read_write> words: array<u32>;
        @compute @workgroup_size(1) fn f() {
            loop { if words[1] != 0 { break; } words[0] += 1; }
        }",
    );
    assert!(said.contains("wrong.wgsl") && said.contains("ENGINE_TIMEOUT"), "{said}");
}

#[test]
fn a_picture_is_the_processor_s() {
    let Some(bellhop) = with_vulkan("no kernel draws a picture") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.png");
    let size = ["--width", "64", "--height", "36"];
    let said = run(bellhop("picture").args(size).arg("--out").arg(&path));
    assert!(said.contains("both are the same picture"), "{said}");
    assert!(fs::read(path).unwrap().starts_with(b"\x89PNG\r\n"));
}

/// Each invocation squares one number.
const SQUARE: &str = "
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(64)
fn square(@builtin(global_invocation_id) id: vec3u) {
    numbers[id.x] *= numbers[id.x];
}";

#[test]
fn a_tool_sees_kernels_and_the_workers_that_run_them() {
    let Some(daemon) = Daemon::start_with_kernels(1, "") else { return };
    let adapter = support::adapter_of(&support::guest(&daemon, 0));
    let device = adapter.create_device().unwrap();
    let kernel = Kernel::from_wgsl(&device, SQUARE).create().unwrap();
    let memory = device.create_allocation(AllocationKind::SYSTEM, 4096).unwrap();
    let mapping = memory.map(Protection::WRITE).unwrap();
    let mut arguments = Arguments::new();
    arguments.descriptor(mapping.gpu_va(), 256);
    let mut commands = CommandBuffer::new(&device, 4096).unwrap();
    commands.dispatch_kernel(&kernel, [1, 1, 1], &arguments).unwrap();
    let node = adapter.least_used_node(EngineType::THREE_D).unwrap();
    let mut queue = device.create_context(node).unwrap().create_user_mode_queue(4096).unwrap();
    let value = queue.submit(&mut commands).unwrap();
    queue.progress_fence().wait(value, TIMEOUT).unwrap();

    let has_run = |worker: &&bellhop_protocol::snapshot::Worker| worker.node.is_some();
    let mut seen = daemon.snapshot();
    support::await_that("the worker is idle, and another is ready", || {
        seen = daemon.snapshot();
        let states: Vec<_> = seen.workers.iter().map(|worker| worker.state.as_str()).collect();
        states.contains(&"idle") && states.contains(&"spare")
    });
    let process = &seen.guests[0].processes[0];
    let [listed] = &process.kernels[..] else { panic!("{process:?}") };
    assert_eq!((listed.number, listed.entry_point.as_str()), (kernel.number(), "square"));
    assert_eq!(listed.state, "compiled");
    let worker = seen.workers.iter().find(has_run).unwrap();
    assert_eq!((worker.guest, worker.process), (Some(seen.guests[0].id), Some(process.id)));
    assert_eq!((worker.node, worker.state.as_str()), (Some(node), "idle"));
    // It has Mesa's compiler and its own code.
    assert!(worker.memory.unwrap() > 1 << 20, "{worker:?}");
    let pid = worker.pid.unwrap();
    let parent = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(parent.contains(&format!("PPid:\t{}\n", daemon.id())), "{parent}");
    // A guest sees its own, without what the host calls them.
    let own = inspect::snapshot(&mut &adapter).unwrap();
    assert!(own.workers.iter().any(|worker| has_run(&worker)), "{:?}", own.workers);
    for worker in &own.workers {
        assert_eq!((worker.pid, worker.guest), (None, Some(own.guests[0].id)));
    }
    let text = run(&mut daemon.tool(&["inspect"]));
    assert!(text.contains("square  compiled") && text.contains("spare"), "{text}");
}
