// SPDX-License-Identifier: MIT OR Apache-2.0

//! F-states of engines and D-states of the device, in the order that the reference gives.

use crate::bench::{Bench, Client, DEVICE_IDLE, TIMEOUT, fence_values, submission};
use crate::model::{Call, Work};
use bellhop_host_kmd::hardware::{EngineState, Interrupt, PhysicalDoorbell};
use bellhop_host_kmd::port::Command;
use bellhop_protocol::control::doorbell::NotifyWorkSubmission;
use bellhop_protocol::control::fence::{CreateNativeFence, SignalFromGpu};
use bellhop_protocol::control::hw_queue::HwQueueFlags;
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, PowerInfo, QueryPower, SetDevicePower, SetEnginePower,
};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::features::Features;
use bellhop_protocol::status::Status;
use std::time::Duration;

const RETRY: ConnectionStatus = ConnectionStatus::DISCONNECTED_RETRY;
const CONNECTED: ConnectionStatus = ConnectionStatus::CONNECTED;
const F0: EnginePowerState = EnginePowerState::F0;
const F1: EnginePowerState = EnginePowerState::F1;

fn idle(bench: &mut Bench, node: u32) {
    let new_state = EngineState::TransitionToF1;
    bench.raise(Interrupt::GpuEngineStateChange { node, new_state });
}

fn power(bench: &mut Bench, client: Client, node: u32) -> PowerInfo {
    bench.ask(client.guest, 0, &QueryPower { node, reserved: 0 }).unwrap()
}

fn d3(bench: &mut Bench) {
    let command = Command::SetDevicePower(DevicePowerState::D3);
    assert_eq!(bench.command(command), Some(Ok(())));
}

#[test]
fn an_idle_engine_loses_its_doorbells_and_then_its_power() {
    let (mut bench, client, _) = Bench::with_connected(4);
    bench.model.take_log();
    idle(&mut bench, 0);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Disconnected(client.id, RETRY),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(client.id),
            Call::EnginePower(0, F1),
        ]
    );
    let info = power(&mut bench, client, 0);
    assert_eq!((info.device, info.engine), (DevicePowerState::D0, F1));
    assert_eq!((info.engine_transitions, info.device_transitions), (1, 0));
    assert_eq!(power(&mut bench, client, 1).engine, F0);
    // The engine asks again, as it may when its request and the kernel's transition cross.
    bench.model.take_log();
    idle(&mut bench, 0);
    assert_eq!(bench.model.take_log(), []);
}

#[test]
fn connecting_gives_the_engine_its_power_first() {
    let (mut bench, client, _) = Bench::with_connected(4);
    idle(&mut bench, 0);
    bench.model.take_log();
    bench.connect(client).unwrap();
    assert_eq!(
        bench.model.take_log(),
        [
            Call::EnginePower(0, F0),
            Call::Watch(PhysicalDoorbell(0), client.id),
            Call::Connected(client.id, CONNECTED),
            Call::Kick(client.id),
        ]
    );
}

#[test]
fn a_kernel_mode_submission_gives_the_engine_its_power_first() {
    let (mut bench, client) = Bench::with_client(4);
    let queue = bench.queue(client, HwQueueFlags::empty());
    idle(&mut bench, 0);
    bench.model.take_log();
    let request = submission(queue, 1);
    bench.call(queue, &request).unwrap();
    assert_eq!(bench.model.take_log()[0], Call::EnginePower(0, F0));
}

/// The number of an engine's last power transition.
fn transition(bench: &Bench, node: u32) -> u64 {
    bench.model.state().transitions[&node]
}

fn refuse(bench: &mut Bench, node: u32, transition: u64) {
    let new_state = EngineState::Active { transition };
    bench.raise(Interrupt::GpuEngineStateChange { node, new_state });
}

#[test]
fn an_engine_that_has_work_after_all_is_in_f0() {
    let (mut bench, client, _) = Bench::with_connected(4);
    idle(&mut bench, 0);
    let last = transition(&bench, 0);
    refuse(&mut bench, 0, last);
    let info = power(&mut bench, client, 0);
    assert_eq!((info.engine, info.engine_transitions), (F0, 0));
}

#[test]
fn a_refusal_that_comes_late_says_nothing_of_the_engine_as_it_is_now() {
    let (mut bench, client, _) = Bench::with_connected(4);
    idle(&mut bench, 0);
    let refused = transition(&bench, 0);
    // The engine refuses because it has work. Before the refusal arrives its doorbell is connected, and then it
    // becomes idle again.
    bench.connect(client).unwrap();
    idle(&mut bench, 0);
    refuse(&mut bench, 0, refused);
    let info = power(&mut bench, client, 0);
    assert_eq!((info.engine, info.engine_transitions), (F1, 2));
    bench.model.take_log();
    bench.connect(client).unwrap();
    assert_eq!(bench.model.take_log()[0], Call::EnginePower(0, F0));
}

