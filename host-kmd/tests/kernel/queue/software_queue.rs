// SPDX-License-Identifier: MIT OR Apache-2.0

//! Monitored fences, and queues that wait for fences and signal them through requests.

use crate::bench::{
    Bench, Client, FEATURES, Refused, TIMEOUT, USER_MODE, fence_values, submission,
};
use crate::model::Call;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{Fault, GlobalFence, HwQueueId, Interrupt, UnknownId};
use bellhop_host_kmd::port::{Command, Input, RequestToken};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::context::{CreateContext, ResumeContext, SuspendContext};
use bellhop_protocol::control::device::CreateDevice;
use bellhop_protocol::control::fence::{
    CreateMonitoredFence, CreateNativeFence, DestroyNativeFence, FenceFlags, NativeFenceType,
    OpenNativeFence, OpenedFence, ShareNativeFence, SignalFromGpu, WaitFromGpu,
};
use bellhop_protocol::control::hw_queue::{CreateHwQueue, DestroyHwQueue, HwQueueFlags};
use bellhop_protocol::control::node_context::{
    CreateNodeContext, SubmissionModel, SubmitCommandVirtual,
};
use bellhop_protocol::control::power::DevicePowerState;
use bellhop_protocol::control::process::DestroyProcess;
use bellhop_protocol::event::{EventKind, FaultReason};
use bellhop_protocol::features::Features;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;

const NOTHING: [u64; 0] = [];
const KERNEL_MODE: HwQueueFlags = HwQueueFlags::NATIVE_PROGRESS_FENCE;

fn new() -> (Bench, Client) {
    with_limits(Limits::default())
}

/// A bench with these limits and a client whose queue takes submissions in kernel mode.
fn with_limits(limits: Limits) -> (Bench, Client) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client_with(guest, KERNEL_MODE);
    (bench, client)
}

fn monitored(bench: &mut Bench, client: Client, initial_value: u64) -> OpenedFence {
    let (device, flags) = (client.device, 0);
    let request = CreateMonitoredFence { device, initial_value, flags, reserved: 0 };
    bench.call(client, &request).unwrap()
}

fn native(bench: &mut Bench, client: Client, initial: u64) -> OpenedFence {
    bench.call(client, &CreateNativeFence::new(client.device, initial)).unwrap()
}

fn wait_on(
    bench: &mut Bench,
    client: Client,
    queue: Handle,
    fences: &[(Handle, u64)],
) -> Result<(), Refused> {
    let list = fence_values(fences);
    let request = WaitFromGpu { queue, count: list.len() as u32, reserved: 0 };
    bench.call_with_list(client, &request, &list)
}

fn signal_on(
    bench: &mut Bench,
    client: Client,
    queue: Handle,
    fences: &[(Handle, u64)],
) -> Result<(), Refused> {
    let list = fence_values(fences);
    let request = SignalFromGpu { queue, count: list.len() as u32, reserved: 0 };
    bench.call_with_list(client, &request, &list)
}

fn wait(bench: &mut Bench, client: Client, fence: &OpenedFence, value: u64) {
    wait_on(bench, client, client.queue, &[(fence.fence, value)]).unwrap();
}

fn signal(bench: &mut Bench, client: Client, fence: &OpenedFence, value: u64) {
    signal_on(bench, client, client.queue, &[(fence.fence, value)]).unwrap();
}

fn submit(bench: &mut Bench, client: Client, value: u64) {
    bench.call(client, &submission(client, value)).unwrap();
}

/// The progress fence values of the submissions that the hardware was given since the last call.
fn submitted(bench: &Bench, queue: HwQueueId) -> Vec<u64> {
    let log = bench.model.take_log().into_iter();
    log.filter_map(|call| match call {
        Call::Submit(id, submission) if id == queue => Some(submission.progress_fence_value),
        _ => None,
    })
    .collect()
}

fn completed(bench: &mut Bench, fence: u64) {
    bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence });
}

