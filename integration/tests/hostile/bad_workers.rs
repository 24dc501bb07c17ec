// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers that are broken or taken over: each costs its guest a kernel or a queue, with the reason, and another guest
//! nothing.

mod confined;
mod dying;
mod places;
mod stopping;
mod streams;

use crate::named_kernels::{execute, fault, kernel, renew};
use crate::neighbour::Neighbour;
use crate::support::{self, Daemon, await_that, bellhop, run};
use crate::workers::{Over, children};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest_umd::{Adapter, Arguments, Error, KernelError};
use bellhop_integration::hostile_worker::{Begins, Conduct};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Compiling takes too long soon, and so does a kernel.
const CONFIGURATION: &str = "[adapter]\nengine_idle = \"0s\"\nhang_limit = 0\ntimeout = \"1s\"\n\
     kernel_compile_timeout = \"300ms\"\nkernel_processors = 1\n\
     [guest]\nworker_start_burst = 10000\n";

/// The words of the command line of workers that conduct themselves so.
fn hostile(conduct: &Conduct) -> Vec<OsString> {
    conduct.words(Path::new(bellhop().get_program()))
}

fn client(process: Adapter) -> Client {
    Client::new(process, Shape::default()).unwrap()
}

/// Maps a page, and unmaps it: that ends once no engine and no worker reaches the page.
fn flush(client: &Client) -> Result<(), Error> {
    let page = client.device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    page.map(Protection::WRITE).map(drop)
}

/// Runs an attack in one guest while another uses doorbells, kernels and memory, and notices nothing. Returns the other's
/// number of rounds.
fn beside_another(daemon: &Daemon, attack: impl FnOnce(Adapter)) -> u32 {
    beside_another_that_counts(daemon, |process, _| attack(process))
}

/// As [`beside_another`]. The attack sees how many rounds the other has done.
fn beside_another_that_counts(daemon: &Daemon, attack: impl FnOnce(Adapter, &AtomicU32)) -> u32 {
    let [hostile, other] = [0, 1].map(|number| support::guest(daemon, number));
    let (over, done) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|threads| {
        let done = &done;
        let beside = threads.spawn(|| {
            let process = support::adapter_of(&other);
            let mut doorbells = Neighbour::of_process(process.open_process().unwrap());
            let mut client = client(process);
            let good = kernel(&client, "main").unwrap();
            let mut rounds = 0;
            while !over.load(Ordering::Acquire) || rounds < 10 {
                doorbells.work();
                execute(&mut client, &good).unwrap();
                flush(&client).unwrap();
                rounds += 1;
                done.store(rounds, Ordering::Release);
            }
            rounds
        });
        {
            let _over = Over(&over);
            attack(support::adapter_of(&hostile), done);
        }
        beside.join().unwrap()
    })
}

#[test]
fn a_compiler_that_crashes_hangs_or_says_nonsense_costs_that_kernel_alone() {
    let daemon = Daemon::start_with_workers(2, CONFIGURATION, &hostile(&Conduct::default()));
    let rounds = beside_another(&daemon, |process| {
        let mut client = client(process);
        let before = kernel(&client, "before").unwrap();
        for what in [
            "crashes",
            "loads_another",
            "has_run",
            "faults",
            "is_wild",
            "is_ready_again",
            "sends_bytes",
            "sends_much",
            "sends_a_descriptor",
        ] {
            match kernel(&client, what) {
                Err(KernelError::CompilerCrashed { kernel, text }) => {
                    assert!(kernel == what && !text.is_empty(), "{what}: {text:?}");
                }
                other => panic!("{what}: {other:?}"),
            }
            // The guest's next kernel has another compiler, and those that it has go on.
            kernel(&client, &format!("after_{what}")).unwrap();
            execute(&mut client, &before).unwrap();
        }
        let refused = kernel(&client, "refuses").unwrap_err();
        assert!(refused.to_string().contains("no such instruction"), "{refused}");
        // It is not remembered: the next try may succeed.
        for _ in 0..2 {
            match kernel(&client, "is_silent") {
                Err(KernelError::TooSlow { text, .. }) => assert!(text.contains("0.3 s"), "{text}"),
                other => panic!("{other:?}"),
            }
        }
    });
    println!("{rounds} rounds beside bad compilers");
    leaves_nothing(&daemon);
}

