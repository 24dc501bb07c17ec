// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest that works and checks its results beside hostile ones.

use crate::support::{self, Daemon};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::Adapter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SIZE: usize = 8192;

/// A guest that fills a piece of memory with another number each time.
pub struct Neighbour {
    client: Client,
    rounds: u32,
}

impl Neighbour {
    pub fn new(guest: Arc<FakeGuest>) -> Self {
        Self::of_process(support::adapter_of(&guest))
    }

    /// The same in one of several processes of a guest.
    pub fn of_process(process: Adapter) -> Self {
        let shape = Shape { memory: SIZE as u64, ..Shape::default() };
        Self { client: Client::new(process, shape).unwrap(), rounds: 0 }
    }

    /// One round: submits, waits, and checks every byte.
    pub fn work(&mut self) {
        self.rounds += 1;
        let client = &mut self.client;
        client.commands.fill(client.memory.gpu_va(), SIZE as u64, self.rounds).unwrap();
        client.run().unwrap();
        let bytes = client.read(0, SIZE).unwrap();
        assert!(bytes.chunks(4).all(|word| word == self.rounds.to_le_bytes()));
    }
}

/// Runs `attack` in one guest while another works and checks; returns the other's number of rounds.
pub fn beside_a_neighbour(daemon: &Daemon, attack: impl FnOnce(Arc<FakeGuest>)) -> u32 {
    let (hostile, guest) = (support::guest(daemon, 0), support::guest(daemon, 1));
    let over = AtomicBool::new(false);
    thread::scope(|threads| {
        let neighbour = threads.spawn(|| {
            let mut neighbour = Neighbour::new(guest);
            while !over.load(Ordering::Acquire) || neighbour.rounds < 100 {
                neighbour.work();
            }
            neighbour.rounds
        });
        attack(hostile);
        over.store(true, Ordering::Release);
        neighbour.join().unwrap()
    })
}