fn current(bench: &Bench, client: Client, fence: &OpenedFence) -> u64 {
    bench.model.state().fences[&(client.guest, fence.slot)].current
}

fn gone(mut bench: Bench) {
    let guests: Vec<_> = bench.model.state().systems.keys().copied().collect();
    for guest in guests {
        bench.input(Input::Detach { guest });
    }
    bench.pass_tickets();
    assert!(bench.model.is_empty());
}

#[test]
fn what_is_submitted_behind_a_wait_is_held_in_order_until_the_cpu_sees_the_value() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    submit(&mut bench, client, 1);
    wait(&mut bench, client, &fence, 5);
    submit(&mut bench, client, 2);
    submit(&mut bench, client, 3);
    assert_eq!(submitted(&bench, client.id), [1]);
    // An engine signals, and each signal raises an interrupt.
    bench.model.signal(client.guest, fence.slot, 4);
    bench.interrupt();
    assert_eq!(submitted(&bench, client.id), NOTHING);
    bench.model.signal(client.guest, fence.slot, 5);
    bench.interrupt();
    assert_eq!(submitted(&bench, client.id), [2, 3]);
    // Nothing is held any more. A wait for a value that the fence has already reached holds nothing.
    wait(&mut bench, client, &fence, 5);
    submit(&mut bench, client, 4);
    assert_eq!(submitted(&bench, client.id), [4]);
    gone(bench);
}

#[test]
fn a_held_submission_to_a_queue_that_the_hardware_does_not_know_loses_the_queue() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    wait(&mut bench, client, &fence, 5);
    submit(&mut bench, client, 1);
    bench.model.state().lost = vec![UnknownId::HwQueue(client.id)];
    bench.signal(client, &[(fence.fence, 5)]).unwrap();
    let removed = (Status::DEVICE_REMOVED, client.queue.0);
    assert_eq!(bench.call(client, &submission(client, 2)).unwrap_err(), removed);
    bench.model.state().lost.clear();
    gone(bench);
}

#[test]
fn a_wait_for_several_fences_ends_with_the_last_and_a_cpu_may_signal_them() {
    let (mut bench, client) = new();
    let (one, two) = (monitored(&mut bench, client, 0), native(&mut bench, client, 0));
    let fences = [(one.fence, 1), (two.fence, 7), (two.fence, 3)];
    wait_on(&mut bench, client, client.queue, &fences).unwrap();
    // Only the native fence has a MonitoredValue in the hardware.
    let state = |bench: &Bench, fence: &OpenedFence| {
        bench.model.state().fences[&(client.guest, fence.slot)].monitored
    };
    assert_eq!((state(&bench, &one), state(&bench, &two)), (0, 6));
    submit(&mut bench, client, 1);
    bench.signal(client, &[(one.fence, 1)]).unwrap();
    assert_eq!(submitted(&bench, client.id), NOTHING);
    bench.signal(client, &[(two.fence, 7)]).unwrap();
    assert_eq!(submitted(&bench, client.id), [1]);
    assert_eq!(state(&bench, &two), NOT_MONITORED);
    gone(bench);
}

#[test]
fn a_signal_takes_effect_when_everything_before_it_is_done_and_before_anything_after_it_begins() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    signal(&mut bench, client, &fence, 1);
    assert_eq!(current(&bench, client, &fence), 1);
    submit(&mut bench, client, 1);
    submit(&mut bench, client, 2);
    signal(&mut bench, client, &fence, 2);
    submit(&mut bench, client, 3);
    signal(&mut bench, client, &fence, 3);
    assert_eq!(submitted(&bench, client.id), [1, 2]);
    completed(&mut bench, 1);
    assert_eq!(current(&bench, client, &fence), 1);
    completed(&mut bench, 2);
    assert_eq!(current(&bench, client, &fence), 2);
    assert_eq!(submitted(&bench, client.id), [3]);
    completed(&mut bench, 3);
    assert_eq!(current(&bench, client, &fence), 3);
    // The signal does not wait for the completion interrupt: it is enough that the hardware's completed value shows
    // that the submission is done.
    submit(&mut bench, client, 4);
    bench.model.state().completed.insert(client.id, 4);
    signal(&mut bench, client, &fence, 4);
    assert_eq!(current(&bench, client, &fence), 4);
    gone(bench);
}