#[test]
fn to_d3_contexts_are_suspended_doorbells_disconnected_and_rings_evicted_in_this_order() {
    let (mut bench, client, _) = Bench::with_connected(4);
    let ring_va = bench.model.state().rings[&client.id].ring_va;
    bench.model.take_log();
    bench.model.state().prompt = false;
    assert_eq!(bench.command(Command::SetDevicePower(DevicePowerState::D3)), None);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Suspend(vec![client.id]),
            Call::Disconnected(client.id, RETRY),
            Call::Unwatch(PhysicalDoorbell(0)),
            Call::Kick(client.id),
            Call::Quiesce,
        ]
    );
    // Memory is evicted only after engines have left the contexts.
    bench.pass_tickets();
    let log = bench.model.take_log();
    assert!(log.contains(&Call::Invalidate(ring_va)), "{log:?}");
    assert_eq!(log.last(), Some(&Call::Quiesce));
    assert!(bench.commands.is_empty());
    bench.pass_tickets();
    let log = bench.model.take_log();
    assert_eq!(log, [Call::EnginePower(0, F1), Call::EnginePower(1, F1)]);
    assert_eq!(bench.commands.len(), 1);
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D3);
}

#[test]
fn connecting_in_d3_wakes_makes_rings_resident_connects_and_resumes_in_this_order() {
    let (mut bench, client, doorbell) = Bench::with_connected(4);
    let (other, _) = bench.connected(client.guest);
    d3(&mut bench);
    // A late notification wakes no engine.
    bench.call(client, &NotifyWorkSubmission { doorbell }).unwrap();
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D3);
    bench.model.take_log();
    // The model asserts that a queue's ring is resident when the queue is resumed.
    bench.connect(client).unwrap();
    assert_eq!(
        bench.model.take_log(),
        [
            Call::EnginePower(0, F0),
            Call::EnginePower(1, F0),
            Call::Watch(PhysicalDoorbell(1), client.id),
            Call::Connected(client.id, CONNECTED),
            Call::Kick(client.id),
            Call::Resume(vec![client.id]),
            Call::Resume(vec![other.id]),
        ]
    );
    assert_eq!(bench.model.state().status[&other.id], RETRY);
    let info = power(&mut bench, client, 0);
    assert_eq!((info.device, info.device_transitions), (DevicePowerState::D0, 1));
}

#[test]
fn a_request_that_needs_the_device_on_its_way_to_d3_gets_it_and_the_one_for_d3_fails() {
    for passed in 0..2 {
        let (mut bench, client, _) = Bench::with_connected(4);
        bench.model.state().prompt = false;
        let request = SetDevicePower { state: DevicePowerState::D3, reserved: 0 };
        let request = bench.send(client.guest, crate::bench::bytes(0, &request));
        (0..passed).for_each(|_| bench.pass_tickets());
        bench.connect(client).unwrap();
        assert_eq!(bench.outcome(client, request), Some(Status::DEVICE_BUSY));
        assert!(bench.model.state().suspended.is_empty());
        // Tickets that engines pass later change nothing.
        bench.pass_tickets();
        bench.pass_tickets();
        assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D0);
    }
}

#[test]
fn the_device_goes_to_d3_when_all_engines_have_been_in_f1_for_long_enough() {
    let (mut bench, client, _) = Bench::with_connected(4);
    idle(&mut bench, 0);
    bench.later(TIMEOUT / 2);
    // The kernel will check whether the engine that is still in F0 makes progress.
    assert_eq!(bench.kernel.deadline(), Some(TIMEOUT));
    idle(&mut bench, 1);
    bench.later(TIMEOUT / 2);
    assert_eq!(bench.kernel.deadline(), Some(TIMEOUT / 2 + DEVICE_IDLE));
    bench.later(DEVICE_IDLE - TIMEOUT / 2 - Duration::from_nanos(1));
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D0);
    // Work in the meantime restarts the idle time.
    bench.connect(client).unwrap();
    bench.later(TIMEOUT / 2);
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D0);
    idle(&mut bench, 0);
    bench.later(DEVICE_IDLE);
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D3);
    bench.later(TIMEOUT / 2);
    assert_eq!(bench.kernel.deadline(), None);
}

