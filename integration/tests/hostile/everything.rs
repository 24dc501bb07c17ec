// SPDX-License-Identifier: MIT OR Apache-2.0

//! All attacks at once and at full speed.

use crate::neighbour::{Neighbour, beside_a_neighbour};
use crate::seed;
use crate::support::{self, Daemon, TIMEOUT, await_that};
use bellhop_guest::client::Shape;
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::hostile::{Hostile, Noise};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The kernel detects hangs soon, and a guest may hang any number of times.
const CONFIGURATION: &str = "[adapter]\nphysical_doorbells = 16\ntimeout = \"200ms\"\nhang_limit = 0\n\
     [guest]\nlocal_memory = \"16MiB\"\nobjects = 4096\nfences = 1024\n";

/// Guests that connect, misbehave a little, and go.
fn come_and_go(socket: &Path, seed: u64, over: &AtomicBool) -> u64 {
    let mut noise = Noise::new(seed);
    let mut times = 0;
    while !over.load(Ordering::Acquire) {
        times += 1;
        if noise.below(4) == 0 {
            let mut peer = UnixStream::connect(socket).unwrap();
            let length = noise.below(300);
            // The daemon may hang up before it has read everything.
            let _ = peer.write_all(&noise.bytes(length));
            continue;
        }
        let guest = FakeGuest::connect(socket, GuestOptions::default()).unwrap();
        let hostile = Hostile::begin(&guest, noise.number()).unwrap();
        for _ in 0..noise.below(3) {
            guest.reset().unwrap();
        }
        guest.kill();
        drop(hostile);
    }
    times
}

#[test]
fn everything_wrong_at_once_changes_no_result_of_a_neighbours() {
    let daemon = Daemon::start_with(3, CONFIGURATION);
    let (seed, over) = (seed(), AtomicBool::new(false));
    let mut tried = Vec::new();
    let mut came = 0;
    let rounds = thread::scope(|threads| {
        let socket = daemon.socket(2);
        let visitors = threads.spawn(|| {
            let socket = socket;
            come_and_go(&socket, seed, &over)
        });
        let rounds = beside_a_neighbour(&daemon, |guest| {
            let hostile = Hostile::begin(&guest, seed).unwrap();
            let far =
                |(name, done): &(&str, u64)| *done >= if *name == "requests" { 5000 } else { 20 };
            while !tried.iter().all(far) || tried.is_empty() {
                thread::yield_now();
                tried = hostile.done();
            }
            drop(hostile);
            assert_eq!(guest.violations(), [], "QEMU would not have survived that");
        });
        over.store(true, Ordering::Release);
        came = visitors.join().unwrap();
        rounds
    });
    println!("the neighbour did {rounds} rounds beside {tried:?} and {came} visits");
    // All three sockets serve their next guest.
    for socket in 0..3 {
        Neighbour::new(support::guest(&daemon, socket)).work();
    }
}

/// The engine time of each guest so far, in the order in which guests attached.
fn engine_times(daemon: &Daemon) -> Vec<u64> {
    let guests = daemon.snapshot().guests;
    guests.iter().map(|guest| guest.statistics.engine_time).collect()
}

/// The neighbour's work is queued from the beginning, so that its share does not depend on its speed.
#[test]
fn a_hostile_guest_gets_no_more_of_the_engine_than_its_neighbour() {
    const SUBMISSIONS: usize = 64;
    const FILLS: usize = 16;
    const SIZE: u64 = 4 << 20;
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let shape = Shape { ring: 64 << 10, memory: SIZE, ..Shape::default() };
    let mut client = support::client_of(&support::guest(&daemon, 0), shape);
    let mut commands = Vec::new();
    for _ in 0..SUBMISSIONS {
        let mut buffer = client.more_commands(1024).unwrap();
        for _ in 0..FILLS {
            buffer.fill(client.va(0), SIZE, 7).unwrap();
        }
        commands.push(buffer);
    }

    let guest = support::guest(&daemon, 1);
    let hostile = Hostile::begin(&guest, seed()).unwrap();
    let has_begun = |(name, done): &(&str, u64)| *name != "much-work" || *done > 1;
    await_that("much work has begun", || hostile.done().iter().all(has_begun));
    let before = engine_times(&daemon);
    for commands in &mut commands {
        client.queue.submit(commands).unwrap();
    }
    client.queue.progress_fence().wait(client.queue.last_value(), TIMEOUT).unwrap();
    let after = engine_times(&daemon);
    let [mine, its] = [0, 1].map(|guest: usize| after[guest] - before[guest]);
    println!(
        "of engines' time the neighbour had {} ms, the hostile guest {} ms",
        mine / 1_000_000,
        its / 1_000_000
    );
    // The hostile guest has work for three engines, and the neighbour for one, which they share.
    assert!(mine > its / 6, "{mine} ns beside {its} ns");
    drop(hostile);
}
