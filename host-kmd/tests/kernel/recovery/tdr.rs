// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hangs: their detection, the recovery of engines, and what is lost.

use crate::bench::{Bench, Client, DEVICE_IDLE, FEATURES, TIMEOUT, USER_MODE, submission};
use crate::model::{Call, Work};
use bellhop_host_kmd::dxgkrnl::TdrPolicy;
use bellhop_host_kmd::hardware::{EngineProgress, EngineState, Fault, Interrupt, SlotValue};
use bellhop_host_kmd::port::RequestToken;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::adapter::QueryStatistics;
use bellhop_protocol::control::allocation::{AllocationKind, CreateAllocation, Extent, SegmentSet};
use bellhop_protocol::control::context::CreateContext;
use bellhop_protocol::control::device::{CreateDevice, DestroyDevice};
use bellhop_protocol::control::fence::CreateNativeFence;
use bellhop_protocol::control::hw_queue::{CreateHwQueue, HwQueueFlags};
use bellhop_protocol::control::node_context::{
    CreateNodeContext, Render, SubmissionModel, SubmitCommandVirtual,
};
use bellhop_protocol::control::power::EnginePowerState;
use bellhop_protocol::control::process::CreateProcess;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::features::Features;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;
use std::time::Duration;

const ABORT: ConnectionStatus = ConnectionStatus::DISCONNECTED_ABORT;
const HANG: Fault = Fault {
    reason: FaultReason::ENGINE_TIMEOUT,
    opcode: Opcode::DISPATCH,
    address: 2000,
    read_pointer: 16,
};
const STEP: Duration = Duration::from_millis(500);

/// Has the engine report a hang in a queue. Returns the fence of the pre-emption that the kernel starts, if it starts
/// one.
fn hang(bench: &mut Bench, queue: Client) -> Option<u64> {
    bench.model.take_log();
    bench.hung(queue.id, HANG);
    bench.model.take_log().into_iter().find_map(|call| match call {
        Call::Preempt(id, fence) if id == queue.id => Some(fence),
        _ => None,
    })
}

fn hang_and_preempt(bench: &mut Bench, queue: Client) {
    let fence = hang(bench, queue).expect("a pre-emption");
    bench.preempted(0, fence);
}

fn status(bench: &Bench, client: Client) -> ConnectionStatus {
    bench.model.state().status[&client.id]
}

fn always_signaled(slot: u32) -> Call {
    Call::Signal(vec![SlotValue { slot, value: u64::MAX }], true)
}

/// Takes the events that report lost queues, and returns each queue's handle and reason.
fn told(bench: &mut Bench) -> Vec<(u64, FaultReason)> {
    let events = std::mem::take(&mut bench.events).into_iter().map(|(_, event)| event);
    let errors = events.filter(|event| event.kind == EventKind::HW_QUEUE_ERROR);
    errors.map(|event| (event.object, event.reason)).collect()
}

#[test]
fn a_hang_is_preempted_and_then_its_context_is_lost_and_no_other() {
    let (mut bench, guilty, _) = Bench::with_connected(4);
    let sibling = bench.queue(guilty, HwQueueFlags::empty());
    let (innocent, _) = bench.connected(guilty.guest);
    let fence = hang(&mut bench, guilty).unwrap();
    // The loss is reported only after the engine has stopped, and an engine has only one recovery at a time.
    assert_eq!(told(&mut bench), []);
    assert_eq!(hang(&mut bench, innocent), None);
    bench.preempted(0, fence + 1);
    assert_eq!(told(&mut bench), []);
    bench.model.take_log();
    bench.preempted(0, fence);
    assert_eq!(
        bench.model.take_log(),
        [
            Call::Suspend(vec![guilty.id, sibling.id]),
            Call::Disconnected(guilty.id, ABORT),
            Call::Unwatch(bellhop_host_kmd::hardware::PhysicalDoorbell(0)),
            Call::Kick(guilty.id),
            always_signaled(guilty.fence_slot),
            always_signaled(sibling.fence_slot),
        ]
    );
    let reason = FaultReason::ENGINE_TIMEOUT;
    assert_eq!(told(&mut bench), [(guilty.queue.0, reason), (sibling.queue.0, reason)]);
    let request = submission(sibling, 1);
    let lost = (Status::DEVICE_REMOVED, sibling.queue.0);
    assert_eq!(bench.call(guilty, &request).unwrap_err(), lost);
    assert_eq!(status(&bench, innocent), ConnectionStatus::CONNECTED);
    assert!(!bench.model.state().suspended.contains(&innocent.id));
    // Another context can be created on the same device in place of the lost one.
    let context = CreateContext { device: guilty.device, node: 0, engine_affinity: 0 };
    bench.call(guilty, &context).unwrap();
}

