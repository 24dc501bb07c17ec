// SPDX-License-Identifier: MIT OR Apache-2.0

//! Calls that name something that the hardware does not have. Only a bug of the kernel makes one: the request that
//! caused it fails and changes nothing, endings carry on, and nothing panics.

use crate::bench::{Bench, submission};
use crate::model::Call;
use bellhop_host_kmd::hardware::UnknownId;
use bellhop_host_kmd::port::Command;
use bellhop_protocol::control::adapter::QueryStatistics;
use bellhop_protocol::control::context::{
    ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use bellhop_protocol::control::doorbell::{ConnectDoorbell, NotifyWorkSubmission};
use bellhop_protocol::control::fence::CreateMonitoredFence;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags};
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
    // The refused process is not counted.
    bench.model.state().lost.clear();
    bench.ask(guest, 0, &create).unwrap();
}

#[test]
fn a_queue_is_not_made_in_an_address_space_that_the_hardware_does_not_know() {
    let (mut bench, client) = Bench::with_client(2);
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
    let (mut bench, client) = Bench::with_client(2);
    let ring = bench.ring(client);
    let submitting = bench.queue(client, HwQueueFlags::empty());
    bench.model.state().lost =
        vec![UnknownId::HwQueue(client.id), UnknownId::HwQueue(submitting.id)];
    assert_eq!(bench.doorbell_on(client, ring).unwrap_err(), BUG);
    let submit = submission(submitting, 5);
    assert_eq!(bench.call(submitting, &submit).unwrap_err(), BUG);
    bench.model.state().lost.clear();
    bench.doorbell_on(client, ring).unwrap();
    bench.call(submitting, &submit).unwrap();
}

#[test]
fn a_request_about_a_doorbell_fails_over_a_queue_that_the_hardware_does_not_know() {
    let (mut bench, client, doorbell) = Bench::with_connected(2);
    bench.model.take_log();
    bench.model.state().lost = vec![UnknownId::HwQueue(client.id)];
    assert_eq!(bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap_err(), BUG);
    assert!(!bench.model.take_log().contains(&Call::Kick(client.id)));
    bench.model.state().lost.clear();
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
}

#[test]
fn a_doorbell_that_the_hardware_cannot_watch_costs_no_physical_one() {
    let (mut bench, client) = Bench::with_client(1);
    let ring = bench.ring(client);
    bench.doorbell_on(client, ring).unwrap();
    let connect = ConnectDoorbell { hw_queue: client.queue };
    bench.model.state().lost = vec![UnknownId::HwQueue(client.id)];
    assert_eq!(bench.call(client, &connect).unwrap_err(), BUG);
    bench.model.state().lost.clear();
    bench.call(client, &connect).unwrap();
}

#[test]
fn a_context_stays_as_it_was_when_the_hardware_does_not_know_its_queue() {
    let (mut bench, client) = Bench::with_client(2);
    let lost = vec![UnknownId::HwQueue(client.id)];
    let context = client.context;
    bench.model.state().lost = lost.clone();
    assert_eq!(bench.call(client, &SuspendContext { context }).unwrap_err(), BUG);
    let raise = SetContextSchedulingPriority { context, priority: 1, reserved: 0 };
    assert_eq!(bench.call(client, &raise).unwrap_err(), BUG);
    bench.model.state().lost.clear();
    // The context was not suspended.
    bench.model.take_log();
    bench.call(client, &SuspendContext { context }).unwrap();
    assert!(bench.model.take_log().contains(&Call::Suspend(vec![client.id])));
    bench.model.state().lost = lost;
    assert_eq!(bench.call(client, &ResumeContext { context }).unwrap_err(), BUG);
    bench.model.state().lost.clear();
    // The context was not resumed.
    bench.call(client, &ResumeContext { context }).unwrap();
    assert!(bench.model.take_log().contains(&Call::Resume(vec![client.id])));
    bench.call(client, &raise).unwrap();
}

#[test]
fn a_fence_is_neither_made_nor_signaled_for_a_guest_that_the_hardware_does_not_know() {
    let (mut bench, client) = Bench::with_client(2);
    let (device, initial_value, flags) = (client.device, 0, 0);
    let create = CreateMonitoredFence { device, initial_value, flags, reserved: 0 };
    let fence = bench.call(client, &create).unwrap().fence;
    let fences = bench.model.state().opened.len();
    bench.model.state().lost = vec![UnknownId::Guest(client.guest)];
    assert_eq!(bench.call(client, &create).unwrap_err(), BUG);
    assert_eq!(bench.signal(client, &[(fence, 5)]).unwrap_err(), BUG);
    bench.model.state().lost.clear();
    assert_eq!(bench.model.state().opened.len(), fences);
    bench.call(client, &create).unwrap();
    bench.signal(client, &[(fence, 5)]).unwrap();
}

#[test]
fn what_no_request_asks_for_carries_on() {
    let (mut bench, client, doorbell) = Bench::with_connected(2);
    bench.model.state().lost = vec![UnknownId::HwQueue(client.id)];
    bench.command(Command::SuspendGuest(client.guest)).unwrap().unwrap();
    bench.command(Command::ResumeGuest(client.guest)).unwrap().unwrap();
    bench.model.state().lost.clear();
    // The kernel works as before.
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
    bench.command(Command::SuspendGuest(client.guest)).unwrap().unwrap();
    bench.command(Command::ResumeGuest(client.guest)).unwrap().unwrap();
}
