// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers that do not stop, do not die or do not rest: their guest waits for that, and no engine and no other guest does.

use super::{
    CONFIGURATION, beside_another, beside_another_that_counts, client, execute, fault, flush,
    hostile, kernel, leaves_nothing, renew,
};
use crate::support::{Daemon, await_that, run, skip};
use bellhop_guest::client::Client;
use bellhop_guest_umd::{Arguments, Error};
use bellhop_integration::hostile_worker::{Conduct, GO};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::snapshot;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// What a tracer is told of a thread that is about to end.
const AT_ITS_END: i32 = ptrace::Event::PTRACE_EVENT_EXIT as i32;
/// Rounds of a neighbour that show that it does not wait.
pub(super) const ROUNDS: u32 = 20;

/// A daemon whose workers do as their kernels are called, and which hangs nobody soon.
fn daemon() -> Daemon {
    daemon_of(&Conduct::default())
}

/// The same, of workers that conduct themselves so.
pub(super) fn daemon_of(conduct: &Conduct) -> Daemon {
    let configuration = CONFIGURATION.replace("timeout = \"1s\"", "timeout = \"60s\"");
    Daemon::start_with_workers(2, &configuration, &hostile(conduct))
}

/// Begins a kernel that stores in the client's memory, and returns the value of its end when it has.
pub(super) fn begin(client: &mut Client, what: &str) -> u64 {
    client.write(0, &[0; 16]).unwrap();
    let kernel = kernel(client, what).unwrap();
    let mut arguments = Arguments::new();
    arguments.address(client.va(0));
    client.commands.reset();
    client.commands.dispatch_kernel(&kernel, [1; 3], &arguments).unwrap();
    let value = client.submit().unwrap();
    await_that("the kernel runs", || client.word(0).unwrap() != 0);
    value
}

/// The worker that an engine has for the hostile guest, which is the first socket's.
pub(super) fn executor(daemon: &Daemon) -> u32 {
    let (socket, snapshot) = (daemon.socket(0), daemon.snapshot());
    let is_hostile = |guest: &&snapshot::Guest| guest.socket.as_deref() == socket.to_str();
    let guest = snapshot.guests.iter().find(is_hostile).map(|guest| guest.id);
    let mut workers = snapshot.workers.iter();
    let worker = workers.find(|worker| worker.node.is_some() && worker.guest == guest);
    worker.and_then(|worker| worker.pid).expect("its worker")
}

/// No guest has lost its devices.
pub(super) fn is_whole(daemon: &Daemon) -> bool {
    !daemon.logged().iter().any(|line| line.contains("the adapter was reset"))
}

/// The state of a process that Linux shows: `T` for one that is stopped. `None` if there is none.
pub(super) fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn a_worker_that_undoes_each_stop_is_killed_and_its_engine_goes_on() {
    let daemon = daemon();
    let rounds = beside_another_that_counts(&daemon, |process, rounds| {
        let mut client = client(process);
        for _ in 0..3 {
            let value = begin(&mut client, "run_continues");
            let worker = executor(&daemon);
            let before = rounds.load(Ordering::Acquire);
            client.context.suspend().unwrap();
            await_that("it is killed", || state(worker).is_none());
            await_that("the neighbour works", || rounds.load(Ordering::Acquire) >= before + ROUNDS);
            client.context.resume().unwrap();
            let fault = fault(client.finish(value), "run_continues");
            assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{fault}");
            renew(&mut client);
        }
    });
    println!("{rounds} rounds beside workers that do not stop");
    assert!(is_whole(&daemon));
    leaves_nothing(&daemon);
}

/// A process whose threads do not end, once they have begun to, until this is dropped. It is then as one that takes long to
/// give its memory back. The thread that made this is its tracer.
struct Undying(Vec<Pid>);

impl Undying {
    /// `None` where processes may not be traced.
    fn seize(process: u32) -> Option<Self> {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let threads = tasks.map(|task| {
            let name = task.unwrap().file_name();
            Pid::from_raw(name.to_str().unwrap().parse().unwrap())
        });
        let threads: Vec<_> = threads.collect();
        let seize = |thread| ptrace::seize(thread, ptrace::Options::PTRACE_O_TRACEEXIT).ok();
        threads.iter().try_for_each(|thread| seize(*thread))?;
        Some(Self(threads))
    }

    /// Lets its threads have the signals that they were stopped for: an engine sends some with each turn of another queue.
    fn pass_signals(&self) {
        for thread in &self.0 {
            let signal = match waitpid(*thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
                Ok(WaitStatus::PtraceEvent(_, _, event)) if event != AT_ITS_END => None,
                _ => continue,
            };
            // It may have been killed since.
            let _ = ptrace::cont(*thread, signal);
        }
    }
}

