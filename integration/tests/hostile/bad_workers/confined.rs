// SPDX-License-Identifier: MIT OR Apache-2.0

//! Workers that were taken over in the sandbox of workers, and the same outside it: there they do what the sandbox refuses, so
//! that these tests can tell.

use super::stopping::{ROUNDS, begin, daemon_of, executor, is_whole, state};
use super::{
    beside_another, beside_another_that_counts, client, execute, fault, kernel, leaves_nothing,
    renew,
};
use crate::support::await_that;
use bellhop_guest_umd::Error;
use bellhop_integration::hostile_worker::{
    CALLS_LONG, Conduct, RESULT, THEN_SPINS, TRIED, TRIES, UNDOES_STOPS,
};
use bellhop_protocol::event::FaultReason;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// In the sandbox, and outside it.
const BOTH: [bool; 2] = [true, false];

fn conduct(confined: bool) -> Conduct {
    Conduct { confined, ..Conduct::default() }
}

#[test]
fn the_sandbox_refuses_what_would_delay_others_or_take_memory_that_nothing_counts() {
    for confined in BOTH {
        let daemon = daemon_of(&conduct(confined));
        let rounds = beside_another(&daemon, |process| {
            let mut client = client(process);
            let tries = kernel(&client, TRIES).unwrap();
            execute(&mut client, &tries).unwrap();
            let done = client.word(RESULT as usize).unwrap();
            let all: Vec<_> = (0..).zip(TRIED).map(|(bit, what)| (what, done >> bit & 1)).collect();
            let expected = u64::from(!confined);
            assert!(all.iter().all(|(_, done)| *done == expected), "{confined}: {all:?}");
        });
        println!("confined: {confined}, {rounds} rounds beside it");
        leaves_nothing(&daemon);
    }
}

/// Its threads loop on the signal that undoes a stop, or are in one long call after the other. It stops or is killed, and
/// meanwhile the neighbour works.
#[test]
fn a_worker_that_would_rather_not_stop_keeps_neither_its_engine_nor_its_neighbour() {
    for (confined, what) in BOTH.into_iter().flat_map(|c| [(c, UNDOES_STOPS), (c, CALLS_LONG)]) {
        let daemon = daemon_of(&conduct(confined));
        let rounds = beside_another_that_counts(&daemon, |process, rounds| {
            let mut client = client(process);
            for _ in 0..3 {
                let value = begin(&mut client, what);
                let worker = executor(&daemon);
                if what == UNDOES_STOPS {
                    let is_refused = client.word(RESULT as usize).unwrap();
                    assert_eq!(is_refused, u64::from(confined), "a stop is undone by its signal");
                }
                let before = rounds.load(Ordering::Acquire);
                client.context.suspend().unwrap();
                await_that("the neighbour works", || {
                    rounds.load(Ordering::Acquire) >= before + ROUNDS
                });
                await_that("it has stopped or is gone", || {
                    state(worker).is_none_or(|state| state == 'T')
                });
                client.context.resume().unwrap();
                // Its kernel never ends by itself.
                if let Some(process) = Pid::from_raw(worker.cast_signed())
                    && state(worker).is_some()
                {
                    let polled = client.queue.progress_fence().poll(value, Duration::ZERO);
                    assert!(matches!(polled, Err(Error::Timeout { .. })), "{polled:?}");
                    kill_process(process, Signal::KILL).unwrap();
                }
                let fault = fault(client.finish(value), what);
                assert_eq!(fault.reason, FaultReason::KERNEL_LOST, "{fault}");
                renew(&mut client);
            }
        });
        println!("confined: {confined}, {rounds} rounds beside {what}");
        assert!(is_whole(&daemon));
        leaves_nothing(&daemon);
    }
}

#[test]
fn a_confined_worker_that_spins_without_work_does_not_do_so_for_long() {
    let daemon = daemon_of(&conduct(true));
    let rounds = beside_another(&daemon, |process| {
        let mut client = client(process);
        let spins = kernel(&client, THEN_SPINS).unwrap();
        for _ in 0..3 {
            execute(&mut client, &spins).unwrap();
            let worker = executor(&daemon);
            await_that("it has stopped or is gone", || {
                state(worker).is_none_or(|state| state == 'T')
            });
        }
    });
    println!("{rounds} rounds beside a confined worker that does not rest");
    assert!(is_whole(&daemon));
    leaves_nothing(&daemon);
}
