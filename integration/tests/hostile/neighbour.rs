//! A guest that does its work and checks it.

use crate::TIMEOUT;
use crate::support::{self, Daemon};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::{Adapter, CommandBuffer, Device, GpuMapping, UserModeQueue};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SIZE: usize = 8192;

/// One that fills a piece of memory with another number each time.
pub struct Neighbour {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: CommandBuffer,
    mapping: GpuMapping,
    rounds: u32,
    _device: Device,
    _adapter: Adapter,
}

impl Neighbour {
    pub fn new(guest: Arc<FakeGuest>) -> Self {
        let adapter = Adapter::open(guest).unwrap();
        let device = adapter.create_device().unwrap();
        let queue = device.create_context(0).unwrap().create_user_mode_queue(4096).unwrap();
        let memory = device.create_allocation(AllocationKind::SYSTEM, SIZE as u64).unwrap();
        let mapping = memory.map(Protection::WRITE).unwrap();
        let commands = CommandBuffer::new(&device, 256).unwrap();
        Self { queue, commands, mapping, rounds: 0, _device: device, _adapter: adapter }
    }

    /// One round: submits, waits, and looks at every byte.
    pub fn work(&mut self) {
        self.rounds += 1;
        self.commands.reset();
        self.commands.fill(self.mapping.gpu_va(), SIZE as u64, self.rounds).unwrap();
        let value = self.queue.submit(&mut self.commands).unwrap();
        self.queue.progress_fence().poll(value, TIMEOUT).unwrap();
        let mut bytes = [0; SIZE];
        self.mapping.allocation().read(0, &mut bytes).unwrap();
        assert!(bytes.chunks(4).all(|word| word == self.rounds.to_le_bytes()));
    }
}

/// Runs `attack` in one guest while another goes on to check its own work; returns how often that did it.
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