#[test]
fn queues_hand_each_other_on_by_fences_of_either_kind() {
    let (mut bench, one) = new();
    let two = bench.queue(one, KERNEL_MODE);
    let (there, back) = (monitored(&mut bench, one, 0), native(&mut bench, one, 0));
    for round in 1..=5 {
        wait(&mut bench, two, &there, round);
        submit(&mut bench, two, round);
        signal(&mut bench, two, &back, round);
        submit(&mut bench, one, round);
        signal(&mut bench, one, &there, round);
        wait(&mut bench, one, &back, round);
    }
    for round in 1..=5 {
        let fence = |bench: &Bench| -> (HwQueueId, u64) {
            let log = bench.model.take_log().into_iter();
            let mut submissions = log.filter_map(|call| match call {
                Call::Submit(id, submission) => {
                    assert_eq!(submission.progress_fence_value, round);
                    Some((id, submission.submission_fence))
                }
                _ => None,
            });
            let first = submissions.next().expect("a submission");
            assert_eq!(submissions.next(), None, "only one queue may continue");
            first
        };
        let (id, submission) = fence(&bench);
        assert_eq!(id, one.id);
        completed(&mut bench, submission);
        let (id, submission) = fence(&bench);
        assert_eq!(id, two.id);
        completed(&mut bench, submission);
    }
    assert_eq!((current(&bench, one, &there), current(&bench, one, &back)), (5, 5));
    gone(bench);
}

#[test]
fn contexts_that_submit_to_their_node_wait_and_signal_by_their_own_handle() {
    let (mut bench, client) = new();
    let (device, model) = (client.device, SubmissionModel::VIRTUAL);
    let node = bench.call(client, &CreateNodeContext { device, node: 0, model }).unwrap();
    let id = *bench.model.state().queues.last_key_value().unwrap().0;
    let fence = monitored(&mut bench, client, 0);
    wait_on(&mut bench, client, node.context, &[(fence.fence, 1)]).unwrap();
    let gpu_va = node.command_buffer_gpu_va;
    let request = SubmitCommandVirtual { context: node.context, gpu_va, size: 8, reserved: 0 };
    let first = bench.call(client, &request).unwrap();
    let second = bench.call(client, &request).unwrap();
    assert!(second.submission_fence > first.submission_fence);
    assert_eq!((first.progress_fence_value, second.progress_fence_value), (1, 2));
    signal_on(&mut bench, client, node.context, &[(fence.fence, 2)]).unwrap();
    assert_eq!(submitted(&bench, id), NOTHING);
    bench.signal(client, &[(fence.fence, 1)]).unwrap();
    assert_eq!(submitted(&bench, id), [1, 2]);
    assert_eq!(current(&bench, client, &fence), 1);
    completed(&mut bench, second.submission_fence);
    assert_eq!(current(&bench, client, &fence), 2);
    gone(bench);
}