/// `DisableGpuTimeout`: a queue that makes no progress does not count as hung, and a hang of its neighbour loses only
/// the neighbour.
#[test]
fn a_queue_whose_timeout_is_off_does_not_hang_for_making_no_progress() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let flags = USER_MODE | HwQueueFlags::DISABLE_GPU_TIMEOUT;
    let endless = bench.client_with(guest, flags);
    let neighbour = bench.client_with(guest, USER_MODE);
    let disabled = |queue| bench.model.state().queues[&queue].disable_gpu_timeout;
    assert_eq!([endless.id, neighbour.id].map(disabled), [true, false]);
    assert_eq!(hang(&mut bench, endless), None);
    assert_eq!(told(&mut bench), []);
    hang_and_preempt(&mut bench, neighbour);
    assert_eq!(told(&mut bench), [(neighbour.queue.0, FaultReason::ENGINE_TIMEOUT)]);
}

#[test]
fn without_the_feature_no_queue_has_its_timeout_off() {
    let mut bench = Bench::new(4);
    let guest = bench.attach(1);
    bench.open_with(guest, FEATURES - Features::DISABLE_GPU_TIMEOUT).unwrap();
    let client = bench.client(guest);
    for flags in [USER_MODE, HwQueueFlags::empty()] {
        let flags = (flags | HwQueueFlags::DISABLE_GPU_TIMEOUT).bits();
        let request = CreateHwQueue { context: client.context, flags, reserved: 0 };
        assert_eq!(bench.call(client, &request).unwrap_err(), (Status::NOT_SUPPORTED, 0));
    }
}

#[test]
fn a_wait_for_the_progress_of_a_lost_context_ends() {
    let (mut bench, guilty, _) = Bench::with_connected(4);
    let token = bench.wait(guilty, guilty.fence, 1000, 5);
    assert_eq!(bench.outcome(guilty, token), Some(Status::PENDING));
    hang_and_preempt(&mut bench, guilty);
    let last = bench.events.last().unwrap().1;
    assert_eq!((last.kind, last.cookie, last.value), (EventKind::FENCE_SIGNALED, 5, u64::MAX));
    // The loss of the queue is reported first.
    assert_eq!(bench.events[0].1.kind, EventKind::HW_QUEUE_ERROR);
}

#[test]
fn what_cannot_be_preempted_is_reset_with_its_engine_and_others_lose_nothing() {
    let mut bench = Bench::new(4);
    let guests = [bench.guest(1), bench.guest(2)];
    let [guilty, innocent] = guests.map(|guest| bench.connected(guest).0);
    let fence = hang(&mut bench, guilty).unwrap();
    bench.later(STEP - Duration::from_millis(1));
    assert!(!bench.model.take_log().contains(&Call::ResetEngine(0)));
    bench.later(Duration::from_millis(1));
    assert_eq!(bench.model.take_log(), [Call::ResetEngine(0)]);
    // The pre-emption completes after all, but too late.
    bench.preempted(0, fence);
    assert_eq!(told(&mut bench), []);
    bench.raise(Interrupt::EngineReset { node: 0 });
    assert_eq!(told(&mut bench), [(guilty.queue.0, FaultReason::ENGINE_TIMEOUT)]);
    assert_eq!(status(&bench, innocent), ConnectionStatus::CONNECTED);
    // Another reset of the engine belongs to no recovery.
    bench.raise(Interrupt::EngineReset { node: 0 });
    assert_eq!(told(&mut bench), []);
}

