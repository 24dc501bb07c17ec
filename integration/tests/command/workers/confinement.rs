// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a worker may do and has: its sandbox, its privileges, its descriptors and its share of the machine.

use super::*;

#[test]
fn nothing_can_be_reached_from_inside_the_sandbox() {
    for confined in ["kernels", "gpu", "video", "keys"] {
        let mut command = bellhop();
        command.args(["worker", "--", "try-sandbox", confined]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{confined}: {output:?}");
    }
}

/// Returns this command without any capability, as if another user than root ran it.
fn without_capabilities(command: &Command) -> Command {
    let mut without = Command::new("setpriv");
    without.args(["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]);
    without.arg(command.get_program()).args(command.get_args());
    without.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    without
}

#[test]
fn a_worker_and_its_sandbox_need_no_privileges() {
    if !is_here("setpriv", "no worker runs without capabilities") {
        return;
    }
    let mut sandbox = bellhop();
    sandbox.args(["worker", "--", "try-sandbox"]);
    let output = without_capabilities(&sandbox).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let Some(command) = command() else { return };
    let mut worker = Worker::start(without_capabilities(&command), &options()).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.id())).unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    let mut pages = Pages::new();
    let (values, arguments) = scattered(&mut pages, 10);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    pages.run(&mut worker, 1, 1, &arguments).unwrap();
    assert_transformed(&pages, &values, 1);
}

/// Returns what a worker's descriptors name.
fn descriptors(worker: &Worker) -> Vec<String> {
    let folder = std::fs::read_dir(format!("/proc/{}/fd", worker.id())).unwrap();
    let name = |fd: std::io::Result<std::fs::DirEntry>| std::fs::read_link(fd.unwrap().path());
    folder.filter_map(|fd| Some(name(fd).ok()?.display().to_string())).collect()
}

/// Its owner has other guests' memory, and forgets to close it in programs that it starts.
#[test]
fn a_worker_has_no_descriptor_of_another_guest_and_keeps_none_of_its_own() {
    let other = memfd_create("another-guest", MemfdFlags::empty()).unwrap();
    let Some(mut worker) = worker() else { return };
    let mut pages = Pages::new();
    let (values, arguments) = scattered(&mut pages, 100);
    load(&mut worker, 1, SCATTER, 16, &[[7, FACTOR as u32]]);
    pages.run(&mut worker, 1, 2, &arguments).unwrap();
    assert_transformed(&pages, &values, 1);
    let has = |what: &str| descriptors(&worker).iter().any(|name| name.contains(what));
    assert!(has("said") && !has("another-guest"));
    // The thread that maps memory lets the kernel go on before it closes what was mapped last.
    await_that("the worker has closed the guest's memory", || !has("test"));
    let names = descriptors(&worker);
    // Two sockets: for kernels and for memory.
    assert_eq!(names.iter().filter(|name| name.starts_with("socket:")).count(), 2, "{names:?}");
    drop(other);
}

#[test]
fn a_worker_is_what_linux_ends_first_when_memory_is_short() {
    let Some(worker) = worker() else { return };
    let score = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", worker.id())).unwrap();
    assert_eq!(score.trim(), "1000");
}

#[test]
fn no_thread_of_a_worker_uses_more_processors_than_it_may() {
    let Some(command) = command() else { return };
    let worker = Worker::start(command, &Options { threads: 1, ..options() }).unwrap();
    let threads = std::fs::read_dir(format!("/proc/{}/task", worker.id())).unwrap();
    for thread in threads {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
        let allowed = allowed.split_whitespace().nth(1).unwrap();
        assert!(allowed.parse::<u32>().is_ok(), "{allowed} is not one processor");
    }
}
