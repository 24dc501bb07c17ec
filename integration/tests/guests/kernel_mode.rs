// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernel-mode submission of several guests on one daemon.

use crate::support::{self, Daemon, TIMEOUT};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::{
    BasicContext, BasicPlusPlusContext, CommandBuffer, RenderBuffer, VirtualContext,
};
use std::sync::Arc;
use std::thread;

const PART: u64 = 16 << 10;

/// A guest that submits to one node in every way at once, each way to a separate part of its memory.
struct Worker {
    basic: BasicContext,
    plus: BasicPlusPlusContext,
    wddm2: VirtualContext,
    plus_commands: CommandBuffer,
    client: Client,
}

impl Worker {
    fn new(guest: &Arc<FakeGuest>) -> Self {
        let client = support::client_of(guest, Shape { memory: 4 * PART, ..Shape::default() });
        let device = &client.device;
        Self {
            basic: device.create_basic_context(0).unwrap(),
            plus: device.create_basic_plus_plus_context(0).unwrap(),
            wddm2: device.create_virtual_context(0).unwrap(),
            plus_commands: CommandBuffer::new(device, 256).unwrap(),
            client,
        }
    }

    /// Submits in every way, and returns the value that each progress fence gets.
    fn submit(&mut self, pattern: u32) -> [u64; 4] {
        let va = self.client.va(0);
        let memory = Arc::clone(self.client.memory.allocation());
        let mut commands = RenderBuffer::new();
        commands.fill((&memory, 0), PART, pattern).unwrap();
        for (buffer, part) in [(&mut self.plus_commands, 1), (&mut self.client.commands, 3)] {
            buffer.reset();
            buffer.fill(va + part * PART, PART, pattern + part as u32).unwrap();
        }
        self.wddm2.restart(TIMEOUT).unwrap();
        self.wddm2.commands().fill(va + 2 * PART, PART, pattern + 2).unwrap();
        [
            self.basic.submit(&commands).unwrap(),
            self.plus.submit(&mut self.plus_commands, &[&memory]).unwrap(),
            self.wddm2.submit().unwrap(),
            self.client.submit().unwrap(),
        ]
    }

    /// One round: the memory must have only this guest's results.
    fn work(&mut self, pattern: u32) {
        let [basic, plus, wddm2, user_mode] = self.submit(pattern);
        self.basic.progress_fence().wait(basic, TIMEOUT).unwrap();
        self.plus.progress_fence().wait(plus, TIMEOUT).unwrap();
        self.wddm2.progress_fence().wait(wddm2, TIMEOUT).unwrap();
        self.client.queue.progress_fence().wait(user_mode, TIMEOUT).unwrap();
        for part in 0..4 {
            let bytes = self.client.read(part * PART as usize, PART as usize).unwrap();
            let expected = (pattern + part as u32).to_le_bytes();
            assert!(bytes.chunks(4).all(|word| word == expected), "somebody else's bytes");
        }
    }
}

#[test]
fn guests_that_submit_in_every_way_at_once_see_their_own_memory() {
    let daemon = Daemon::start(3);
    let mut workers: Vec<_> =
        (0..3).map(|number| Worker::new(&support::guest(&daemon, number))).collect();
    thread::scope(|threads| {
        for (worker, number) in workers.iter_mut().zip(1..) {
            threads.spawn(move || (0..60).for_each(|round| worker.work(number << 16 | round << 4)));
        }
    });
}

#[test]
fn a_guest_that_reboots_with_submissions_of_every_model_leaves_nothing() {
    let daemon = Daemon::start(2);
    let mut neighbour = Worker::new(&support::guest(&daemon, 1));
    let guest = support::guest(&daemon, 0);
    Worker::new(&guest).work(1);
    for round in 0..6 {
        let mut worker = Worker::new(&guest);
        let fence = worker.client.device.create_fence(0).unwrap();
        // Held work, with more behind it: none of it is ever executed.
        let mut held = RenderBuffer::new();
        held.wait_fence(&fence, 1).unwrap();
        worker.basic.submit(&held).unwrap();
        for pattern in 0..10 {
            worker.submit(pattern);
        }
        // Resets like a reboot, which destroys no object first.
        std::mem::forget((worker, fence));
        guest.reset().unwrap();
        neighbour.work(round << 8);
    }
    Worker::new(&guest).work(7);
    assert_eq!(guest.violations(), [], "QEMU would not have survived that");
}
