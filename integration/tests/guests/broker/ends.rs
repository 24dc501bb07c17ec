// SPDX-License-Identifier: MIT OR Apache-2.0

//! The end of a broker, or of its device, as programs and the daemon see it.

use super::{client, processes};
use crate::support::brokers::Brokered;
use crate::support::{self, Daemon, TIMEOUT, await_that, submit_once};
use bellhop_guest::client::Client;
use bellhop_guest_umd::Error;
use bellhop_guest_umd::transport::TransportError;
use std::fs::read_dir;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

#[test]
fn the_end_of_the_broker_is_the_end_of_the_device_and_a_new_one_serves_again() {
    let daemon = Daemon::start(1);
    let mut brokered = Brokered::start(&daemon, 0, &[]);
    let mut program = client(&brokered);
    submit_once(&mut program);
    let fence = program.device.create_fence(0).unwrap();
    let waited = thread::scope(|threads| {
        let waiter = threads.spawn(|| fence.wait(1, TIMEOUT));
        brokered.kill();
        waiter.join().unwrap()
    });
    assert!(waited.unwrap_err().is_device_gone());
    let gone = program.device.create_fence(0).err().unwrap();
    assert!(matches!(gone, Error::Transport(TransportError::Disconnected(_))), "{gone:?}");
    drop((fence, program));
    await_that("the guest has gone", || processes(&daemon) == 0);
    let again = Brokered::start(&daemon, 0, &[]);
    submit_once(&mut client(&again));
}

#[test]
fn the_end_of_the_daemon_reaches_programs_through_the_broker() {
    let daemon = Daemon::start(1);
    let brokered = Brokered::start(&daemon, 0, &[]);
    let program = client(&brokered);
    let fence = program.device.create_fence(0).unwrap();
    let waited = thread::scope(|threads| {
        let waiter = threads.spawn(|| fence.wait(1, TIMEOUT));
        drop(daemon);
        waiter.join().unwrap()
    });
    assert!(waited.unwrap_err().is_device_gone());
}

/// Descriptors and threads of the daemon's process.
fn possessions(daemon: &Daemon) -> [usize; 2] {
    let entries = |name| read_dir(format!("/proc/{}/{name}", daemon.id())).unwrap().count();
    [entries("fd"), entries("task")]
}

/// What a program does again and again.
type Work = fn(&mut Client) -> Result<(), Error>;

/// Work through the doorbell, requests, waits that block.
const WORK: [Work; 3] = [
    |program| {
        program.commands.nop()?;
        program.run()
    },
    |program| program.device.create_fence(0).map(drop),
    |program| {
        program.commands.nop()?;
        let value = program.submit()?;
        program.queue.progress_fence().wait(value, TIMEOUT)
    },
];

/// Programs that work when their broker dies, each in its way, and what that leaves.
#[test]
fn a_broker_that_dies_under_load_leaves_nothing_and_all_its_programs_learn_of_it() {
    let daemon = Daemon::start(1);
    let [_, threads] = possessions(&daemon);
    // Engines open files of their own when they begin.
    submit_once(&mut support::client(&daemon, 0));
    let has_gone = || processes(&daemon) == 0 && possessions(&daemon)[1] == threads;
    await_that("the first guest has gone", has_gone);
    let before = possessions(&daemon);
    for round in 0..3 {
        let mut brokered = Brokered::start(&daemon, 0, &["--programs-of-user", "16"]);
        let ready = Barrier::new(3 * WORK.len() + 1);
        let learned = thread::scope(|threads| {
            let programs: Vec<_> = WORK
                .iter()
                .cycle()
                .take(3 * WORK.len())
                .map(|work| {
                    let (mut program, ready) = (client(&brokered), &ready);
                    threads.spawn(move || {
                        work(&mut program).unwrap();
                        ready.wait();
                        let error =
                            std::iter::repeat_with(|| work(&mut program)).find_map(Result::err);
                        (Instant::now(), error.unwrap())
                    })
                })
                .collect();
            ready.wait();
            let death = Instant::now();
            brokered.kill();
            let learned = programs.into_iter().map(|program| {
                let (when, error) = program.join().unwrap();
                assert!(error.is_device_gone(), "{error:?}");
                when.duration_since(death)
            });
            learned.max().unwrap()
        });
        println!("round {round}: the last program knew after {learned:?}");
        await_that("the guest has gone", || processes(&daemon) == 0);
        let is_more = || possessions(&daemon).iter().zip(&before).any(|(now, then)| now > then);
        await_that("nothing is left", || !is_more());
    }
    submit_once(&mut client(&Brokered::start(&daemon, 0, &[])));
}
