// SPDX-License-Identifier: MIT OR Apache-2.0

//! Physical doorbells that guests share, over the real transport: a guest with many queues takes no doorbell from
//! another guest within its share.

use crate::alone;
use crate::support::{self, Daemon};
use bellhop_guest::client::Client;
use bellhop_guest_umd::UserModeQueue;
use bellhop_protocol::doorbell::ConnectionStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Each of two guests has a share of three.
const DOORBELLS: &str = "[adapter]\nphysical_doorbells = 6\nengine_idle = \"0s\"\n";
const SHARE: usize = 3;
/// Queues of the greedy guest, and the number of passes over them.
const QUEUES: usize = 100;
const PASSES: usize = 100;

/// A guest that rings some doorbells in turn.
struct Ringer {
    queues: Vec<UserModeQueue>,
    client: Client,
}

impl Ringer {
    fn new(daemon: &Daemon, number: usize, queues: usize) -> Self {
        let client = support::client(daemon, number);
        let queue = |_| client.context.create_user_mode_queue(4096).unwrap();
        Self { queues: (0..queues).map(queue).collect(), client }
    }

    /// Submits to each of these queues, and waits.
    fn run(&mut self, queues: impl IntoIterator<Item = usize>) {
        for queue in queues {
            self.client.run_on(&mut self.queues[queue]).unwrap();
        }
    }

    fn victims(&self) -> u64 {
        self.client.process.statistics().unwrap().victims
    }

    fn connects(&self) -> Vec<u64> {
        self.queues.iter().map(|queue| queue.counters().connects).collect()
    }
}

#[test]
fn a_guest_that_rings_ten_thousand_times_disconnects_no_doorbell_of_anothers_share() {
    let _alone = alone();
    let daemon = Daemon::start_with(2, DOORBELLS);
    let mut neighbour = Ringer::new(&daemon, 0, SHARE);
    let mut greedy = Ringer::new(&daemon, 1, QUEUES);
    neighbour.run(0..SHARE);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            // The neighbour seldom uses one of its doorbells, which must not make it a victim.
            while !stop.load(Ordering::Relaxed) {
                neighbour.run(1..SHARE);
                thread::yield_now();
            }
        });
        for _ in 0..PASSES {
            greedy.run(0..QUEUES);
        }
        stop.store(true, Ordering::Relaxed);
        busy.join().unwrap();
    });
    neighbour.run(0..SHARE);
    assert_eq!(neighbour.connects(), [1; SHARE], "a doorbell was disconnected");
    assert_eq!(neighbour.victims(), 0);
    assert!(greedy.victims() > (QUEUES * PASSES / 2) as u64, "{}", greedy.victims());
}

#[test]
fn a_guest_that_comes_late_gets_its_share_back_from_one_that_had_borrowed_it() {
    let _alone = alone();
    let daemon = Daemon::start_with(2, DOORBELLS);
    let mut first = Ringer::new(&daemon, 0, 2 * SHARE);
    // No other guest wants a doorbell yet.
    first.run((0..2 * SHARE).chain(0..2 * SHARE));
    assert_eq!((first.connects(), first.victims()), (vec![1; 2 * SHARE], 0));
    let mut late = Ringer::new(&daemon, 1, SHARE);
    late.run((0..SHARE).chain(0..SHARE));
    assert_eq!((late.connects(), late.victims()), (vec![1; SHARE], 0));
    assert_eq!(first.victims(), SHARE as u64);
}

#[test]
fn a_share_is_what_the_configuration_says() {
    let _alone = alone();
    let reserved = format!("{DOORBELLS}[guest]\nphysical_doorbells_reserved = 1\n");
    let daemon = Daemon::start_with(2, &reserved);
    let mut first = Ringer::new(&daemon, 0, 2 * SHARE);
    first.run(0..2 * SHARE);
    let mut late = Ringer::new(&daemon, 1, 2);
    late.run([0, 1]);
    assert_eq!((first.victims(), late.victims()), (1, 1));
}

#[test]
fn the_doorbell_that_was_rung_least_recently_goes_and_one_that_rings_all_the_time_does_not() {
    let _alone = alone();
    // The engine does not sleep, so no request tells the kernel of a ring.
    let configuration = "[adapter]\nphysical_doorbells = 3\nengine_idle = \"0s\"\nspin = \"1s\"\n";
    let daemon = Daemon::start_with(1, configuration);
    let mut ringer = Ringer::new(&daemon, 0, 5);
    // Connected in this order, and rung in another.
    ringer.run([0, 1, 2, 2, 0, 1, 0]);
    assert_eq!(ringer.connects(), [1, 1, 1, 0, 0]);
    ringer.run([3]);
    let status = |ringer: &Ringer, queue: usize| ringer.queues[queue].status();
    assert_eq!(status(&ringer, 2), ConnectionStatus::DISCONNECTED_RETRY);
    ringer.run([0]);
    ringer.run([4]);
    assert_eq!(status(&ringer, 1), ConnectionStatus::DISCONNECTED_RETRY);
    ringer.run([0, 3, 4]);
    assert_eq!(ringer.connects(), [1, 1, 1, 1, 1]);
}
