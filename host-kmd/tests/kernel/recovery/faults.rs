// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues with errors.

use crate::bench::{Bench, Client, USER_MODE, submission};
use crate::model::{Call, Work};
use bellhop_host_kmd::hardware::{Fault, Interrupt, PhysicalDoorbell, SlotValue};
use bellhop_protocol::control::doorbell::{DestroyDoorbell, NotifyWorkSubmission};
use bellhop_protocol::control::hw_queue::{DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;

const FAULT: Fault = Fault {
    reason: FaultReason::READ_PAGE_FAULT,
    opcode: Opcode::COPY,
    address: 0x1234,
    read_pointer: 88,
};

fn fault(bench: &mut Bench, client: Client) {
    bench.model.raise(Interrupt::HwQueueFault { queue: client.id, fault: FAULT });
    bench.interrupt();
}

#[test]
fn a_fault_aborts_the_doorbell_and_tells_the_guest_once() {
    let (mut bench, client, doorbell) = Bench::with_connected(2);
    let (other, _) = bench.connected(client.guest);
    bench.model.take_log();
    fault(&mut bench, client);
    fault(&mut bench, client);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Disconnected(client.id, ConnectionStatus::DISCONNECTED_ABORT),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(client.id),
            Call::Signal(vec![SlotValue { slot: client.fence_slot, value: u64::MAX }], true),
        ]
    );
    assert_eq!(bench.events.len(), 1);
    let (to, event) = bench.events[0];
    assert_eq!(to, client.guest);
    assert_eq!(event.kind, EventKind::HW_QUEUE_ERROR);
    assert_eq!((event.process, event.object), (client.process, client.queue.0));
    assert_eq!((event.context, event.opcode), (client.context.0, FAULT.opcode));
    assert_eq!((event.reason, event.value), (FAULT.reason, FAULT.address));
    assert_eq!(event.cookie, FAULT.read_pointer);

    let lost = (Status::DEVICE_REMOVED, client.queue.0);
    assert_eq!(bench.connect(client).unwrap_err(), lost);
    // A late notification is harmless.
    bench.model.take_log();
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
    assert_eq!(bench.model.take_log(), []);
    // Other queues are not affected.
    assert_eq!(bench.model.state().status[&other.id], ConnectionStatus::CONNECTED);
    bench.connect(other).unwrap();
}

#[test]
fn a_queue_that_waits_for_the_progress_of_a_lost_queue_continues() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    bench.model.state().engines.on = true;
    let (client, _) = bench.connected(guest);
    let other = bench.queue(client, USER_MODE);
    bench.doorbell(other);
    bench.connect(other).unwrap();
    let waits_for = Some((guest, client.fence_slot, 5));
    bench.model.queue_work(other.id, Work { value: 1, waits_for, submission: None });
    bench.model.ring(other.id);
    bench.interrupt();
    assert!(!bench.model.state().engines.has_executed(other.id, 1));
    fault(&mut bench, client);
    assert!(bench.model.state().engines.has_executed(other.id, 1));
}

#[test]
fn a_lost_queue_is_destroyed_and_created_again() {
    let (mut bench, client, doorbell) = Bench::with_connected(1);
    fault(&mut bench, client);
    bench.call(client, &DestroyDoorbell { doorbell }).unwrap();
    let ring = bench.ring(client);
    let lost = (Status::DEVICE_REMOVED, client.queue.0);
    assert_eq!(bench.doorbell_on(client, ring).unwrap_err(), lost);
    bench.call(client, &DestroyHwQueue { hw_queue: client.queue }).unwrap();
    let client = bench.queue(client, USER_MODE);
    bench.doorbell_on(client, ring).unwrap();
    bench.connect(client).unwrap();
}

#[test]
fn a_queue_for_kernel_mode_submission_can_be_lost_too() {
    let (mut bench, client) = Bench::with_client(1);
    let client = bench.queue(client, HwQueueFlags::empty());
    fault(&mut bench, client);
    assert_eq!(bench.events.len(), 1);
    let request = submission(client, 1);
    let lost = (Status::DEVICE_REMOVED, client.queue.0);
    assert_eq!(bench.call(client, &request).unwrap_err(), lost);
}

#[test]
fn a_fault_of_a_queue_that_was_destroyed_meanwhile_is_ignored() {
    let (mut bench, client, _) = Bench::with_connected(1);
    bench.call(client, &DestroyHwQueue { hw_queue: client.queue }).unwrap();
    fault(&mut bench, client);
    assert_eq!(bench.events, []);
}
