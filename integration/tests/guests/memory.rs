// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ten times more memory than there is, used at random by several guests.

use crate::support::{self, Daemon};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::{Allocation, GpuMapping};
use bellhop_protocol::control::allocation::{PRIORITY_LOW, PRIORITY_NORMAL, SegmentSet};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::packet::dispatch::Kernel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

const LOCAL_MIB: u64 = 4;
const SIZE: u64 = 256 << 10;
/// Ten times as many as local memory holds.
const COUNT: usize = (10 * LOCAL_MIB * (1 << 20) / SIZE) as usize;
/// Most allocations wanted resident at a time: more than local memory holds.
const WANTED: usize = 24;
const ROUNDS: usize = 300;

/// An allocation and its contents: nothing, or a stream of random words from this seed.
struct Placed {
    allocation: Arc<Allocation>,
    mapping: GpuMapping,
    seed: Option<u64>,
}

struct Worker {
    /// A client with memory for zeroes, a range that is written, and a word.
    client: Client,
    placed: Vec<Placed>,
    /// Indices of the resident allocations.
    wanted: Vec<usize>,
    random: Xoshiro256PlusPlus,
    bytes: u64,
}

impl Worker {
    fn new(guest: Arc<FakeGuest>, seed: u64) -> Self {
        let client = support::client_of(&guest, Shape { memory: 3 * SIZE, ..Shape::default() });
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let segments = SegmentSet::LOCAL | SegmentSet::PRIVATE | SegmentSet::SYSTEM;
        let place = |_| {
            let priority = if random.random() { PRIORITY_LOW } else { PRIORITY_NORMAL };
            let eviction = if random.random() { SegmentSet::PRIVATE } else { SegmentSet::empty() };
            let builder = client.device.allocation(SIZE).segments(segments).eviction(eviction);
            let allocation = builder.priority(priority).cpu_visible().create().unwrap();
            let mapping = allocation.map(Protection::WRITE).unwrap();
            Placed { allocation, mapping, seed: None }
        };
        let placed = (0..COUNT).map(place).collect();
        let (wanted, bytes) = (Vec::new(), 0);
        Self { client, placed, wanted, random, bytes }
    }

    /// Checks every byte of an allocation.
    fn verify(&mut self, index: usize) {
        let (zeroes, result) = (self.client.va(0), self.client.va(2 * SIZE));
        let other = zeroes + SIZE;
        let place = self.placed[index].mapping.gpu_va();
        match self.placed[index].seed {
            // A stream XORed with itself is zero.
            Some(seed) => {
                self.client.commands.dispatch(Kernel::XOR_STREAM, place, other, SIZE, seed)
            }
            None => self.client.commands.copy(place, other, SIZE),
        }
        .unwrap();
        self.client.commands.compare(zeroes, other, SIZE, result).unwrap();
        self.client.run().unwrap();
        let word = self.client.word(2 * SIZE as usize).unwrap();
        assert_eq!(word, u64::MAX, "allocation {index} differs there");
        self.bytes += SIZE;
    }

    fn write(&mut self, index: usize) {
        let seed: u64 = self.random.random();
        let (zeroes, place) = (self.client.va(0), self.placed[index].mapping.gpu_va());
        self.client.commands.dispatch(Kernel::XOR_STREAM, zeroes, place, SIZE, seed).unwrap();
        self.client.run().unwrap();
        self.placed[index].seed = Some(seed);
        self.bytes += SIZE;
    }

    fn round(&mut self) {
        let index = self.random.random_range(0..COUNT);
        if !self.wanted.contains(&index) {
            if self.wanted.len() == WANTED {
                let gone = self.wanted.swap_remove(self.random.random_range(0..WANTED));
                self.placed[gone].allocation.evict().unwrap();
            }
            self.placed[index].allocation.make_resident().unwrap();
            self.wanted.push(index);
        }
        self.verify(index);
        self.write(index);
        if self.random.random_range(0..4) == 0 {
            let other = self.wanted[self.random.random_range(0..self.wanted.len())];
            let locked = self.placed[other].allocation.lock_bytes().unwrap();
            let (mut bytes, place) = ([0; 8], self.placed[other].mapping.gpu_va() + 8);
            locked.read(8, &mut bytes).unwrap();
            self.client.commands.copy(place, self.client.va(2 * SIZE + 8), 8).unwrap();
            self.client.run().unwrap();
            let seen = self.client.read(2 * SIZE as usize + 8, 8).unwrap();
            assert_eq!(seen, bytes, "CPU and GPU see different bytes");
        }
    }
}

#[test]
fn ten_times_more_than_local_memory_under_random_work_of_several_guests_keeps_every_byte() {
    let backing = 10 * LOCAL_MIB + 8;
    let daemon = Daemon::start_with(
        3,
        &format!(
            "[guest]\nlocal_memory = \"{LOCAL_MIB}MiB\"\nprivate_memory = \"1MiB\"\n\
             backing_memory = \"{backing}MiB\"\n"
        ),
    );
    let start = Instant::now();
    let bytes: u64 = thread::scope(|threads| {
        let workers: Vec<_> = (0..3)
            .map(|number| {
                let guest = support::guest(&daemon, number);
                threads.spawn(move || {
                    let mut worker = Worker::new(guest, number as u64);
                    (0..ROUNDS).for_each(|_| worker.round());
                    for index in worker.wanted.clone() {
                        worker.verify(index);
                    }
                    worker.bytes
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let seconds = start.elapsed().as_secs_f64();
    let rate = bytes as f64 / seconds / f64::from(1 << 20);
    println!("{} rounds of 3 guests, {rate:.0} MiB/s verified or written", 3 * ROUNDS);
}
