// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who wakes a program that waits for a fence.

use super::client;
use crate::support::brokers::Brokered;
use crate::support::{Daemon, TIMEOUT, await_that};
use bellhop_protocol::packet::dispatch::Kernel;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::gettid;
use std::fs::{read_dir, read_to_string};
use std::sync::OnceLock;
use std::thread;

/// Whether no thread of a process runs until it is told to go on.
fn stands(process: u32) -> bool {
    let tasks = read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let mut states = tasks.map(|task| read_to_string(task.path().join("stat")).unwrap_or_default());
    states.all(|state| state.contains(") T "))
}

/// Whether a thread of this process waits in a call to poll.
fn polls(thread: Pid) -> bool {
    let call = read_to_string(format!("/proc/self/task/{}/syscall", thread.as_raw_nonzero()));
    let call = call.ok().and_then(|call| call.split_once(' ')?.0.parse::<i64>().ok());
    call.is_some_and(|call| [libc::SYS_poll, libc::SYS_ppoll].contains(&call))
}

#[test]
fn the_device_s_interrupt_wakes_a_program_though_its_broker_stands_still() {
    let spins = "[adapter]\ntimeout = \"1m\"\n[debug]\ntest_kernels = true\n";
    let daemon = Daemon::start_with(1, spins);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let mut program = client(&brokered);
    let at = program.va(0);
    program.write(0, &[0; 16]).unwrap();
    let done = program.device.create_fence(0).unwrap();
    program.commands.dispatch(Kernel::SPIN_UNTIL, at, at + 8, 8, 1).unwrap();
    program.commands.signal_fence(&done, 1).unwrap();
    program.submit().unwrap();
    let broker = Pid::from_raw(brokered.process().cast_signed()).unwrap();
    let waiter = OnceLock::new();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            waiter.set(gettid()).unwrap();
            done.wait(1, TIMEOUT)
        });
        await_that("the device has the program's wait", || daemon.cpu_waits() == 1);
        // It has heard from the broker that the device has it.
        await_that("the program waits for events", || waiter.get().is_some_and(|it| polls(*it)));
        kill_process(broker, Signal::STOP).unwrap();
        await_that("the broker stands still", || stands(brokered.process()));
        program.write(0, &1u64.to_le_bytes()).unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(stands(brokered.process()));
    kill_process(broker, Signal::CONT).unwrap();
    // What it has missed is told, and harms nobody.
    super::submit_once(&mut program);
}