#[test]
fn what_is_not_such_a_queue_or_not_such_a_fence_is_refused() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 3);
    let user_mode = bench.queue(client, USER_MODE);
    let intra_gpu = CreateNativeFence {
        fence_type: NativeFenceType::INTRA_GPU,
        ..CreateNativeFence::new(client.device, 0)
    };
    let intra_gpu = bench.call(client, &intra_gpu).unwrap();
    for (queue, fence, status) in [
        (user_mode.queue, fence.fence, Status::NOT_SUPPORTED),
        (client.context, fence.fence, Status::NOT_SUPPORTED),
        (client.device, fence.fence, Status::OBJECT_TYPE_MISMATCH),
        (Handle(5), fence.fence, Status::INVALID_HANDLE),
        (client.queue, intra_gpu.fence, Status::NOT_SUPPORTED),
        (client.queue, client.device, Status::OBJECT_TYPE_MISMATCH),
        (client.queue, Handle(5), Status::INVALID_HANDLE),
    ] {
        let list = [(fence, 9)];
        assert_eq!(wait_on(&mut bench, client, queue, &list).unwrap_err().0, status);
        assert_eq!(signal_on(&mut bench, client, queue, &list).unwrap_err().0, status);
    }
    let progress = [(client.fence, 9)];
    let refused = signal_on(&mut bench, client, client.queue, &progress).unwrap_err();
    assert_eq!(refused.0, Status::NOT_SUPPORTED);
    for count in [0, 65] {
        let list = vec![(fence.fence, 9); count];
        let refused = (Status::INVALID_PARAMETER, count as u64);
        assert_eq!(wait_on(&mut bench, client, client.queue, &list).unwrap_err(), refused);
        assert_eq!(signal_on(&mut bench, client, client.queue, &list).unwrap_err(), refused);
    }
    submit(&mut bench, client, 1);
    assert_eq!(submitted(&bench, client.id), [1]);
    gone(bench);
}

#[test]
fn what_is_held_is_bounded_and_counted() {
    let limits = Limits { held: 3, submissions: 2, ..Limits::default() };
    let (mut bench, client) = with_limits(limits);
    let fence = monitored(&mut bench, client, 0);
    wait(&mut bench, client, &fence, 1);
    submit(&mut bench, client, 1);
    submit(&mut bench, client, 2);
    let refused = (Status::QUOTA_EXCEEDED, 2);
    assert_eq!(bench.call(client, &submission(client, 3)).unwrap_err(), refused);
    let list = [(fence.fence, 2)];
    let refused = (Status::QUOTA_EXCEEDED, 3);
    assert_eq!(wait_on(&mut bench, client, client.queue, &list).unwrap_err(), refused);
    assert_eq!(signal_on(&mut bench, client, client.queue, &list).unwrap_err(), refused);
    bench.signal(client, &[(fence.fence, 1)]).unwrap();
    assert_eq!(submitted(&bench, client.id), [1, 2]);
    // The submissions have been given to the hardware but are not done, so they still count.
    assert_eq!(bench.call(client, &submission(client, 3)).unwrap_err().0, Status::QUOTA_EXCEEDED);
    wait(&mut bench, client, &fence, 2);
    completed(&mut bench, 2);
    submit(&mut bench, client, 3);
    gone(bench);
}

#[test]
fn what_the_hardware_has_no_room_for_stays_held_in_its_place() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    bench.model.state().submission_room = 2;
    wait(&mut bench, client, &fence, 1);
    for value in 1..=4 {
        submit(&mut bench, client, value);
    }
    bench.signal(client, &[(fence.fence, 1)]).unwrap();
    assert_eq!(submitted(&bench, client.id), [1, 2]);
    bench.model.state().submission_room = 2;
    completed(&mut bench, 1);
    assert_eq!(submitted(&bench, client.id), [3, 4]);
    gone(bench);
}

#[test]
fn a_queue_that_waits_for_a_fence_that_its_process_closes_is_lost_and_another_is_not() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    let other = bench.queue_in_another_context(client, KERNEL_MODE);
    wait(&mut bench, client, &fence, 1);
    submit(&mut bench, client, 1);
    bench.call(client, &DestroyNativeFence { fence: fence.fence }).unwrap();
    let mut events = bench.events.iter().map(|(_, event)| event);
    let event = events.find(|event| event.object == client.queue.0).expect("it is told");
    assert_eq!(event.kind, EventKind::HW_QUEUE_ERROR);
    assert_eq!((event.reason, event.opcode), (FaultReason::FENCE_NOT_OWNED, Opcode::WAIT_FENCE));
    assert_eq!(event.value, u64::from(fence.slot));
    let lost = (Status::DEVICE_REMOVED, client.queue.0);
    assert_eq!(bench.call(client, &submission(client, 2)).unwrap_err(), lost);
    submit(&mut bench, other, 1);
    assert_eq!(submitted(&bench, other.id), [1]);
    gone(bench);
}