#[test]
fn what_withstands_that_costs_all_guests_their_devices_and_the_kernel_carries_on() {
    let mut bench = Bench::new(4);
    let guests = [bench.guest(1), bench.guest(2)];
    let [guilty, innocent] = guests.map(|guest| bench.connected(guest).0);
    let fence = bench.call(innocent, &CreateNativeFence::new(innocent.device, 3));
    let fence = fence.unwrap();
    hang(&mut bench, guilty).unwrap();
    bench.later(STEP);
    bench.model.take_log();
    bench.later(STEP);
    let log = bench.model.take_log();
    assert_eq!(log[0], Call::ResetAdapter);
    assert!(log.contains(&always_signaled(fence.slot)));
    assert_eq!(
        told(&mut bench),
        [
            (guilty.queue.0, FaultReason::ENGINE_TIMEOUT),
            (innocent.queue.0, FaultReason::ADAPTER_RESET),
        ]
    );
    for client in [guilty, innocent] {
        assert_eq!(status(&bench, client), ABORT);
        let context = CreateContext { device: client.device, node: 0, engine_affinity: 0 };
        let removed = (Status::DEVICE_REMOVED, client.device.0);
        assert_eq!(bench.call(client, &context).unwrap_err(), removed);
    }
    // No other recovery begins while the adapter is being reset.
    let (next, _) = bench.connected(guests[1]);
    assert_eq!(hang(&mut bench, next), None);
    for node in [0, 1] {
        bench.raise(Interrupt::EngineReset { node });
    }
    assert_eq!(told(&mut bench), []);
    hang_and_preempt(&mut bench, next);
    assert_eq!(told(&mut bench), [(next.queue.0, FaultReason::ENGINE_TIMEOUT)]);
}

/// An engine that waits in a page fault of one guest's memory cannot be reset, and goes on by itself.
#[test]
fn an_engine_that_stands_costs_only_the_guest_in_whose_memory_it_stands() {
    let mut bench = Bench::new(4);
    let guests = [bench.guest(1), bench.guest(2)];
    let [guilty, innocent] = guests.map(|guest| bench.connected(guest).0);
    let stands = |bench: &Bench, stands| {
        let executing = Some(guilty.id);
        let progress = EngineProgress { is_asleep: false, turns: 1, executing, stands };
        bench.model.state().progress.insert(0, progress);
    };
    hang(&mut bench, guilty).unwrap();
    stands(&bench, true);
    bench.later(STEP);
    assert_eq!(bench.model.take_log(), [Call::ResetEngine(0)]);
    for round in 0..4 {
        bench.later(STEP);
        assert!(!bench.model.take_log().contains(&Call::ResetAdapter));
        let lost = [(guilty.queue.0, FaultReason::ENGINE_TIMEOUT)];
        assert_eq!(told(&mut bench), lost[usize::from(round > 0)..]);
    }
    assert_eq!(
        (status(&bench, guilty), status(&bench, innocent)),
        (ABORT, ConnectionStatus::CONNECTED)
    );
    // The engine is back.
    stands(&bench, false);
    bench.raise(Interrupt::EngineReset { node: 0 });
    assert_eq!(told(&mut bench), []);
    assert_eq!(status(&bench, innocent), ConnectionStatus::CONNECTED);
    // From now on what does not reset is reset harder.
    hang(&mut bench, innocent).unwrap();
    bench.later(STEP);
    bench.later(STEP);
    assert!(bench.model.take_log().contains(&Call::ResetAdapter));
}

