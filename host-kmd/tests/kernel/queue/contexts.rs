// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which contexts are on the run list.

use crate::bench::{Bench, Client};
use crate::model::Call;
use bellhop_host_kmd::hardware::{SchedulingPriority, Ticket};
use bellhop_host_kmd::port::Command;
use bellhop_protocol::control::context::{
    CreateContext, ResumeContext, SetContextSchedulingPriority, SuspendContext,
};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::status::Status;

fn suspend(bench: &mut Bench, client: Client) {
    bench.call(client, &SuspendContext { context: client.context }).unwrap();
}

fn resume(bench: &mut Bench, client: Client) {
    bench.call(client, &ResumeContext { context: client.context }).unwrap();
}

#[test]
fn suspending_takes_all_queues_off_the_list_and_leaves_doorbells_connected() {
    let (mut bench, client, _) = Bench::with_connected(2);
    let other = bench.queue(client, HwQueueFlags::empty());
    bench.model.take_log();
    suspend(&mut bench, client);
    let queues = vec![client.id, other.id];
    assert_eq!(bench.model.take_log(), [Call::Suspend(queues.clone()), Call::Quiesce]);
    assert_eq!(bench.model.state().status[&client.id], ConnectionStatus::CONNECTED);
    // Suspending the context again does not suspend its queues again.
    suspend(&mut bench, client);
    assert_eq!(bench.model.take_log(), [Call::Quiesce]);
    resume(&mut bench, client);
    assert_eq!(bench.model.take_log(), [Call::Resume(queues)]);
    resume(&mut bench, client);
    assert_eq!(bench.model.take_log(), []);
}

#[test]
fn a_suspend_is_answered_when_engines_have_left_the_context() {
    let (mut bench, client, _) = Bench::with_connected(2);
    bench.model.state().prompt = false;
    let request = bench.begin(client, &SuspendContext { context: client.context });
    assert_eq!(bench.outcome(client, request), None);
    bench.pass_tickets();
    assert_eq!(bench.outcome(client, request), Some(Status::SUCCESS));
}

#[test]
fn a_guest_whose_worker_takes_long_waits_for_it_and_its_neighbour_does_not() {
    let (mut bench, slow, _) = Bench::with_connected(2);
    let neighbour = bench.guest(2);
    let (neighbour, _) = bench.connected(neighbour);
    bench.model.state().prompt = false;
    let begun = [slow, neighbour]
        .map(|client| (client, bench.begin(client, &SuspendContext { context: client.context })));
    let commands = [slow, neighbour].map(|client| Command::DisconnectGuest(client.guest));
    let tokens = commands.map(|command| bench.begin_command(command));
    // Something of the guest's may still reach its memory.
    bench.model.state().withheld = vec![(slow.guest, Ticket(0))];
    bench.pass_tickets();
    let outcomes = |bench: &Bench| {
        (
            begun.map(|(client, request)| bench.outcome(client, request)),
            tokens.map(|token| bench.commands.get(&token).cloned()),
        )
    };
    let (done, told) = (Some(Status::SUCCESS), Some(Ok(())));
    assert_eq!(outcomes(&bench), ([None, done], [None, told.clone()]));
    bench.model.state().withheld.clear();
    bench.interrupt();
    assert_eq!(outcomes(&bench), ([done; 2], [told.clone(), told]));
}

#[test]
fn the_doorbell_of_a_suspended_queue_is_taken_and_connected_again() {
    let (mut bench, client, _) = Bench::with_connected(1);
    suspend(&mut bench, client);
    bench.connected(client.guest);
    let retry = ConnectionStatus::DISCONNECTED_RETRY;
    assert_eq!(bench.model.state().status[&client.id], retry);
    bench.connect(client).unwrap();
    assert_eq!(bench.model.state().status[&client.id], ConnectionStatus::CONNECTED);
    assert!(bench.model.state().suspended.contains(&client.id));
}

#[test]
fn a_queue_that_is_created_in_a_suspended_context_is_off_the_list() {
    let (mut bench, client) = Bench::with_client(2);
    suspend(&mut bench, client);
    let other = bench.queue(client, HwQueueFlags::empty());
    assert!(bench.model.state().suspended.contains(&other.id));
    resume(&mut bench, client);
    assert!(bench.model.state().suspended.is_empty());
}

#[test]
fn what_the_host_suspends_its_owner_cannot_resume() {
    let (mut bench, client, _) = Bench::with_connected(2);
    assert_eq!(bench.command(Command::SuspendGuest(client.guest)), Some(Ok(())));
    suspend(&mut bench, client);
    resume(&mut bench, client);
    assert!(bench.model.state().suspended.contains(&client.id));
    assert_eq!(bench.command(Command::ResumeGuest(client.guest)), Some(Ok(())));
    assert!(bench.model.state().suspended.is_empty());
}

#[test]
fn a_device_or_a_context_that_is_in_error_takes_nothing_more() {
    let (mut bench, client) = Bench::with_client(2);
    assert_eq!(bench.command(Command::FailGuest(client.guest)), Some(Ok(())));
    let queue = CreateHwQueue { context: client.context, flags: 0, reserved: 0 };
    let lost = (Status::DEVICE_REMOVED, client.context.0);
    assert_eq!(bench.call(client, &queue).unwrap_err(), lost);
    let context = CreateContext { device: client.device, node: 0, engine_affinity: 0 };
    let lost = (Status::DEVICE_REMOVED, client.device.0);
    assert_eq!(bench.call(client, &context).unwrap_err(), lost);
    // Another device of the same process can still be created and works.
    let device = bench.call(client, &CreateDevice { reserved: 0 }).unwrap();
    bench.call(client, &CreateContext { device, node: 0, engine_affinity: 0 }).unwrap();
}

#[test]
fn a_priority_is_all_its_contexts_queues_and_those_that_come_later() {
    let (mut bench, client) = Bench::with_client(2);
    bench.model.take_log();
    let set =
        |priority| SetContextSchedulingPriority { context: client.context, priority, reserved: 0 };
    bench.call(client, &set(-7)).unwrap();
    let lowest = SchedulingPriority::MIN;
    assert_eq!(bench.model.take_log(), [Call::Priority(vec![client.id], lowest)]);
    let later = bench.queue(client, HwQueueFlags::empty());
    assert_eq!(bench.model.take_log(), [Call::Priority(vec![later.id], lowest)]);
    for priority in [-8, 8, i32::MIN] {
        let refused = (Status::INVALID_PARAMETER, u64::from(priority as u32));
        assert_eq!(bench.call(client, &set(priority)).unwrap_err(), refused);
    }
    let reserved = SetContextSchedulingPriority { reserved: 1, ..set(0) };
    assert_eq!(bench.call(client, &reserved).unwrap_err(), (Status::INVALID_PARAMETER, 1));
    assert_eq!(bench.model.take_log(), []);
}
