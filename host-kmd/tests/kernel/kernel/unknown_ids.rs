// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls that name what the hardware does not have. Only a bug of the kernel makes one: a request fails over it,
//! nothing panics, and the kernel carries on.

use crate::bench::Bench;
use crate::model::Call;
use bellhop_host_kmd::hardware::UnknownId;
use bellhop_protocol::control::adapter::QueryStatistics;
use bellhop_protocol::control::context::{ResumeContext, SuspendContext};
use bellhop_protocol::control::doorbell::NotifyWorkSubmission;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags, SubmitCommand};
use bellhop_protocol::control::process::CreateProcess;
use bellhop_protocol::status::Status;

const BUG: (Status, u64) = (Status::IO_DEVICE_ERROR, 0);

#[test]
fn a_request_fails_over_a_guest_that_the_hardware_does_not_know() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    bench.model.state().lost = vec![UnknownId::Guest(guest)];
    let create = CreateProcess { reserved: 0 };
    assert_eq!(bench.ask(guest, 0, &create).unwrap_err(), BUG);
    assert_eq!(bench.ask(guest, 0, &QueryStatistics { reserved: 0 }).unwrap_err(), BUG);
    // Nothing of the process that was refused counts.
    bench.model.state().lost.clear();
    bench.ask(guest, 0, &create).unwrap();
}

#[test]
fn a_queue_is_not_made_in_an_address_space_that_the_hardware_does_not_know() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let space = bench.model.state().queues[&client.id].address_space;
    let fences = bench.model.state().opened.len();
    bench.model.state().lost = vec![UnknownId::AddressSpace(space)];
    let request = CreateHwQueue { context: client.context, flags: 0, reserved: 0 };
    assert_eq!(bench.call(client, &request).unwrap_err(), BUG);
    bench.model.state().lost.clear();
    assert_eq!(bench.model.state().opened.len(), fences, "the progress fence stays");
    bench.call(client, &request).unwrap();
}

#[test]
fn a_request_fails_over_a_queue_that_the_hardware_does_not_know() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let ring = bench.ring(client);
    let submitting = bench.queue(client, HwQueueFlags::empty());
    bench.model.state().lost =
        vec![UnknownId::HwQueue(client.id), UnknownId::HwQueue(submitting.id)];
    assert_eq!(bench.doorbell_on(client, ring).unwrap_err(), BUG);
    let submit = SubmitCommand {
        hw_queue: submitting.queue,
        gpu_va: 0x10_0008,
        progress_fence_value: 5,
        size: 24,
        reserved: 0,
    };
    assert_eq!(bench.call(submitting, &submit).unwrap_err(), BUG);
    bench.model.state().lost.clear();
    bench.doorbell_on(client, ring).unwrap();
    bench.call(submitting, &submit).unwrap();
}

#[test]
fn what_cannot_fail_carries_on() {
    let mut bench = Bench::new(2);
    let guest = bench.guest(1);
    let (client, doorbell) = bench.connected(guest);
    bench.model.take_log();
    bench.model.state().lost = vec![UnknownId::HwQueue(client.id)];
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
    assert!(!bench.model.take_log().contains(&Call::Kick(client.id)));
    bench.model.state().lost.clear();
    // The kernel works as before.
    bench.call(client, &SuspendContext { context: client.context }).unwrap();
    bench.call(client, &ResumeContext { context: client.context }).unwrap();
}
