// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hangs over the real transport: the cost of each degree to the hanging guest and its neighbours. The daemon
//! survives all of them.

use crate::alone;
use crate::support::{self, Daemon, TIMEOUT, fault, refusal};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::fake_guest::FakeGuest;
use bellhop_guest_umd::{CommandBuffer, Error};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::packet::fence::SignalFence;
use bellhop_protocol::status::Status;
use std::sync::Arc;
use zerocopy::IntoBytes;

const SIZE: u64 = 4 << 20;
/// A hang is detected after 200 ms.
const CONFIGURATION: &str = "[adapter]\ncopy_nodes = 1\ntimeout = \"200ms\"\nrecovery_timeout = \"100ms\"\n\
     engine_idle = \"0s\"\nhang_limit = 3\n[guest]\nlocal_memory = \"16MiB\"\n[debug]\ntest_kernels = true\n";

/// A guest with a client on the compute node.
struct Party {
    guest: Arc<FakeGuest>,
    client: Client,
}

impl Party {
    const SHAPE: Shape =
        Shape { node: 0, ring: 4096, commands: 256, kind: AllocationKind::LOCAL, memory: SIZE };

    fn new(daemon: &Daemon, number: usize) -> Self {
        Self::of(support::guest(daemon, number))
    }

    fn of(guest: Arc<FakeGuest>) -> Self {
        let client = support::client_of(&guest, Self::SHAPE);
        Self { guest, client }
    }

    /// Continues with another context on this device.
    fn renew(&mut self) {
        self.client.context = self.client.device.create_context(0).unwrap();
        self.client.queue = self.client.context.create_user_mode_queue(4096).unwrap();
        self.client.commands.reset();
    }

    /// Hangs the engine, and returns why the queue was lost.
    fn hang(&mut self, kernel: Kernel) -> FaultReason {
        let client = &mut self.client;
        let at = client.va(0);
        client.commands.dispatch(kernel, at, at + 8, 8, 1).unwrap();
        let value = client.submit().unwrap();
        fault(client.queue.progress_fence().wait(value, TIMEOUT)).reason
    }

    /// Submits copies that take a while. Returns the last value of the progress fence, and the buffers.
    fn begin_copies(&mut self) -> (u64, Vec<CommandBuffer>) {
        let pattern: Vec<u8> = (0..SIZE / 2).map(|at| (at % 251) as u8).collect();
        let client = &mut self.client;
        client.write(0, &pattern).unwrap();
        let (low, high) = (client.va(0), client.va(SIZE / 2));
        let mut buffers = Vec::new();
        let mut last = 0;
        for round in 0..50 {
            let (from, to) = if round % 2 == 0 { (low, high) } else { (high, low) };
            let mut commands = client.more_commands(256).unwrap();
            commands.copy(from, to, SIZE / 2).unwrap().fill(from, SIZE / 2, round).unwrap();
            last = client.queue.submit(&mut commands).unwrap();
            buffers.push(commands);
        }
        (last, buffers)
    }

