// SPDX-License-Identifier: MIT OR Apache-2.0

//! What guests' kernels take of the host is shared and counted: the places of workers, descriptors, and the time that
//! compiling takes.

use super::{CONFIGURATION, beside_another, client, execute, hostile, kernel};
use crate::support::{self, Daemon, await_that};
use bellhop_guest::client::Client;
use bellhop_guest_umd::{Arguments, Error, Kernel};
use bellhop_integration::hostile_worker::{Conduct, TAKES_LONG};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// So many places for all workers and for those of a guest.
fn places(places: u32, per_guest: u32) -> String {
    format!(
        "[adapter]\nengine_idle = \"0s\"\nkernel_workers = {places}\n\
         kernel_workers_per_guest = {per_guest}\n[guest]\nworker_start_burst = 10000\n"
    )
}

/// The processes that an engine has for a guest.
fn workers(daemon: &Daemon, guest: u64) -> Vec<u32> {
    let workers = daemon.snapshot().workers.into_iter();
    let executing = workers.filter(|worker| worker.guest == Some(guest) && worker.node.is_some());
    executing.filter_map(|worker| worker.pid).collect()
}

/// The id of the guest that has just been attached.
fn latest(daemon: &Daemon) -> u64 {
    daemon.snapshot().guests.iter().map(|guest| guest.id).max().unwrap()
}

/// A process with a kernel.
fn runner(client: Client, entry_point: &str) -> (Client, Kernel) {
    let its_kernel = kernel(&client, entry_point).unwrap();
    (client, its_kernel)
}

/// Begins to execute a kernel; returns the value that the progress fence then gets.
fn begin((client, kernel): &mut (Client, Kernel)) -> u64 {
    let mut arguments = Arguments::new();
    arguments.address(client.va(0));
    client.commands.reset();
    client.commands.dispatch_kernel(kernel, [1; 3], &arguments).unwrap();
    client.submit().unwrap()
}

#[test]
fn a_guest_within_its_share_of_places_keeps_them_whatever_another_one_wants() {
    let daemon = Daemon::start_with_workers(2, &places(2, 2), &hostile(&Conduct::default()));
    let modest = support::guest(&daemon, 0);
    let mut within = runner(client(support::adapter_of(&modest)), "main");
    let id = latest(&daemon);
    execute(&mut within.0, &within.1).unwrap();
    await_that("its worker is listed", || workers(&daemon, id).len() == 1);
    let its_worker = workers(&daemon, id);
    let greedy = support::guest(&daemon, 1);
    let process = support::adapter_of(&greedy);
    let mut others = [(); 3].map(|()| runner(client(process.open_process().unwrap()), "main"));
    for _ in 0..5 {
        for (client, its_kernel) in &mut others {
            execute(client, its_kernel).unwrap();
        }
    }
    assert_eq!(workers(&daemon, id), its_worker, "its worker was ended for another guest");
    execute(&mut within.0, &within.1).unwrap();
    assert_eq!(workers(&daemon, id), its_worker);
}

#[test]
fn a_guest_beyond_its_share_of_places_loses_one_to_a_guest_that_has_none() {
    let daemon = Daemon::start_with_workers(2, &places(2, 2), &hostile(&Conduct::default()));
    let greedy = support::guest(&daemon, 0);
    let process = support::adapter_of(&greedy);
    let id = latest(&daemon);
    let mut all = [(); 2].map(|()| runner(client(process.open_process().unwrap()), "main"));
    for (client, its_kernel) in &mut all {
        execute(client, its_kernel).unwrap();
    }
    await_that("it has all places", || workers(&daemon, id).len() == 2);
    let other = support::guest(&daemon, 1);
    let mut modest = runner(client(support::adapter_of(&other)), "main");
    execute(&mut modest.0, &modest.1).unwrap();
    await_that("it has its share", || workers(&daemon, id).len() == 1);
    // Both of its processes go on, one after the other.
    for (client, its_kernel) in &mut all {
        execute(client, its_kernel).unwrap();
    }
}