#[test]
fn a_held_signal_rewinds_a_fence_that_may_be_rewound() {
    let (mut bench, client) = new();
    let (device, initial_value) = (client.device, 9);
    let flags = FenceFlags::REWINDABLE.bits();
    let request = CreateMonitoredFence { device, initial_value, flags, reserved: 0 };
    let fence = bench.call(client, &request).unwrap();
    submit(&mut bench, client, 1);
    signal(&mut bench, client, &fence, 3);
    completed(&mut bench, 1);
    assert_eq!(current(&bench, client, &fence), 3);
    assert_eq!(bench.events, []);
    gone(bench);
}

#[test]
fn a_held_signal_that_goes_backwards_loses_its_context() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    submit(&mut bench, client, 1);
    signal(&mut bench, client, &fence, 3);
    bench.signal(client, &[(fence.fence, 4)]).unwrap();
    completed(&mut bench, 1);
    let event = bench.events.last().unwrap().1;
    assert_eq!(
        (event.kind, event.reason),
        (EventKind::HW_QUEUE_ERROR, FaultReason::FENCE_WENT_BACKWARDS)
    );
    assert_eq!((event.opcode, event.value), (Opcode::SIGNAL_FENCE, 3));
    assert_eq!(current(&bench, client, &fence), 4);
    gone(bench);
}

#[test]
fn a_held_signal_reaches_processes_that_still_have_the_fence_and_never_another_fence() {
    let (mut bench, client) = new();
    let other = bench.client(client.guest);
    let (device, flags) = (client.device, FenceFlags::SHARED.bits());
    let request = CreateMonitoredFence { device, initial_value: 0, flags, reserved: 0 };
    let shared = bench.call(client, &request).unwrap();
    let name = bench.call(client, &ShareNativeFence { fence: shared.fence }).unwrap();
    let open = OpenNativeFence { device: other.device, nt_handle: name };
    let opened = bench.call(other, &open).unwrap();
    let own = monitored(&mut bench, client, 0);
    submit(&mut bench, client, 1);
    signal_on(&mut bench, client, client.queue, &[(shared.fence, 1), (own.fence, 1)]).unwrap();
    for fence in [shared.fence, own.fence] {
        bench.call(client, &DestroyNativeFence { fence }).unwrap();
    }
    let next = monitored(&mut bench, client, 0);
    assert_eq!(next.slot, own.slot, "the slot is used again");
    let token = bench.wait(other, opened.fence, 1, 7);
    assert_eq!(bench.outcome(other, token), Some(Status::PENDING));
    completed(&mut bench, 1);
    assert_eq!(bench.events.last().unwrap().1.cookie, 7);
    assert_eq!(current(&bench, client, &next), 0);
    gone(bench);
}

#[test]
fn a_suspended_context_signals_nothing_until_it_is_resumed() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    let context = client.context;
    bench.call(client, &SuspendContext { context }).unwrap();
    signal(&mut bench, client, &fence, 1);
    assert_eq!(current(&bench, client, &fence), 0);
    bench.call(client, &ResumeContext { context }).unwrap();
    assert_eq!(current(&bench, client, &fence), 1);
    gone(bench);
}

#[test]
fn what_is_released_brings_back_the_power_that_it_needs() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    wait(&mut bench, client, &fence, 1);
    submit(&mut bench, client, 1);
    bench.command(Command::SetDevicePower(DevicePowerState::D3)).unwrap().unwrap();
    assert!(!bench.model.state().without_power.is_empty());
    bench.signal(client, &[(fence.fence, 1)]).unwrap();
    assert!(bench.model.state().without_power.is_empty());
    assert_eq!(submitted(&bench, client.id), [1]);
    gone(bench);
}

