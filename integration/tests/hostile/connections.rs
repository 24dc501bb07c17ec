// SPDX-License-Identifier: MIT OR Apache-2.0

//! Containers that misuse a socket with several connections. Their neighbours at another socket, and the other guests of
//! the same one, go on.

use crate::neighbour::Neighbour;
use crate::seed;
use crate::support::{self, Daemon, TIMEOUT, await_that};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::hostile::{FEATURES, Hostile, HostileVmm};
use bellhop_guest_umd::Error;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Two sockets with so many connections each.
fn start(connections: u32) -> Daemon {
    Daemon::start_with(2, &format!("[guest]\nconnections = {connections}\n"))
}

/// A sibling at the first socket, and a neighbour at the second, which work and check their results.
fn others(daemon: &Daemon) -> [Neighbour; 2] {
    [0, 1].map(|socket| Neighbour::new(support::guest(daemon, socket)))
}

/// Has all of them do some rounds.
fn work(others: &mut [Neighbour; 2]) {
    for other in others {
        (0..10).for_each(|_| other.work());
    }
}

#[test]
fn who_connects_and_leaves_in_a_loop_disturbs_nobody() {
    let mut daemon = start(4);
    let mut others = others(&daemon);
    work(&mut others);
    let before = daemon.resources();
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        for number in 0..3 {
            let (socket, over) = (daemon.socket(0), &over);
            threads.spawn(move || {
                let mut rounds = 0_u32;
                while !over.load(Ordering::Acquire) {
                    match rounds % 3 {
                        // It says nothing, or stops in the middle of a conversation.
                        0 => drop(UnixStream::connect(&socket)),
                        1 => {
                            let vmm = HostileVmm::connect(&socket);
                            let _ = vmm.and_then(|vmm| vmm.negotiate(FEATURES));
                        }
                        // A guest with all that a guest has.
                        _ => {
                            let options = GuestOptions::default();
                            drop(FakeGuest::connect(&socket, options));
                        }
                    }
                    rounds += 1;
                }
                println!("container {number} came {rounds} times");
            });
        }
        (0..50).for_each(|_| work(&mut others));
        over.store(true, Ordering::Release);
    });
    assert!(daemon.is_running());
    // Nothing is left of them, and there are places for others.
    daemon.await_resources(before);
    let mut next: Vec<_> = (0..3).map(|_| Neighbour::new(support::guest(&daemon, 0))).collect();
    next.iter_mut().for_each(Neighbour::work);
    work(&mut others);
}

#[test]
fn who_takes_all_places_and_does_nothing_keeps_only_its_own_socket() {
    let daemon = start(4);
    let mut others = others(&daemon);
    let idle: Vec<_> = (0..3).map(|_| UnixStream::connect(daemon.socket(0)).unwrap()).collect();
    await_that("it has all places", || {
        let refused = HostileVmm::connect(&daemon.socket(0)).unwrap();
        refused.is_hung_up_within(TIMEOUT / 1000)
    });
    for _ in 0..20 {
        let mut refused = UnixStream::connect(daemon.socket(0)).unwrap();
        refused.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert_eq!(refused.read(&mut [0; 1]).unwrap_or(0), 0, "its connection ends");
        work(&mut others);
    }
    // The neighbour's socket has its places.
    let mut more = Neighbour::new(support::guest(&daemon, 1));
    more.work();
    drop(idle);
    let mut next = Neighbour::new(support::guest(&daemon, 0));
    next.work();
    work(&mut others);
}

#[test]
fn guests_that_attack_at_once_leave_their_siblings_and_neighbours_their_parts() {
    let mut daemon = start(4);
    let mut others = others(&daemon);
    let guests: Vec<_> = (0..3).map(|_| support::guest(&daemon, 0)).collect();
    let attacks: Vec<_> = guests
        .iter()
        .zip(seed()..)
        .map(|(guest, seed)| Hostile::begin(guest, seed).unwrap())
        .collect();
    let has_attacked = |attack: &Hostile| attack.done().iter().all(|(_, steps)| *steps >= 20);
    await_that("each has tried everything", || {
        work(&mut others);
        attacks.iter().all(has_attacked)
    });
    assert!(daemon.is_running());
    drop((attacks, guests));
    work(&mut others);
    let mut next = Neighbour::new(support::guest(&daemon, 0));
    next.work();
}

#[test]
fn a_guest_that_takes_all_memory_and_queues_it_can_leaves_its_sibling_its_part() {
    let daemon = start(2);
    let mut others = others(&daemon);
    let greedy = support::client(&daemon, 0);
    let (mut queues, mut memory) = (Vec::new(), Vec::new());
    // Until the device refuses: a queue, then a MiB.
    let is_refusal = |error: &Error| matches!(error, Error::Refused { .. });
    loop {
        match greedy.context.create_user_mode_queue(4096) {
            Ok(queue) => queues.push(queue),
            Err(error) => {
                assert!(is_refusal(&error), "{error}");
                break;
            }
        }
    }
    loop {
        match greedy.device.allocation(1 << 20).create() {
            Ok(allocation) => memory.push(allocation),
            Err(error) => {
                assert!(is_refusal(&error), "{error}");
                break;
            }
        }
    }
    println!("{} queues, {} MiB", queues.len(), memory.len());
    work(&mut others);
    let mut late = Neighbour::of_process(support::adapter_of(&support::guest(&daemon, 1)));
    late.work();
}
