// SPDX-License-Identifier: MIT OR Apache-2.0
#![allow(clippy::disallowed_methods, reason = "tests wait for what they test")]

//! The priority of a real worker.

use bellhop_worker::owner::{Options, Role, Worker};
use std::fs;
use std::process::Command;

/// The nice values of a process's threads; proc_pid_stat(5).
fn nice(process: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap();
        // Behind the program's name: the state, and 15 fields before it.
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap()
    };
    threads.map(|thread| of(thread.unwrap())).collect()
}

#[test]
fn all_threads_of_a_worker_are_nicer_than_their_owner() {
    // A role without Vulkan has every machine.
    let options = Options {
        role: Role::Video,
        window: 1 << 20..1 << 40,
        memory: 1 << 30,
        device: 0,
        threads: 1,
        samples: 0,
    };
    let command = Command::new(env!("CARGO_BIN_EXE_bellhop-worker"));
    let worker = Worker::start(command, &options).unwrap();
    let own = nice(std::process::id()).into_iter().max().unwrap();
    let of_worker = nice(worker.id());
    assert!(of_worker.len() >= 2, "{of_worker:?}");
    assert!(of_worker.iter().all(|nice| *nice > own.min(18)), "{of_worker:?}, its owner {own}");
}