/// This also holds with the time-out off, because the engine executes nothing else in the meantime.
#[test]
fn a_turn_that_does_not_end_is_found_by_looking_while_an_engine_is_awake() {
    for flags in [USER_MODE, USER_MODE | HwQueueFlags::DISABLE_GPU_TIMEOUT] {
        let mut bench = Bench::new(4);
        let guest = bench.guest(1);
        let client = bench.client_with(guest, flags);
        bench.doorbell(client);
        bench.connect(client).unwrap();
        let look = |bench: &mut Bench, turns, executing| {
            let progress = EngineProgress { is_asleep: false, turns, executing, stands: false };
            bench.model.state().progress.insert(0, progress);
            bench.model.take_log();
            bench.later(TIMEOUT / 2);
            let mut log = bench.model.take_log();
            log.retain(|call| matches!(call, Call::Preempt(..)));
            log
        };
        let executing = Some(client.id);
        // Turns that end are no hang, and neither is the time between turns.
        for turns in 1..10 {
            assert_eq!(look(&mut bench, turns, executing), []);
        }
        for _ in 0..10 {
            assert_eq!(look(&mut bench, 10, None), []);
        }
        assert_eq!(look(&mut bench, 11, executing), []);
        assert_eq!(look(&mut bench, 11, executing), []);
        assert_eq!(look(&mut bench, 11, executing), [Call::Preempt(client.id, 1)]);
        bench.preempted(0, 1);
        assert_eq!(told(&mut bench), [(client.queue.0, FaultReason::ENGINE_TIMEOUT)]);
    }
}

/// Has a guest's paging hang while it makes an allocation resident. Returns the request's token and the pre-emption's
/// fence.
fn paging_hangs(bench: &mut Bench, client: Client) -> (RequestToken, u64) {
    let request = CreateAllocation {
        supported_segments: (SegmentSet::LOCAL | SegmentSet::SYSTEM).bits(),
        extent_count: 1,
        ..CreateAllocation::fixed(client.device, AllocationKind::PAGED, PAGE_SIZE, 0)
    };
    let extents = [Extent { address: 3 * PAGE_SIZE, length: PAGE_SIZE }];
    let allocation = bench.call_with_list(client, &request, &extents).unwrap().allocation;
    bench.model.state().prompt_paging = false;
    let token = bench.make_resident_later(client, &[allocation]);
    let system = bench.model.state().systems[&client.guest];
    bench.model.take_log();
    let new_state = EngineState::Hung { queue: system.hw_queue, fault: HANG };
    bench.raise(Interrupt::GpuEngineStateChange { node: system.node, new_state });
    let [Call::Preempt(queue, fence)] = bench.model.take_log()[..] else {
        panic!("no pre-emption")
    };
    assert_eq!(queue, system.hw_queue);
    (token, fence)
}

#[test]
fn paging_that_hangs_is_given_up_and_costs_those_whose_memory_it_was_alone() {
    let mut bench = Bench::new(4);
    let guests = [bench.guest(1), bench.guest(2)];
    let [(client, _), (innocent, _), (stranger, _)] =
        [guests[0], guests[0], guests[1]].map(|guest| bench.connected(guest));
    let (token, preemption_fence) = paging_hangs(&mut bench, client);
    let node = bench.model.state().systems[&client.guest].node;
    assert_eq!(bench.outcome(client, token), None);
    bench.preempted(node, preemption_fence);
    let log = bench.model.take_log();
    let [Call::AbandonPaging(guest, fence)] = log[..] else { panic!("{log:?}") };
    assert_eq!((guest, Some(fence)), (client.guest, bench.model.oldest_paging(guest)));
    bench.model.fail_paging(client.guest, HANG);
    bench.interrupt();
    assert_eq!(bench.outcome(client, token), Some(Status::IO_DEVICE_ERROR));
    assert_eq!(told(&mut bench), [(client.queue.0, FaultReason::DEVICE_IN_ERROR)]);
    for other in [innocent, stranger] {
        assert_eq!(status(&bench, other), ConnectionStatus::CONNECTED);
    }
    // The system context continues with its paging, and such hangs do not count as the guest's, however many there
    // are.
    bench.model.state().prompt_paging = true;
    for _ in 0..2 * TdrPolicy::default().limit_count {
        let next = bench.client(client.guest);
        let (token, preemption_fence) = paging_hangs(&mut bench, next);
        bench.preempted(node, preemption_fence);
        // The paging was completed in the meantime.
        bench.model.state().prompt_paging = true;
        bench.model.complete_paging(client.guest);
        bench.interrupt();
        assert_eq!(bench.outcome(next, token), Some(Status::SUCCESS));
    }
}