/// Whoever ends another guest's worker does not use up what that one may start.
#[test]
fn a_start_that_another_guest_has_caused_is_not_charged() {
    // A start for the compiler and one for each process: then nothing is left for a second.
    let configuration = "[adapter]\nengine_idle = \"0s\"\nkernel_workers = 2\n\
         kernel_workers_per_guest = 2\n\
         [guest]\nworker_starts_per_second = 1\nworker_start_burst = 3\n";
    let daemon = Daemon::start_with_workers(2, configuration, &hostile(&Conduct::default()));
    let [guest, other] = [0, 1].map(|number| support::guest(&daemon, number));
    let process = support::adapter_of(&guest);
    let mut all = [(); 2].map(|()| runner(client(process.open_process().unwrap()), "main"));
    for (client, its_kernel) in &mut all {
        execute(client, its_kernel).unwrap();
    }
    let mut another = runner(client(support::adapter_of(&other)), "main");
    // This ends the worker of the first process, which has another one at once.
    execute(&mut another.0, &another.1).unwrap();
    let (client, its_kernel) = &mut all[0];
    execute(client, its_kernel).unwrap();
    let waited = daemon.logged().into_iter().find(|line| line.contains("too often"));
    assert_eq!(waited, None);
}

/// A worker that has stopped has accepted work, so it keeps what it has, and others have places beside it.
#[test]
fn a_guest_that_is_suspended_keeps_no_place_from_another_and_loses_no_work() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    mknodat(CWD, &told, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let conduct = Conduct { told: Some(told.clone()), ..Conduct::default() };
    let daemon = Daemon::start_with_workers(2, &places(1, 1), &hostile(&conduct));
    let [guest, other] = [0, 1].map(|number| support::guest(&daemon, number));
    let mut suspended = runner(client(support::adapter_of(&guest)), "run_until_told");
    let value = begin(&mut suspended);
    let is_running = || daemon.snapshot().workers.iter().any(|worker| worker.state == "running");
    await_that("its kernel is executed", is_running);
    suspended.0.context.suspend().unwrap();
    let mut beside = runner(client(support::adapter_of(&other)), "main");
    for _ in 0..3 {
        execute(&mut beside.0, &beside.1).unwrap();
    }
    let early = suspended.0.queue.progress_fence().poll(value, Duration::ZERO);
    assert!(matches!(early, Err(Error::Timeout { .. })), "{early:?}");
    suspended.0.context.resume().unwrap();
    tell(&told);
    suspended.0.finish(value).unwrap();
    execute(&mut beside.0, &beside.1).unwrap();
}

/// Lets a kernel end that waits for it.
fn tell(told: &Path) {
    drop(File::options().write(true).open(told).unwrap());
}

/// The number of the daemon's descriptors.
fn descriptors(daemon: &Daemon) -> usize {
    fs::read_dir(format!("/proc/{}/fd", daemon.id())).unwrap().count()
}

#[test]
fn a_guest_s_kernels_take_no_descriptors_of_the_daemon_s_however_many_they_are() {
    let daemon = Daemon::start_with_workers(1, CONFIGURATION, &hostile(&Conduct::default()));
    let guest = support::guest(&daemon, 0);
    let (mut client, first) = runner(client(support::adapter_of(&guest)), "main");
    execute(&mut client, &first).unwrap();
    let has_spare = || daemon.snapshot().workers.iter().any(|worker| worker.state == "spare");
    await_that("a worker is ready", has_spare);
    let before = descriptors(&daemon);
    let many: Vec<_> =
        (0..200).map(|number| kernel(&client, &format!("main_{number}")).unwrap()).collect();
    // A tool that asks has one, for a moment.
    await_that("kernels have no descriptors", || descriptors(&daemon) <= before + 2);
    execute(&mut client, &many[199]).unwrap();
}

/// After what may be compiled at once, a guest's compilers have half a processor.
#[test]
fn a_guest_whose_kernels_take_long_to_compile_waits_and_its_neighbour_does_not() {
    let configuration = "[adapter]\nengine_idle = \"0s\"\n\
         [guest]\nkernel_compile_time_per_second = \"500ms\"\nkernel_compile_burst = \"100ms\"\n";
    let daemon = Daemon::start_with_workers(2, configuration, &hostile(&Conduct::default()));
    let start = Instant::now();
    let rounds = beside_another(&daemon, |process| {
        let client = client(process);
        for number in 0..3 {
            kernel(&client, &format!("takes_long_{number}")).unwrap();
        }
    });
    println!("{rounds} rounds beside a guest that compiles");
    // The third begins when the first two are paid. Linux counts in ticks.
    let least = 2 * (2 * TAKES_LONG - Duration::from_millis(100 + 2 * 10));
    assert!(start.elapsed() >= least, "{:?}, not {least:?}", start.elapsed());
    daemon.await_log("its kernels took too long to compile");
}