    /// Waits for the copies and checks their result.
    fn end_copies(&self, last: u64) {
        self.client.queue.progress_fence().wait(last, TIMEOUT).unwrap();
        let bytes = self.client.read(0, SIZE as usize / 2).unwrap();
        assert!(bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
    }

    fn work(&mut self) {
        support::submit_once(&mut self.client);
    }
}

#[test]
fn a_hang_that_a_preemption_or_a_reset_of_its_engine_ends_costs_its_context_alone() {
    let _alone = alone();
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut innocent = Party::new(&daemon, 1);
    for (kernel, said) in [
        (Kernel::SPIN_UNTIL, "pre-empting"),
        (Kernel::HANG_UNTIL_ENGINE_RESET, "resetting the engine"),
    ] {
        let mut guilty = Party::new(&daemon, 0);
        let (last, _buffers) = innocent.begin_copies();
        assert_eq!(guilty.hang(kernel), FaultReason::ENGINE_TIMEOUT);
        daemon.await_log(said);
        innocent.end_copies(last);
        // The guest continues on this device with another context.
        guilty.renew();
        guilty.work();
    }
}

/// The queue has reached its last-queued value, and its engine hangs behind that.
#[test]
fn a_queue_is_destroyed_when_an_engine_that_is_stuck_in_it_was_reset() {
    let _alone = alone();
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut innocent = Party::new(&daemon, 1);
    let mut guilty = Party::new(&daemon, 0);
    let client = &mut guilty.client;
    let (at, slot) = (client.va(0), client.queue.progress_fence().slot());
    client.commands.raw(SignalFence::new(slot, 1).as_bytes()).unwrap();
    client.commands.dispatch(Kernel::HANG_UNTIL_ENGINE_RESET, at, at + 8, 8, 1).unwrap();
    assert_eq!(client.submit().unwrap(), 1);
    guilty.renew();
    daemon.await_log("resetting the engine");
    guilty.work();
    // What it destroys needs a ticket, which that engine passes again.
    innocent.renew();
    innocent.work();
}

#[test]
fn a_reset_of_the_adapter_costs_every_guest_its_devices_and_nothing_else() {
    let _alone = alone();
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut clients = [0, 1].map(|number| Party::new(&daemon, number));
    let gate = clients[1].client.device.create_fence(0).unwrap();
    assert_eq!(clients[0].hang(Kernel::HANG_UNTIL_ADAPTER_RESET), FaultReason::ENGINE_TIMEOUT);
    daemon.await_log("the adapter was reset");
    clients[1].client.commands.nop().unwrap();
    assert_eq!(fault(clients[1].client.submit()).reason, FaultReason::ADAPTER_RESET);
    // A wait for a fence of the lost device ends at once.
    gate.wait(1_000_000, TIMEOUT).unwrap();
    for Party { guest, client } in clients {
        assert_eq!(refusal(client.device.create_context(0)), Status::DEVICE_REMOVED);
        let device = client.process.create_device().unwrap();
        let client = Client::on(client.process, device, Party::SHAPE).unwrap();
        let mut anew = Party { guest, client };
        let (last, _buffers) = anew.begin_copies();
        anew.end_copies(last);
    }
}

#[test]
fn a_guest_that_hangs_too_often_is_refused_until_it_is_reset_and_others_keep_working() {
    let _alone = alone();
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut innocent = Party::new(&daemon, 1);
    let mut guilty = Party::new(&daemon, 0);
    for round in 1..=3 {
        assert_eq!(guilty.hang(Kernel::SPIN_UNTIL), FaultReason::ENGINE_TIMEOUT);
        innocent.work();
        if round < 3 {
            guilty.renew();
        }
    }
    daemon.await_log("nothing of it is executed until it resets its device");
    match guilty.client.process.create_device() {
        Err(Error::Refused { status, detail, .. }) => {
            assert_eq!((status, detail), (Status::GRAPHICS_GPU_EXCEPTION_ON_DEVICE, 3));
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    innocent.work();
    let guest = Arc::clone(&guilty.guest);
    // Resets like a reboot, which destroys no object first.
    std::mem::forget(guilty);
    guest.reset().unwrap();
    Party::of(guest).work();
    innocent.work();
}

#[test]
fn a_guest_that_goes_while_its_engine_hangs_leaves_the_engine_to_others() {
    let _alone = alone();
    let daemon = Daemon::start_with(2, CONFIGURATION);
    let mut innocent = Party::new(&daemon, 1);
    for kernel in [Kernel::SPIN_UNTIL, Kernel::HANG_UNTIL_ENGINE_RESET] {
        let mut guilty = Party::new(&daemon, 0);
        let client = &mut guilty.client;
        let at = client.va(0);
        client.commands.write_data(at + 16, &[1; 8]).unwrap();
        client.commands.dispatch(kernel, at, at + 8, 8, 1).unwrap();
        client.submit().unwrap();
        support::await_that("it begins", || client.word(16).unwrap() != 0);
        drop(guilty);
        daemon.await_log("front end disconnected");
        innocent.work();
    }
    Party::new(&daemon, 0).work();
}

#[test]
fn the_waiters_for_a_kernel_mode_submission_learn_that_it_hangs() {
    let _alone = alone();
    let daemon = Daemon::start_with(1, CONFIGURATION);
    let mut client = Party::new(&daemon, 0).client;
    let mut queue = client.context.create_kernel_mode_queue().unwrap();
    let at = client.va(0);
    client.commands.dispatch(Kernel::SPIN_UNTIL, at, at + 8, 8, 1).unwrap();
    let value = queue.submit(&mut client.commands).unwrap();
    let fault = fault(queue.progress_fence().wait(value, TIMEOUT));
    assert_eq!(fault.reason, FaultReason::ENGINE_TIMEOUT);
}