#[test]
fn what_was_accepted_before_d3_was_asked_for_is_executed_without_a_request_for_power() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    bench.model.state().engines.on = true;
    let (client, _) = bench.connected(guest);
    bench.model.queue_work(client.id, Work { value: 5, ..Work::default() });
    bench.model.ring(client.id);
    d3(&mut bench);
    assert!(bench.model.state().engines.has_executed(client.id, 5));
    let info = power(&mut bench, client, 0);
    assert_eq!((info.device, info.device_transitions), (DevicePowerState::D0, 1));
    // Without work the device stays in D3.
    d3(&mut bench);
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D3);
}

#[test]
fn a_queue_that_waits_in_d3_continues_when_a_cpu_signals_its_fence() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    bench.model.state().engines.on = true;
    let (client, _) = bench.connected(guest);
    let fence = bench.call(client, &CreateNativeFence::new(client.device, 0)).unwrap();
    // The queue's last-queued value does not show this work, so the device goes to D3 although the work is pending.
    let waits_for = Some((guest, fence.slot, 1));
    bench.model.state().engines.give(client.id, Work { value: 5, waits_for, submission: None });
    bench.model.ring(client.id);
    bench.interrupt();
    d3(&mut bench);
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D3);
    bench.signal(client, &[(fence.fence, 1)]).unwrap();
    assert!(bench.model.state().engines.has_executed(client.id, 5));
}

#[test]
fn a_cpu_that_waits_for_a_fence_or_signals_one_wakes_the_device() {
    let (mut bench, client, _) = Bench::with_connected(4);
    let queue = bench.queue(client, HwQueueFlags::NATIVE_PROGRESS_FENCE);
    let fence = bench.call(client, &CreateNativeFence::new(client.device, 0)).unwrap().fence;
    let list = fence_values(&[(fence, 2)]);
    d3(&mut bench);
    let request = SignalFromGpu { queue: queue.queue, count: 1, reserved: 0 };
    bench.call_with_list(client, &request, &list).unwrap();
    // The signal takes effect at once, because no submission is queued before it.
    d3(&mut bench);
    let wait = bench.wait(client, fence, 2, 1);
    assert_eq!(bench.outcome(client, wait), Some(Status::SUCCESS));
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D0);
    d3(&mut bench);
    bench.signal(client, &[(fence, 3)]).unwrap();
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D0);
}

#[test]
fn what_is_queued_while_the_host_suspends_a_guest_is_executed_after_it_whatever_the_power() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    bench.model.state().engines.on = true;
    let (client, _) = bench.connected(guest);
    bench.command(Command::SuspendGuest(guest));
    bench.model.queue_work(client.id, Work { value: 5, ..Work::default() });
    bench.model.ring(client.id);
    d3(&mut bench);
    assert_eq!(power(&mut bench, client, 0).device, DevicePowerState::D3);
    bench.command(Command::ResumeGuest(guest));
    assert!(bench.model.state().engines.has_executed(client.id, 5));
}

#[test]
fn only_a_guest_with_the_feature_changes_power() {
    let mut bench = Bench::new(4);
    let guest = bench.attach(1);
    bench.open_with(guest, Features::USER_MODE_SUBMISSION).unwrap();
    let device = SetDevicePower { state: DevicePowerState::D3, reserved: 0 };
    let engine = SetEnginePower { node: 0, state: F1 };
    assert_eq!(bench.ask(guest, 0, &device).unwrap_err().0, Status::NOT_SUPPORTED);
    assert_eq!(bench.ask(guest, 0, &engine).unwrap_err().0, Status::NOT_SUPPORTED);
    let guest = bench.guest(2);
    bench.ask(guest, 0, &device).unwrap();
    bench.ask(guest, 0, &engine).unwrap();
    let no_such = SetEnginePower { node: 2, state: F1 };
    assert_eq!(bench.ask(guest, 0, &no_such).unwrap_err(), (Status::INVALID_PARAMETER, 2));
    let no_such = SetDevicePower { state: DevicePowerState(2), reserved: 0 };
    assert_eq!(bench.ask(guest, 0, &no_such).unwrap_err(), (Status::INVALID_PARAMETER, 2));
}

#[test]
fn an_evicted_allocation_is_mapped_again_as_it_was_and_a_ring_cannot_be_evicted() {
    let (mut bench, client) = Bench::with_client(4);
    let ring = bench.ring(client);
    bench.evict(client, &[ring.0]).unwrap();
    let refused = bench.doorbell_on(client, ring).unwrap_err();
    assert_eq!(refused, (Status::GRAPHICS_ALLOCATION_INVALID, ring.0.0));
    bench.make_resident(client, &[ring.0]).unwrap();
    bench.doorbell_on(client, ring).unwrap();
    for allocation in [ring.0, ring.1] {
        let refused = bench.evict(client, &[allocation]).unwrap_err();
        assert_eq!(refused, (Status::GRAPHICS_ALLOCATION_BUSY, allocation.0));
    }
}