#[test]
fn paging_that_cannot_be_preempted_is_given_up_with_a_reset_of_its_engine_or_of_the_adapter() {
    for resets_adapter in [false, true] {
        let (mut bench, client, _) = Bench::with_connected(4);
        let (token, _) = paging_hangs(&mut bench, client);
        let node = bench.model.state().systems[&client.guest].node;
        bench.later(STEP);
        assert_eq!(bench.model.take_log(), [Call::ResetEngine(node)]);
        if resets_adapter {
            bench.later(STEP);
            assert_eq!(bench.model.take_log()[0], Call::ResetAdapter);
            assert_eq!(told(&mut bench), [(client.queue.0, FaultReason::ADAPTER_RESET)]);
        }
        bench.model.fail_paging(client.guest, HANG);
        let nodes = if resets_adapter { vec![0, node] } else { vec![node] };
        for node in nodes {
            bench.raise(Interrupt::EngineReset { node });
        }
        let abandoned = |call: &Call| matches!(call, Call::AbandonPaging(..));
        assert_eq!(bench.model.take_log().into_iter().filter(abandoned).count(), 1);
        assert_eq!(bench.outcome(client, token), Some(Status::IO_DEVICE_ERROR));
        bench.model.state().prompt_paging = true;
        bench.client(client.guest);
    }
}

#[test]
fn a_guest_that_goes_while_its_paging_hangs_leaves_nothing() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    let (client, _) = bench.connected(guest);
    let (_, preemption_fence) = paging_hangs(&mut bench, client);
    let node = bench.model.state().systems[&guest].node;
    bench.input(bellhop_host_kmd::port::Input::Detach { guest });
    bench.preempted(node, preemption_fence);
    bench.pass_tickets();
    assert_eq!(bench.detached, [guest]);
}

/// "Dxgkrnl monitors whether a GPU engine is making progress using TDR timeout cadence."
#[test]
fn an_engine_that_does_nothing_for_a_time_out_goes_to_f1_and_is_looked_at_no_more() {
    let (mut bench, client, _) = Bench::with_connected(4);
    assert_eq!(bench.kernel.deadline(), Some(TIMEOUT / 2));
    bench.later(TIMEOUT / 2);
    bench.later(TIMEOUT / 2);
    assert_eq!(status(&bench, client), ConnectionStatus::CONNECTED);
    assert_eq!(bench.kernel.deadline(), Some(3 * (TIMEOUT / 2)));
    bench.model.take_log();
    bench.later(TIMEOUT / 2);
    let log = bench.model.take_log();
    assert!(log.contains(&Call::EnginePower(0, EnginePowerState::F1)), "{log:?}");
    assert!(log.contains(&Call::EnginePower(1, EnginePowerState::F1)), "{log:?}");
    assert_eq!(status(&bench, client), ConnectionStatus::DISCONNECTED_RETRY);
    // Only the deadline of the power policy is left.
    assert_eq!(bench.kernel.deadline(), Some(3 * (TIMEOUT / 2) + DEVICE_IDLE));
    // The timer for looking at engines starts again only with a request, or while an engine is awake.
    bench.call(client, &QueryStatistics { reserved: 0 }).unwrap_err();
    assert_eq!(bench.kernel.deadline(), Some(4 * (TIMEOUT / 2)));
    bench.later(TIMEOUT / 2);
    assert_eq!(bench.kernel.deadline(), Some(3 * (TIMEOUT / 2) + DEVICE_IDLE));
}

