// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guest memory that is plugged in and pulled out while the GPU works on it.

use crate::support::{self, Daemon, adapter_of, fault, guest_with};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::{
    CLOUD_HYPERVISOR, FakeGuest, GuestOptions, Plugged, QEMU_WITHOUT_SHARED_MEMORY,
};
use bellhop_guest_umd::{Adapter, Error, GpuMapping};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::event::FaultReason;
use std::sync::Arc;

/// More bytes than the guest has outside its module.
const SIZE: u64 = 24 << 20;
const BASE: Plugged = Plugged { base: true, module: false };
const ALL: Plugged = Plugged { base: true, module: true };

fn guest(daemon: &Daemon) -> Arc<FakeGuest> {
    let options = GuestOptions { ram: 16 << 20, module: 32 << 20, ..GuestOptions::default() };
    guest_with(daemon, 0, options)
}

/// Works on memory that may go, but has none of its own objects there.
struct Worker(Client);

impl Worker {
    fn new(adapter: &Adapter) -> Self {
        let shape = Shape { kind: AllocationKind::LOCAL, ..Shape::default() };
        Self(Client::new(adapter.open_process().unwrap(), shape).unwrap())
    }

    /// A worker of another guest, the second one.
    fn stranger(daemon: &Daemon) -> Self {
        Self::new(&adapter_of(&support::guest(daemon, 1)))
    }

    fn system(&self) -> Result<GpuMapping, Error> {
        self.0.device.create_allocation(AllocationKind::SYSTEM, SIZE)?.map(Protection::WRITE)
    }

    /// Has the GPU fill the range.
    fn fill(&mut self, address: u64, length: u64, pattern: u32) -> Result<(), Error> {
        self.0.commands.reset();
        self.0.commands.fill(address, length, pattern)?;
        self.0.run()
    }

    /// Works on memory that stays.
    fn work(&mut self) {
        self.fill(self.0.va(0), 4096, 5).unwrap();
    }

    /// Returns when all engines have forgotten their translations: the reply to a destroying request comes then.
    fn quiesce(&self) {
        drop(self.0.device.create_fence(0).unwrap());
    }
}

#[test]
fn memory_that_is_plugged_in_is_used_at_once_and_faults_those_who_use_it_when_it_goes() {
    let daemon = Daemon::start(2);
    let guest = guest(&daemon);
    let adapter = adapter_of(&guest);
    let (mut user, mut neighbour) = (Worker::new(&adapter), Worker::new(&adapter));
    let mut stranger = Worker::stranger(&daemon);
    for round in 0..4 {
        assert!(user.system().is_err(), "there is no such memory yet");
        guest.plug_memory(ALL).unwrap();
        let mapping = user.system().unwrap();
        user.fill(mapping.gpu_va(), SIZE, round).unwrap();
        let mut bytes = [0; 8];
        mapping.allocation().read(SIZE as usize - 8, &mut bytes).unwrap();
        assert_eq!(bytes, [round.to_le_bytes(), round.to_le_bytes()].concat()[..]);

        guest.plug_memory(BASE).unwrap();
        neighbour.quiesce();
        let end = mapping.gpu_va() + SIZE - 4096;
        let fault = fault(user.fill(end, 4096, 7));
        assert_eq!((fault.reason, fault.address), (FaultReason::WRITE_PAGE_FAULT, end));
        neighbour.work();
        stranger.work();
        // Another queue of the process works with the memory that is left.
        user.0.queue = user.0.context.create_user_mode_queue(4096).unwrap();
        user.work();
    }
}

#[test]
fn memory_that_goes_while_the_gpu_uses_it_harms_no_other_guest() {
    let daemon = Daemon::start(2);
    let guest = guest(&daemon);
    let adapter = adapter_of(&guest);
    let (mut neighbour, mut stranger) = (Worker::new(&adapter), Worker::stranger(&daemon));
    for _ in 0..8 {
        guest.plug_memory(ALL).unwrap();
        let mut user = Worker::new(&adapter);
        let mapping = user.system().unwrap();
        let range = mapping.gpu_va()..mapping.gpu_va() + SIZE;
        user.0.commands.reset();
        for pattern in 0..40 {
            user.0.commands.fill(range.start, SIZE, pattern).unwrap();
        }
        let value = user.0.submit().unwrap();
        guest.plug_memory(BASE).unwrap();
        neighbour.work();
        stranger.work();
        match user.0.finish(value) {
            // The work had completed.
            Ok(()) => {}
            Err(_) => {
                // The next operation on a queue reports its loss.
                let fault = fault(user.fill(range.start, 4096, 1));
                assert_eq!(fault.reason, FaultReason::WRITE_PAGE_FAULT);
                assert!(range.contains(&fault.address), "{fault}");
            }
        }
        drop(mapping);
    }
}

#[test]
fn areas_of_the_bar_in_memory_that_goes_end_the_guest_at_most() {
    for profile in [&QEMU_WITHOUT_SHARED_MEMORY, &CLOUD_HYPERVISOR] {
        let mut daemon = Daemon::start(2);
        let options =
            GuestOptions { ram: 16 << 20, module: 96 << 20, profile, ..Default::default() };
        let guest = guest_with(&daemon, 0, options);
        let mut stranger = Worker::stranger(&daemon);
        // Doorbells, fences and local memory do not fit anywhere else.
        guest.plug_memory(ALL).unwrap();
        let adapter = adapter_of(&guest);
        let mut user = Worker::new(&adapter);
        user.work();
        guest.plug_memory(BASE).unwrap();
        stranger.quiesce();
        stranger.work();
        // The memory of local memory is gone.
        let lost = user.fill(user.0.va(0), 4096, 7);
        assert!(lost.is_err());
        stranger.work();
        guest.plug_memory(ALL).unwrap();
        guest.reset().unwrap();
        drop((user, adapter));
        guest.reclaim_memory().unwrap();
        Worker::new(&adapter_of(&guest)).work();
        stranger.work();
        assert!(daemon.is_running());
    }
}

#[test]
fn queues_and_all_in_memory_that_goes_end_the_guest_at_most() {
    let mut daemon = Daemon::start(2);
    let guest = guest(&daemon);
    let mut stranger = Worker::stranger(&daemon);
    let adapter = adapter_of(&guest);
    let mut user = Worker::new(&adapter);
    user.work();
    // Only the module is left: the virtqueues' memory is gone.
    guest.plug_memory(Plugged { base: false, module: true }).unwrap();
    stranger.quiesce();
    stranger.work();
    // Work continues, and a new driver works.
    guest.plug_memory(ALL).unwrap();
    stranger.work();
    guest.reset().unwrap();
    drop((user, adapter));
    Worker::new(&adapter_of(&guest)).work();
    stranger.work();
    assert!(daemon.is_running());
}
