// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! The threads of a real worker's codecs.

use bellhop_worker::owner::{Options, Role, Worker};
use std::fs;
use std::process::Command;
use std::thread::yield_now;

/// A worker for a session that decodes pictures of so many samples, or encodes if that is 0.
fn worker(threads: u32, samples: u32) -> Worker {
    let options = Options {
        role: Role::Video,
        window: 1 << 20..1 << 40,
        memory: 1 << 30,
        device: 0,
        threads,
        samples,
    };
    let command = Command::new(env!("CARGO_BIN_EXE_bellhop-worker"));
    Worker::start(command, &options).unwrap()
}

/// A field of the status of each thread of a worker; proc_pid_status(5).
fn of_threads(worker: &Worker, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", worker.id())).unwrap();
    let of = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
        value.unwrap().to_owned()
    };
    let mut all: Vec<_> = threads.map(|thread| of(thread.unwrap())).collect();
    all.sort();
    all
}

/// A thread names itself after everything else that a C library does when one starts, and the sandbox refuses both: one that
/// started too late has the name of the thread that made it, or has ended its process.
#[test]
fn threads_have_started_when_the_sandbox_is_entered() {
    for _ in 0..20 {
        let worker = worker(4, 1 << 20);
        let names = of_threads(&worker, "Name");
        let decoders = (0..4).map(|number| format!("rav1d-worker-{number}"));
        let decoders: Vec<_> = decoders.collect();
        assert!(names.iter().filter(|name| name.starts_with("rav1d")).eq(&decoders), "{names:?}");
        assert_eq!(names.len(), 6);
        // A filter, which nothing removes (proc_pid_status(5)).
        assert_eq!(of_threads(&worker, "Seccomp"), ["2"; 6]);
        assert!(!worker.process().has_ended());
    }
}

#[test]
fn a_worker_has_the_threads_that_it_needs_and_no_other() {
    // The thread for memory, and the one that decodes or encodes itself.
    for (threads, samples, all) in [(1, 1 << 20, 2), (2, 1 << 20, 4), (1, 0, 2), (3, 0, 4)] {
        let worker = worker(threads, samples);
        assert_eq!(of_threads(&worker, "Name").len(), all, "{threads} {samples}");
    }
}

#[test]
fn all_threads_of_a_worker_stop_go_on_and_end_with_it() {
    let mut worker = worker(4, 1 << 20);
    worker.process().stop().unwrap();
    while !worker.process().has_stopped().unwrap() {
        yield_now();
    }
    assert_eq!(of_threads(&worker, "State"), ["T (stopped)"; 6]);
    worker.process().resume().unwrap();
    while of_threads(&worker, "State").contains(&"T (stopped)".into()) {
        yield_now();
    }
    worker.process().kill();
    // Its pidfd is readable when all of its threads have ended.
    while !worker.process().has_ended() {
        yield_now();
    }
    assert!(worker.next(None).is_err());
}