#[test]
fn an_engine_that_works_or_has_work_that_waits_stays_in_f0() {
    let mut bench = Bench::new(4);
    let guest = bench.guest(1);
    bench.model.state().engines.on = true;
    let (client, _) = bench.connected(guest);
    let fence = bench.call(client, &CreateNativeFence::new(client.device, 0)).unwrap();
    let asleep = EngineProgress { is_asleep: true, turns: 0, executing: None, stands: false };
    for turns in 0..8 {
        // The engine was asleep at each look, but executed turns in between.
        bench.model.state().progress.insert(0, EngineProgress { turns, ..asleep });
        bench.later(TIMEOUT / 2);
        assert_eq!(status(&bench, client), ConnectionStatus::CONNECTED);
    }
    let waits_for = Some((guest, fence.slot, 1));
    bench.model.queue_work(client.id, Work { value: 1, waits_for, submission: None });
    bench.model.ring(client.id);
    for _ in 0..8 {
        bench.later(TIMEOUT / 2);
        assert_eq!(status(&bench, client), ConnectionStatus::CONNECTED);
    }
    bench.signal(client, &[(fence.fence, 1)]).unwrap();
    assert!(bench.model.state().engines.has_executed(client.id, 1));
    for _ in 0..3 {
        bench.later(TIMEOUT / 2);
    }
    assert_eq!(status(&bench, client), ConnectionStatus::DISCONNECTED_RETRY);
}

#[test]
fn a_guest_that_hangs_too_often_gets_nothing_executed_until_it_is_reset() {
    let mut bench = Bench::new(8);
    let (guest, other) = (bench.guest(1), bench.guest(2));
    let (innocent, _) = bench.connected(other);
    let process = bench.process(guest);
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let limit = TdrPolicy::default().limit_count;
    for _ in 0..limit {
        let (client, _) = bench.connected(guest);
        hang_and_preempt(&mut bench, client);
        let destroy = DestroyDevice { device: client.device };
        bench.call(client, &destroy).unwrap();
        bench.later(Duration::from_secs(1));
    }
    let refused = (Status::GRAPHICS_GPU_EXCEPTION_ON_DEVICE, limit.into());
    let context = CreateContext { device, node: 0, engine_affinity: 0 };
    assert_eq!(bench.ask(guest, process, &context).unwrap_err(), refused);
    let model = SubmissionModel::VIRTUAL;
    let context = CreateNodeContext { device, node: 0, model };
    assert_eq!(bench.ask(guest, process, &context).unwrap_err(), refused);
    let (context, gpu_va) = (Handle(1), 0);
    let submit = SubmitCommandVirtual { context, gpu_va, size: 8, reserved: 0 };
    assert_eq!(bench.ask(guest, process, &submit).unwrap_err(), refused);
    let render = Render {
        context,
        dma_buffer: 0,
        dma_buffer_size: 0,
        command_length: 0,
        allocation_count: 0,
        patch_location_count: 0,
    };
    assert_eq!(bench.ask(guest, process, &render).unwrap_err(), refused);
    let create = CreateDevice { reserved: 0 };
    assert_eq!(bench.ask(guest, process, &create).unwrap_err(), refused);
    assert_eq!(bench.ask(guest, 0, &CreateProcess { reserved: 0 }).unwrap_err(), refused);
    // The guest can still make queries and destroy its objects.
    bench.ask(guest, 0, &QueryStatistics { reserved: 0 }).unwrap();
    bench.ask(guest, process, &DestroyDevice { device }).unwrap();
    // Other guests are not affected.
    assert_ne!(status(&bench, innocent), ABORT);
    bench.client(other);
    // After a reset the guest attaches under another id.
    bench.input(bellhop_host_kmd::port::Input::Detach { guest });
    let guest = bench.guest(3);
    bench.client(guest);
}
