// SPDX-License-Identifier: MIT OR Apache-2.0

//! Who pays for the time for which an engine stands in a hole.

use super::{HOLE, TRIES, stands};
use crate::support::{self, Daemon, await_that, guest_with};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{FakeGuest, GuestOptions};
use bellhop_guest::hostile::Punch;
use bellhop_protocol::snapshot::Guest;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Fills of half of the memory, as many as keep an engine busy while a hole is made.
const FILLS: u32 = 200;

/// A guest with work that is not submitted yet, in half of its memory. Fast memory takes half a second for it.
fn busy(daemon: &Daemon, number: usize) -> (Arc<FakeGuest>, Client) {
    let guest = guest_with(daemon, number, GuestOptions { ram: HOLE, ..GuestOptions::default() });
    let shape = Shape { memory: HOLE / 2, commands: 16 << 10, ..Shape::default() };
    let mut client = Client::new(support::adapter_of(&guest), shape).unwrap();
    // All of it is there before.
    client.commands.fill(client.memory.gpu_va(), HOLE / 2, 0).unwrap();
    client.run().unwrap();
    for value in 1..FILLS {
        client.commands.fill(client.memory.gpu_va(), HOLE / 2, value).unwrap();
    }
    (guest, client)
}

/// The engine time of a guest.
fn engine_time(daemon: &Daemon, guest: u64) -> Duration {
    let of = |guests: Vec<Guest>| guests.into_iter().find(|of| of.id == guest);
    let engine_time = of(daemon.snapshot().guests).map_or(0, |guest| guest.statistics.engine_time);
    Duration::from_nanos(engine_time)
}

/// The guest that was attached last.
fn latest(daemon: &Daemon) -> u64 {
    daemon.snapshot().guests.iter().map(|guest| guest.id).max().unwrap()
}

/// What a hole was in which an engine stood, and what it cost the guest that punched it.
struct Stood {
    hole: Duration,
    charged: Duration,
    /// Unmapping it takes as long again.
    _punch: Punch,
}

/// Has the front end of socket 0 punch memory that an engine is in all the time. `None` if the engine was elsewhere during
/// some of it, or it took less than that.
fn stand(daemon: &Daemon, mappings: usize, least: Duration) -> Option<Stood> {
    let (hostile, mut client) = busy(daemon, 0);
    let guest = latest(daemon);
    let punch = Punch::prepare(&hostile.memory_file().unwrap(), mappings).unwrap();
    let (now, over) = (|| engine_time(daemon, guest), AtomicBool::new(false));
    let (hole, stood, charged) = thread::scope(|threads| {
        let before = now();
        client.submit().unwrap();
        await_that("its engine is in its memory", || now() > before);
        let punching = threads.spawn(|| {
            let start = Instant::now();
            punch.punch().unwrap();
            over.store(true, Ordering::Release);
            start.elapsed()
        });
        // A turn is charged when it ends: the most that is charged between two looks is what the hole cost.
        let (mut looks, mut stood, mut charged, mut last) = (0, 0, Duration::ZERO, now());
        let mut look = || {
            let latest = now();
            (charged, last) = (charged.max(latest - last), latest);
            charged
        };
        while !over.load(Ordering::Acquire) {
            looks += 1;
            stood += u32::from(stands(daemon));
            look();
        }
        // The turn has ended when another has.
        await_that("the turn has ended", || !stands(daemon));
        let after = now();
        await_that("another has", || now() > after);
        let charged = look();
        (punching.join().unwrap(), f64::from(stood) / f64::from(looks), charged)
    });
    // Its memory is another, so it cannot say goodbye.
    std::mem::forget(client);
    hostile.kill();
    await_that("it is gone", || daemon.snapshot().guests.iter().all(|left| left.id != guest));
    println!("{mappings} mappings: {hole:?}, stood for {stood:.2} of it; charged {charged:?}");
    (stood > 0.5 && hole > least).then_some(Stood { hole, charged, _punch: punch })
}

/// As [`stand`], with as many mappings as it takes.
fn have_stood(daemon: &Daemon, least: Duration) -> Stood {
    let mut tries = (0..TRIES).map(|doubled| 300 << doubled);
    tries.find_map(|mappings| stand(daemon, mappings, least)).expect("no engine stood")
}

/// A long hole: a guest connects in less.
const LONG: Duration = Duration::from_secs(1);
/// Submissions of a guest's work that take longer than what a guest makes up for, however fast memory is.
const SUBMISSIONS: u32 = 32;
/// Longer than any of the holes.
const PATIENT: &str = "[adapter]\ntimeout = \"60s\"\n";

#[test]
fn a_hole_counts_as_engine_time_of_the_guest_that_punches_it() {
    let daemon = Daemon::start_with(1, PATIENT);
    let Stood { hole, charged, .. } = have_stood(&daemon, LONG / 2);
    assert!(charged >= hole / 2, "others pay for it");
}

#[test]
fn a_guest_that_connects_anew_makes_up_for_the_holes_of_the_one_before() {
    let daemon = Daemon::start_with(2, PATIENT);
    let (_neighbour, mut other) = busy(&daemon, 1);
    let neighbour = latest(&daemon);
    let stood = have_stood(&daemon, LONG);
    // The neighbour has nothing to make up for, and work until the guest has had a turn.
    let before = engine_time(&daemon, neighbour);
    let submissions = (0..SUBMISSIONS).map(|_| other.submit().unwrap());
    let last = submissions.last().unwrap();
    // This ends with a turn of the guest's.
    let _again = busy(&daemon, 0);
    let waited = engine_time(&daemon, neighbour) - before;
    println!("the neighbour had {waited:?} before its turn");
    let done = other.queue.progress_fence().current_value().unwrap();
    assert!(done < last, "the neighbour had no work left");
    assert!(waited >= stood.charged.min(LONG) * 2 / 3, "{waited:?}");
}
