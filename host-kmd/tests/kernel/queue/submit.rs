// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submission in kernel mode.

use crate::bench::{Bench, Client, USER_MODE};
use crate::model::Call;
use bellhop_host_kmd::dxgkrnl::Limits;
use bellhop_host_kmd::hardware::{Fault, Interrupt, KernelSubmission};
use bellhop_protocol::control::hw_queue::{DestroyHwQueue, HwQueueFlags, SubmitCommand};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;

fn new() -> (Bench, Client, SubmitCommand) {
    with_limits(Limits::default())
}

fn with_limits(limits: Limits) -> (Bench, Client, SubmitCommand) {
    let mut bench = Bench::with_limits(2, limits);
    let guest = bench.guest(1);
    let client = bench.client(guest);
    let client = bench.queue(client, HwQueueFlags::empty());
    let request = SubmitCommand {
        hw_queue: client.queue,
        gpu_va: 0x10_0008,
        progress_fence_value: 5,
        size: 24,
        reserved: 0,
    };
    bench.model.take_log();
    (bench, client, request)
}

#[test]
fn a_command_buffer_is_queued_and_then_looked_at() {
    let (mut bench, client, request) = new();
    bench.call(client, &request).unwrap();
    let submission = KernelSubmission {
        gpu_va: 0x10_0008,
        size: 24,
        progress_fence_value: 5,
        submission_fence: 1,
    };
    assert_eq!(
        bench.model.take_log(),
        [Call::Submit(client.id, submission), Call::Kick(client.id)]
    );
    bench.model.state().submission_room = 0;
    let refused = (Status::INSUFFICIENT_RESOURCES, 0);
    assert_eq!(bench.call(client, &request).unwrap_err(), refused);
    assert_eq!(bench.model.take_log(), []);
}

#[test]
fn a_command_buffer_must_be_one() {
    let (mut bench, client, good) = new();
    for request in [
        SubmitCommand { gpu_va: 4, ..good },
        SubmitCommand { gpu_va: u64::MAX - 7, ..good },
        SubmitCommand { size: 0, ..good },
        SubmitCommand { size: 12, ..good },
        SubmitCommand { reserved: 1, ..good },
    ] {
        assert_eq!(bench.call(client, &request).unwrap_err().0, Status::INVALID_PARAMETER);
    }
    assert_eq!(bench.model.take_log(), []);
}

#[test]
fn a_queue_for_user_mode_submission_takes_no_command_buffers() {
    let (mut bench, client, good) = new();
    let client = bench.queue(client, USER_MODE);
    let request = SubmitCommand { hw_queue: client.queue, ..good };
    assert_eq!(bench.call(client, &request).unwrap_err().0, Status::NOT_SUPPORTED);
}

#[test]
fn submissions_are_numbered_over_all_queues_and_one_that_is_refused_takes_no_number() {
    let (mut bench, client, request) = new();
    let other = bench.queue(client, HwQueueFlags::empty());
    let numbers = |bench: &Bench| -> Vec<u64> {
        let log = bench.model.take_log().into_iter();
        log.filter_map(|call| match call {
            Call::Submit(_, submission) => Some(submission.submission_fence),
            _ => None,
        })
        .collect()
    };
    bench.call(client, &request).unwrap();
    bench.call(client, &SubmitCommand { hw_queue: other.queue, ..request }).unwrap();
    assert_eq!(numbers(&bench), [1, 2]);
    bench.model.state().submission_room = 0;
    bench.call(client, &request).unwrap_err();
    bench.model.state().submission_room = 1;
    // Completion of an unknown submission, then of the second of the two submissions, twice.
    for fence in [77, 2, 2] {
        bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence });
    }
    bench.call(client, &request).unwrap();
    assert_eq!(numbers(&bench), [3]);
}

#[test]
fn what_is_not_done_is_bounded_and_a_completion_makes_room() {
    let (mut bench, client, request) = with_limits(Limits { submissions: 2, ..Limits::default() });
    let refused = (Status::QUOTA_EXCEEDED, 2);
    bench.call(client, &request).unwrap();
    bench.call(client, &request).unwrap();
    assert_eq!(bench.call(client, &request).unwrap_err(), refused);
    let completed = |fence| Interrupt::DmaCompleted { node: 0, engine: 0, fence };
    bench.raise(completed(1));
    bench.call(client, &request).unwrap();
    assert_eq!(bench.call(client, &request).unwrap_err(), refused);
    // A repeated interrupt changes nothing, and one interrupt may complete several submissions.
    bench.raise(completed(1));
    assert_eq!(bench.call(client, &request).unwrap_err(), refused);
    bench.raise(completed(3));
    bench.call(client, &request).unwrap();
    bench.call(client, &request).unwrap();
    assert_eq!(bench.call(client, &request).unwrap_err(), refused);
}

#[test]
fn a_completion_whose_interrupt_is_still_on_its_way_makes_room_too() {
    let (mut bench, client, request) = with_limits(Limits { submissions: 1, ..Limits::default() });
    bench.call(client, &request).unwrap();
    bench.model.state().completed.insert(client.id, 1);
    bench.call(client, &request).unwrap();
    bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence: 1 });
    let refused = (Status::QUOTA_EXCEEDED, 1);
    assert_eq!(bench.call(client, &request).unwrap_err(), refused);
}

#[test]
fn what_a_lost_or_destroyed_queue_had_submitted_counts_no_more() {
    let (mut bench, client, request) = with_limits(Limits { submissions: 1, ..Limits::default() });
    let fault = Fault::new(FaultReason::READ_PAGE_FAULT, Opcode::COPY, 0);
    bench.call(client, &request).unwrap();
    bench.hung(client.id, fault);
    bench.preempted(0, 1);
    let client = bench.queue_in_another_context(client, HwQueueFlags::empty());
    let request = SubmitCommand { hw_queue: client.queue, ..request };
    bench.call(client, &request).unwrap();
    // The submission does not complete, so the adapter's time-out ends the queue.
    bench.begin(client, &DestroyHwQueue { hw_queue: client.queue });
    bench.later(crate::bench::TIMEOUT);
    let client = bench.queue(client, HwQueueFlags::empty());
    bench.call(client, &SubmitCommand { hw_queue: client.queue, ..request }).unwrap();
    bench.raise(Interrupt::DmaCompleted { node: 0, engine: 0, fence: 2 });
}
