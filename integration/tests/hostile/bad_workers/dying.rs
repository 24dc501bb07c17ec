// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers whose end takes long, since Linux frees their page tables first: nobody but their guest waits for that.

use super::stopping::{ROUNDS, begin, daemon_of, executor, is_whole, state};
use super::{beside_another_that_counts, fault, leaves_nothing, renew};
use crate::support::{Daemon, await_that};
use bellhop_guest::client::{Client, Shape};
use bellhop_integration::hostile_worker::{Conduct, DIES_SLOWLY, GO};
use bellhop_protocol::event::FaultReason;
use std::fs;
use std::sync::atomic::Ordering;

/// Bytes that a worker in the sandbox maps again and again.
const MEMORY: u64 = 2 << 20;
/// Page tables, in KiB, that no honest worker has: for a million pages and more.
const MUCH: u64 = 8 << 10;

/// KiB of page tables that a process has.
fn page_tables(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPTE:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// No thread of a daemon waits for the end of a process.
fn nobody_waits(daemon: &Daemon) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
    let call = |task: fs::DirEntry| {
        // A thread may end after it was listed, and one that runs has no call.
        let call = fs::read_to_string(task.path().join("syscall")).ok()?;
        call.split_once(' ')?.0.parse::<i64>().ok()
    };
    let mut calls = tasks.filter_map(|task| call(task.ok()?));
    !calls.any(|call| [libc::SYS_wait4, libc::SYS_waitid].contains(&call))
}

#[test]
fn a_worker_with_many_page_tables_dies_slowly_and_delays_its_own_guest_alone() {
    for confined in [false, true] {
        let daemon = daemon_of(&Conduct { confined, ..Conduct::default() });
        let all = beside_another_that_counts(&daemon, |process, rounds| {
            let mut client =
                Client::new(process, Shape { memory: MEMORY, ..Shape::default() }).unwrap();
            let (mut most, mut meanwhile) = (0, 0);
            for _ in 0..3 {
                let value = begin(&mut client, DIES_SLOWLY);
                let worker = executor(&daemon);
                let filled = page_tables(worker);
                assert!(filled >= MUCH, "{filled} KiB of page tables are few");
                most = most.max(filled);
                let before = rounds.load(Ordering::Acquire);
                client.write(8, &GO.to_le_bytes()).unwrap();
                let fault = fault(client.finish(value), DIES_SLOWLY);
                assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{fault}");
                await_that("it is gone", || {
                    assert!(nobody_waits(&daemon));
                    state(worker).is_none()
                });
                meanwhile += rounds.load(Ordering::Acquire) - before;
                await_that("the neighbour works", || {
                    rounds.load(Ordering::Acquire) >= before + ROUNDS
                });
                renew(&mut client);
            }
            println!(
                "confined: {confined}, {most} KiB of page tables, {meanwhile} rounds meanwhile"
            );
        });
        println!("{all} rounds beside workers that die slowly");
        assert!(is_whole(&daemon));
        leaves_nothing(&daemon);
    }
}