/// Makes two queues, each of which waits for a signal of the other.
fn deadlock(bench: &mut Bench, client: Client) -> [Client; 2] {
    let queues = [(); 2].map(|()| bench.queue_in_another_context(client, KERNEL_MODE));
    let fences = [monitored(bench, client, 0), monitored(bench, client, 0)];
    for index in 0..2 {
        wait(bench, queues[index], &fences[1 - index], 1);
        submit(bench, queues[index], 1);
        signal(bench, queues[index], &fences[index], 1);
    }
    queues
}

#[test]
fn queues_that_wait_for_each_other_hold_up_no_other_queue_and_can_be_destroyed() {
    let (mut bench, client) = new();
    let queues = deadlock(&mut bench, client);
    submit(&mut bench, client, 1);
    assert_eq!(submitted(&bench, client.id), [1]);
    let tokens: Vec<RequestToken> = queues
        .iter()
        .map(|queue| bench.begin(client, &DestroyHwQueue { hw_queue: queue.queue }))
        .collect();
    // Destroying the queues waits for what was submitted, but not longer than the time-out.
    assert!(tokens.iter().all(|token| bench.outcome(client, *token).is_none()));
    bench.later(TIMEOUT);
    bench.pass_tickets();
    bench.pass_tickets();
    assert!(tokens.iter().all(|token| bench.outcome(client, *token) == Some(Status::SUCCESS)));
    submit(&mut bench, client, 2);
    assert_eq!(submitted(&bench, client.id), [2]);
    gone(bench);
}

#[test]
fn what_is_held_for_a_context_that_is_lost_or_a_process_that_ends_is_dropped() {
    let limits = Limits { held: 6, submissions: 3, waits: 2, ..Limits::default() };
    let (mut bench, client) = with_limits(limits);
    let [one, _] = deadlock(&mut bench, client);
    let fault = Fault::new(FaultReason::ENGINE_TIMEOUT, Opcode::NOP, 0);
    bench.hung(one.id, fault);
    bench.preempted(0, 1);
    // The lost context's part of the quota is free again.
    let fence = monitored(&mut bench, client, 0);
    wait(&mut bench, client, &fence, 1);
    submit(&mut bench, client, 1);
    signal(&mut bench, client, &fence, 2);
    let request = DestroyProcess { flags: 1 };
    bench.call(client, &request).unwrap();
    bench.pass_tickets();
    let again = bench.client(client.guest);
    let again = bench.queue(again, KERNEL_MODE);
    deadlock(&mut bench, again);
    gone(bench);
}

#[test]
fn devices_in_error_end_the_waits_for_their_fences() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 0);
    let token = bench.wait(client, fence.fence, 9, 4);
    assert_eq!(bench.outcome(client, token), Some(Status::PENDING));
    wait(&mut bench, client, &fence, 9);
    submit(&mut bench, client, 1);
    bench.command(Command::FailGuest(client.guest)).unwrap().unwrap();
    assert_eq!(current(&bench, client, &fence), u64::MAX);
    assert!(bench.events.iter().any(|(_, event)| event.cookie == 4));
    // The context of the held submission is lost with the device.
    assert_eq!(submitted(&bench, client.id), NOTHING);
    gone(bench);
}

#[test]
fn a_monitored_fence_is_waited_for_and_signaled_by_cpus_and_nothing_monitors_it() {
    let (mut bench, client) = new();
    let fence = monitored(&mut bench, client, 40);
    assert_eq!(fence.mapping.monitored_value_gpu_va, 0);
    bench.model.take_log();
    let token = bench.wait(client, fence.fence, 42, 1);
    assert_eq!(bench.outcome(client, token), Some(Status::PENDING));
    bench.signal(client, &[(fence.fence, 41)]).unwrap();
    assert_eq!(bench.events, []);
    bench.model.signal(client.guest, fence.slot, 42);
    bench.interrupt();
    assert_eq!(bench.events[0].1.cookie, 1);
    let refused = bench.signal(client, &[(fence.fence, 41)]).unwrap_err();
    assert_eq!(refused, (Status::INVALID_PARAMETER, 41));
    assert!(!bench.model.take_log().iter().any(|call| matches!(call, Call::Monitor(_))));
    let bad =
        CreateMonitoredFence { device: client.device, initial_value: 0, flags: 2, reserved: 0 };
    assert_eq!(bench.call(client, &bad).unwrap_err(), (Status::INVALID_PARAMETER, 2));
    gone(bench);
}