impl Drop for Undying {
    fn drop(&mut self) {
        // The end of the tracer, too, lets them go.
        if thread::panicking() {
            return;
        }
        for traced in &self.0 {
            // It has been killed, and is at its end or about to be.
            while ptrace::detach(*traced, None).is_err()
                && state(traced.as_raw().cast_unsigned()).is_some()
            {
                thread::yield_now();
            }
        }
    }
}

#[test]
fn a_worker_that_dies_slowly_delays_its_own_guest_alone() {
    let daemon = daemon();
    let rounds = beside_another_that_counts(&daemon, |process, rounds| {
        let mut client = client(process);
        let value = begin(&mut client, "run_hangs_up");
        let worker = executor(&daemon);
        let Some(undying) = Undying::seize(worker) else {
            let how =
                "be root, or allow processes to trace their children (kernel.yama.ptrace_scope)";
            return skip("processes cannot be traced here", "no worker dies slowly", how);
        };
        client.write(0, &GO.to_le_bytes()).unwrap();
        // The queue is lost at once.
        let fence = client.queue.progress_fence();
        await_that("the queue is lost", || {
            undying.pass_signals();
            !matches!(fence.poll(value, Duration::ZERO), Err(Error::Timeout { .. }))
        });
        let fault = fault(client.finish(value), "run_hangs_up");
        assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{fault}");
        let is_flushed = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                flush(&client).unwrap();
                is_flushed.store(true, Ordering::Release);
            });
            let before = rounds.load(Ordering::Acquire);
            await_that("the neighbour works", || rounds.load(Ordering::Acquire) >= before + ROUNDS);
            assert!(state(worker).is_some_and(|state| state != 'Z'), "it is there");
            // The worker may still reach the page.
            assert!(!is_flushed.load(Ordering::Acquire));
            drop(undying);
        });
        assert!(is_flushed.load(Ordering::Acquire));
    });
    println!("{rounds} rounds beside a worker that dies slowly");
    assert!(is_whole(&daemon));
    leaves_nothing(&daemon);
}

#[test]
fn a_kernel_of_a_suspended_context_stores_nothing_whatever_memory_is_taken_from_it() {
    let daemon = daemon();
    beside_another(&daemon, |process| {
        let mut client = client(process);
        let value = begin(&mut client, "run_counts");
        let operate = |what| run(&mut daemon.operate(&["ctl", what, "gpu0.sock"]));
        for round in 0..10 {
            // Its owner suspends its context, or the operator suspends the guest.
            match round % 2 {
                0 => client.context.suspend().unwrap(),
                _ => drop(operate("suspend")),
            }
            let stored = client.word(0).unwrap();
            for _ in 0..3 {
                flush(&client).unwrap();
                assert_eq!(client.word(0).unwrap(), stored, "it has run in round {round}");
            }
            match round % 2 {
                0 => client.context.resume().unwrap(),
                _ => drop(operate("resume")),
            }
            await_that("the kernel goes on", || client.word(0).unwrap() != stored);
        }
        client.write(8, &GO.to_le_bytes()).unwrap();
        client.finish(value).unwrap();
    });
    leaves_nothing(&daemon);
}

#[test]
fn a_worker_without_work_is_stopped_and_killed_if_it_does_not_stop() {
    let daemon = daemon();
    let rounds = beside_another(&daemon, |process| {
        let mut client = client(process);
        for what in ["run_then_spins", "main"] {
            let its_kernel = kernel(&client, what).unwrap();
            // Whenever it rests, it goes on with the next.
            for _ in 0..3 {
                execute(&mut client, &its_kernel).unwrap();
                let worker = executor(&daemon);
                await_that("it is stopped", || state(worker) == Some('T'));
            }
        }
        let stubborn = kernel(&client, "run_then_continues").unwrap();
        execute(&mut client, &stubborn).unwrap();
        let worker = executor(&daemon);
        await_that("it is killed", || state(worker).is_none());
        // That costs no queue.
        let good = kernel(&client, "main").unwrap();
        execute(&mut client, &good).unwrap();
        let polled = client.queue.progress_fence().poll(0, Duration::ZERO);
        assert!(!matches!(polled, Err(Error::QueueLost { .. })), "{polled:?}");
    });
    println!("{rounds} rounds beside workers that do not rest");
    leaves_nothing(&daemon);
}