#[test]
fn a_worker_that_lies_dies_or_hangs_costs_the_queue_that_it_executes_alone() {
    let daemon = Daemon::start_with_workers(2, CONFIGURATION, &hostile(&Conduct::default()));
    let rounds = beside_another(&daemon, |process| {
        // Another process of the same guest, with a queue on the same engine.
        let mut sibling = client(process.open_process().unwrap());
        let its_kernel = kernel(&sibling, "main").unwrap();
        let mut client = client(process);
        for what in [
            "run_crashes",
            "run_ends_another",
            "run_loads",
            "run_is_ready_again",
            "run_forgets",
            "run_faults_outside",
            "run_faults_nowhere",
            "run_sends_bytes",
            "run_sends_a_descriptor",
        ] {
            let bad = kernel(&client, what).unwrap();
            let fault = fault(execute(&mut client, &bad), what);
            assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{what}: {fault}");
            assert_eq!(fault.address, u64::from(bad.number()), "{what}: {fault}");
            execute(&mut sibling, &its_kernel).unwrap();
            renew(&mut client);
        }
        // These are hangs, as those of any kernel.
        for what in ["run_is_silent", "run_stops", "run_faults_for_ever"] {
            let bad = kernel(&client, what).unwrap();
            let fault = fault(execute(&mut client, &bad), what);
            let reasons = [FaultReason::ENGINE_TIMEOUT, FaultReason::KERNEL_LOST];
            assert!(reasons.contains(&fault.reason), "{what}: {fault}");
            execute(&mut sibling, &its_kernel).unwrap();
            renew(&mut client);
        }
        let good = kernel(&client, "main").unwrap();
        execute(&mut client, &good).unwrap();
    });
    println!("{rounds} rounds beside bad workers");
    leaves_nothing(&daemon);
}

/// It has a page of its guest's mapped, and does not answer when that is taken back.
#[test]
fn a_worker_that_forgets_no_memory_is_killed_before_the_memory_is_anybody_else_s() {
    let daemon = Daemon::start_with_workers(2, CONFIGURATION, &hostile(&Conduct::default()));
    beside_another(&daemon, |process| {
        let mut client = client(process);
        let deaf = kernel(&client, "run_faults").unwrap();
        let mut arguments = Arguments::new();
        arguments.address(client.va(0));
        client.commands.dispatch_kernel(&deaf, [1; 3], &arguments).unwrap();
        let value = client.submit().unwrap();
        await_that("the worker is killed", || {
            flush(&client).unwrap();
            let polled = client.queue.progress_fence().poll(value, Duration::ZERO);
            !matches!(polled, Err(Error::Timeout { .. }))
        });
        let fault = fault(client.finish(value), "run_faults");
        assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{fault}");
    });
    leaves_nothing(&daemon);
}

#[test]
fn workers_that_do_not_start_are_why_there_is_no_kernel_and_nothing_else_fails() {
    for (begins, why) in [
        (Begins::Ends, "ended"),
        (Begins::Refuses, "it wants no kernels"),
        (Begins::Nonsense, "when it could not"),
    ] {
        let conduct = Conduct { begins, ..Conduct::default() };
        let daemon = Daemon::start_with_workers(2, CONFIGURATION, &hostile(&conduct));
        let [guest, other] = [0, 1].map(|number| support::guest(&daemon, number));
        let process = support::adapter_of(&guest);
        let sibling = Neighbour::of_process(process.open_process().unwrap());
        let (client, mut doorbells) = (client(process), [sibling, Neighbour::new(other)]);
        for _ in 0..3 {
            match kernel(&client, "main") {
                Err(KernelError::NoWorker { text, .. }) => assert!(text.contains(why), "{text}"),
                other => panic!("{begins:?}: {other:?}"),
            }
            doorbells.iter_mut().for_each(Neighbour::work);
        }
    }
}