#[test]
fn an_interrupt_scans_the_kinds_of_fences_that_it_may_be_about() {
    for (set, flag, native_is_seen, monitored_is_seen) in [
        (false, false, true, false),
        (false, true, true, true),
        (true, false, true, false),
        (true, true, true, true),
    ] {
        let (mut bench, client) = new();
        let (legacy, new) = (monitored(&mut bench, client, 0), native(&mut bench, client, 0));
        for (fence, cookie) in [(&legacy, 1), (&new, 2)] {
            let token = bench.wait(client, fence.fence, 1, cookie);
            assert_eq!(bench.outcome(client, token), Some(Status::PENDING));
            // Simulates hardware that cannot tell which fence was signaled.
            let mut state = bench.model.state();
            state.fences.get_mut(&(client.guest, fence.slot)).unwrap().current = 1;
        }
        let named = vec![GlobalFence { guest: client.guest, slot: new.slot }];
        bench.raise(Interrupt::NativeFenceSignaled {
            signaled: if set { named } else { Vec::new() },
            evaluate_legacy_monitored_fences: flag,
        });
        let told = |cookie| bench.events.iter().any(|(_, event)| event.cookie == cookie);
        assert_eq!((told(2), told(1)), (native_is_seen, monitored_is_seen), "{set} {flag}");
        let signaled = vec![GlobalFence { guest: client.guest, slot: legacy.slot }];
        bench.raise(Interrupt::MonitoredFenceSignaled { signaled });
        assert!(bench.events.iter().any(|(_, event)| event.cookie == 1));
        gone(bench);
    }
}

#[test]
fn a_progress_fence_is_native_where_that_is_asked_for_and_a_user_mode_queue_must_ask() {
    let (mut bench, client) = new();
    let (context, user_mode) = (client.context, HwQueueFlags::USER_MODE_SUBMISSION);
    let create = |bench: &mut Bench, flags: HwQueueFlags| {
        bench.call(client, &CreateHwQueue { context, flags: flags.bits(), reserved: 0 })
    };
    for (flags, is_native) in
        [(HwQueueFlags::empty(), false), (KERNEL_MODE, true), (USER_MODE, true)]
    {
        let queue = create(&mut bench, flags).unwrap();
        let state = bench.model.state();
        let description = state.queues.last_key_value().unwrap().1;
        assert_eq!(description.native_progress_fence, is_native);
        let fence = state.fences[&(client.guest, queue.progress_fence.slot)];
        assert_eq!(fence.storage.native, is_native);
    }
    let refused = (Status::INVALID_PARAMETER, user_mode.bits().into());
    assert_eq!(create(&mut bench, user_mode).unwrap_err(), refused);
    let guest = bench.attach(2);
    bench.open_with(guest, FEATURES - Features::NATIVE_FENCES).unwrap();
    let process = bench.process(guest);
    let device = bench.ask(guest, process, &CreateDevice { reserved: 0 }).unwrap();
    let request = CreateContext { device, node: 0, engine_affinity: 0 };
    let context = bench.ask(guest, process, &request).unwrap();
    let mut create = |flags: HwQueueFlags| {
        bench.ask(guest, process, &CreateHwQueue { context, flags: flags.bits(), reserved: 0 })
    };
    assert_eq!(create(KERNEL_MODE).unwrap_err().0, Status::NOT_SUPPORTED);
    create(HwQueueFlags::empty()).unwrap();
    gone(bench);
}