/// Whoever has workers started again and again waits, and nobody else does.
#[test]
fn a_guest_has_workers_started_as_often_as_it_may_and_its_neighbour_waits_for_none_of_that() {
    let configuration = "[adapter]\nengine_idle = \"0s\"\n\
         [guest]\nworker_starts_per_second = 20\nworker_start_burst = 4\n";
    let daemon = Daemon::start_with_workers(2, configuration, &hostile(&Conduct::default()));
    let start = Instant::now();
    let tries = 30;
    let rounds = beside_another(&daemon, |process| {
        let mut client = client(process);
        for _ in 0..tries / 2 {
            let crashed = kernel(&client, "crashes");
            assert!(matches!(crashed, Err(KernelError::CompilerCrashed { .. })), "{crashed:?}");
        }
        let bad = kernel(&client, "run_crashes").unwrap();
        for _ in 0..tries / 2 {
            let fault = fault(execute(&mut client, &bad), "run_crashes");
            assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{fault}");
            renew(&mut client);
        }
    });
    // After a burst of 4, one for each twentieth of a second.
    let least = Duration::from_secs(1) * (tries - 4) / 20;
    assert!(start.elapsed() >= least, "{:?}, not {least:?}", start.elapsed());
    println!("{rounds} rounds beside a guest that waits");
    daemon.await_log("workers were started for it too often");
    // Who connects anew gains nothing, and what waits is not in the way of the guest's end.
    let guest = support::guest(&daemon, 0);
    let again = client(support::adapter_of(&guest));
    let start = Instant::now();
    for _ in 0..10 {
        assert!(kernel(&again, "crashes").is_err());
    }
    assert!(start.elapsed() >= Duration::from_secs(1) * (10 - 4) / 20, "{:?}", start.elapsed());
}

#[test]
fn a_queue_that_waits_until_a_worker_may_be_started_is_no_hang_and_can_be_destroyed() {
    let configuration = "[adapter]\nengine_idle = \"0s\"\ntimeout = \"100ms\"\n\
         [guest]\nworker_starts_per_second = 1\nworker_start_burst = 1\n";
    let daemon = Daemon::start_with_workers(1, configuration, &hostile(&Conduct::default()));
    let guest = support::guest(&daemon, 0);
    let process = support::adapter_of(&guest);
    let [mut waits, mut held] = [(); 2].map(|()| client(process.open_process().unwrap()));
    let mut doorbells = Neighbour::of_process(process.open_process().unwrap());
    // The one worker that may be started at once compiles it. Another may be started after ten time-outs, and a third
    // after twenty.
    let begun = Instant::now();
    let its_kernel = kernel(&waits, "main").unwrap();
    execute(&mut waits, &its_kernel).unwrap();
    // Nothing is compiled for this one: what was compiled for the guest is known.
    let known = kernel(&held, "main").unwrap();
    let mut arguments = Arguments::new();
    arguments.address(held.va(0));
    held.commands.dispatch_kernel(&known, [1; 3], &arguments).unwrap();
    let value = held.submit().unwrap();
    for _ in 0..20 {
        doorbells.work();
        execute(&mut waits, &its_kernel).unwrap();
    }
    let polled = held.queue.progress_fence().poll(value, Duration::ZERO);
    let is_over = begun.elapsed() >= Duration::from_secs(2);
    assert!(is_over || matches!(polled, Err(Error::Timeout { .. })), "{polled:?}");
    drop((held, known));
    execute(&mut waits, &its_kernel).unwrap();
    doorbells.work();
    drop((waits, its_kernel, doorbells, process, guest));
    leaves_nothing(&daemon);
}

/// The test is in the daemon's cgroup, so that there is none to divide.
#[test]
fn a_daemon_without_cgroups_says_once_why_and_tells_tools() {
    let daemon = Daemon::start_with_workers(1, CONFIGURATION, &hostile(&Conduct::default()));
    let line = daemon.await_log("workers have no cgroups: their own limits alone bound them");
    let guest = support::guest(&daemon, 0);
    let mut client = client(support::adapter_of(&guest));
    let good = kernel(&client, "main").unwrap();
    execute(&mut client, &good).unwrap();
    let shown = daemon.snapshot();
    let cgroups = shown.adapter.cgroups.unwrap();
    let why = cgroups.missing.unwrap();
    assert!(cgroups.controllers.is_empty() && line.contains(&why), "{line}: {why}");
    assert!(shown.guests[0].cgroups.is_empty());
    let tree = run(&mut daemon.tool(&["inspect"]));
    assert!(tree.contains(&format!("cgroups    none: {why}\n")), "{tree}");
    let again = daemon.logged().into_iter().filter(|line| line.contains("cgroup"));
    assert_eq!(again.collect::<Vec<_>>(), Vec::<String>::new());
}

/// Ends everything of the guests', which are gone: one worker is left, the next one's.
#[track_caller]
fn leaves_nothing(daemon: &Daemon) {
    await_that("all guests are gone", || daemon.snapshot().guests.is_empty());
    await_that("one worker is left", || children(daemon).len() == 1);
}
