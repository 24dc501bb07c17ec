// SPDX-License-Identifier: MIT OR Apache-2.0

//! Polling and waiting for fences.

use crate::device::{Answer, HANG, ScriptedDevice, success};
use crate::rig::{Rig, error_of, open};
use bellhop_guest_umd::{Error, Fence, QueueFault};
use bellhop_protocol::control::fence::{CancelWait, FenceValue, WaitFlags, WaitForFences};
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::status::Status;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{ScopedJoinHandle, scope, yield_now};
use std::time::{Duration, Instant};
use zerocopy::FromZeros;

/// The time of a wait that should time out.
const SHORT: Duration = Duration::from_millis(20);
/// The time of a wait that only the device ends.
const FOREVER: Duration = Duration::from_secs(3600);

fn queue_error(process: u32, queue: Handle) -> Event {
    let mut event = Event::new_zeroed();
    event.kind = EventKind::HW_QUEUE_ERROR;
    (event.process, event.object) = (process, queue.0);
    event.reason = FaultReason::UNKNOWN_PACKET;
    event
}

/// The result of a thread that must have been woken by now, or will be.
fn join<T>(device: &ScriptedDevice, thread: ScopedJoinHandle<'_, T>) -> T {
    let start = Instant::now();
    while !thread.is_finished() {
        if start.elapsed() > HANG {
            // Lets the other threads of the test end.
            device.go_away();
            panic!("a waiter was never woken");
        }
        yield_now();
    }
    thread.join().unwrap()
}

/// A fence whose wait has timed out, with what was sent for it.
fn time_out(device: &ScriptedDevice, fence: &Fence, value: u64) -> (Error, Vec<RequestCode>) {
    let error = error_of(fence.wait(value, SHORT));
    (error, device.take_codes())
}

#[test]
fn a_value_that_is_reached_already_takes_no_request() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(5).unwrap();
    rig.device.take_sent();
    for value in [0, 4, 5] {
        fence.poll(value, Duration::ZERO).unwrap();
        fence.wait(value, Duration::ZERO).unwrap();
    }
    assert_eq!(fence.current_value().unwrap(), 5);
    assert!(rig.device.take_sent().is_empty());
}

#[test]
fn polling_sees_what_another_thread_publishes() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.device.take_sent();
    scope(|scope| {
        let polling = scope.spawn(|| fence.poll(2, HANG));
        rig.device.signal(fence.handle(), 1);
        rig.device.signal(fence.handle(), 2);
        join(&rig.device, polling).unwrap();
    });
    assert!(rig.device.take_sent().is_empty());
}

#[test]
fn polling_in_vain_tells_the_value_and_where_the_fence_is() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(3).unwrap();
    let error = error_of(fence.poll(4, Duration::ZERO));
    assert!(matches!(error, Error::Timeout { value: 4, current: 3 }), "{error}");
}

#[test]
fn polling_the_fence_of_a_lost_queue_tells_the_fault() {
    let rig = Rig::new();
    let process = rig.adapter.process();
    rig.device.post(queue_error(process, rig.queue.handle()));
    rig.device.set_status(0, ConnectionStatus::DISCONNECTED_ABORT);
    let error = error_of(rig.queue.progress_fence().poll(1, HANG));
    let Error::QueueLost { queue, fault: Some(fault) } = error else { panic!("{error}") };
    assert_eq!((queue, fault.reason), (rig.queue.handle(), FaultReason::UNKNOWN_PACKET));
}

#[test]
fn a_wait_ends_with_its_event() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.device.take_sent();
    scope(|scope| {
        let waiting = scope.spawn(|| fence.wait(2, FOREVER));
        rig.device.wait_for_waits(1);
        rig.device.signal(fence.handle(), 2);
        join(&rig.device, waiting).unwrap();
    });
    let sent = rig.device.take_sent();
    let [request] = &sent[..] else { panic!("{sent:?}") };
    let expected = FenceValue { fence: fence.handle(), value: 2 };
    assert_eq!(request.fences(), [expected]);
}

#[test]
fn a_wait_ends_when_the_device_notifies_and_the_fence_is_there_before_the_event() {
    let rig = Rig::new();
    let fences = [rig.gpu.create_fence(0).unwrap(), rig.gpu.create_fence(0).unwrap()];
    scope(|scope| {
        let waiting = fences.each_ref().map(|fence| scope.spawn(|| fence.wait(2, FOREVER)));
        rig.device.wait_for_waits(2);
        let [first, second] = fences.each_ref();
        // Not there yet: the notification was for something else.
        rig.device.nudge(second.handle(), 1);
        rig.device.nudge(second.handle(), 2);
        let [waits, goes_on] = waiting;
        join(&rig.device, goes_on).unwrap();
        rig.device.nudge(first.handle(), 2);
        join(&rig.device, waits).unwrap();
    });
    // Their events come now, to a thread that waits for another.
    let other = rig.gpu.create_fence(0).unwrap();
    scope(|scope| {
        let waiting = scope.spawn(|| other.wait(1, FOREVER));
        rig.device.wait_for_waits(3);
        for fence in &fences {
            rig.device.signal(fence.handle(), 2);
        }
        rig.device.signal(other.handle(), 1);
        join(&rig.device, waiting).unwrap();
    });
}

#[test]
fn a_wait_that_the_device_finds_satisfied_waits_for_no_event() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.device.script(|_, _| Answer::Reply(success(&())));
    rig.device.go_away();
    fence.wait(1, FOREVER).unwrap();
}

#[test]
fn a_wait_in_vain_is_cancelled_and_tells_the_value() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(7).unwrap();
    rig.device.take_sent();
    let error = error_of(fence.wait(9, SHORT));
    assert!(matches!(error, Error::Timeout { value: 9, current: 7 }), "{error}");
    let sent = rig.device.take_sent();
    let [wait, cancel] = &sent[..] else { panic!("{sent:?}") };
    let (wait, cancel): (WaitForFences, CancelWait) = (wait.read(), cancel.read());
    assert_eq!(wait.cookie, cancel.cookie);
    assert_eq!(rig.device.registered_waits(), 0);
    // The next wait is another one: it does not take the late event for its own.
    fence.wait(9, SHORT).unwrap_err();
    assert_ne!(rig.device.take_sent()[0].read::<WaitForFences>().cookie, wait.cookie);
}

#[test]
fn a_wait_that_cannot_be_cancelled_any_more_was_satisfied() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.device.script(|_, sent| match sent.code {
        RequestCode::CANCEL_WAIT => Answer::Refuse(Status::INVALID_PARAMETER, 0),
        _ => Answer::AsUsual,
    });
    fence.wait(1, SHORT).unwrap();
}

#[test]
fn a_wait_for_a_fence_that_went_away_was_not_satisfied() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.device.script(|_, sent| match sent.code {
        RequestCode::CANCEL_WAIT => Answer::Refuse(Status::INVALID_HANDLE, 0),
        _ => Answer::AsUsual,
    });
    let error = fence.wait(1, SHORT).unwrap_err();
    assert!(matches!(error, Error::Refused { status: Status::INVALID_HANDLE, .. }), "{error}");
}

#[test]
fn a_wait_that_is_refused_is_over_and_not_cancelled() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.device.take_sent();
    rig.device.script(|_, sent| match sent.code {
        RequestCode::WAIT_FOR_FENCES => Answer::Refuse(Status::QUOTA_EXCEEDED, 0),
        _ => Answer::AsUsual,
    });
    let (error, sent) = time_out(&rig.device, &fence, 1);
    assert!(matches!(error, Error::Refused { status: Status::QUOTA_EXCEEDED, .. }), "{error}");
    assert_eq!(sent, [RequestCode::WAIT_FOR_FENCES]);
}

#[test]
fn an_unknown_event_ends_no_wait() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    let mut stranger = Event::new_zeroed();
    (stranger.kind, stranger.cookie) = (EventKind::FENCE_SIGNALED, u64::MAX);
    rig.device.post(stranger);
    rig.device.post(Event { kind: EventKind(77), ..stranger });
    let (error, _) = time_out(&rig.device, &fence, 1);
    assert!(matches!(error, Error::Timeout { value: 1, .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn waiters_are_woken_in_whatever_order_their_events_come(
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
        in_vain in 0..5_usize,
    ) {
        let rig = Rig::new();
        let fences: Vec<_> = (0..5).map(|_| rig.gpu.create_fence(0).unwrap()).collect();
        scope(|scope| {
            let waiting: Vec<_> = fences
                .iter()
                .enumerate()
                .map(|(index, fence)| {
                    let timeout = if index == in_vain { SHORT } else { FOREVER };
                    let waiting = scope.spawn(move || fence.wait(1, timeout));
                    // The threads start one after another: the first reads the events for the others.
                    if index == 0 {
                        rig.device.wait_for_reads(1);
                    }
                    waiting
                })
                .collect();
            let mut woken = BTreeMap::new();
            for (index, waiting) in waiting.into_iter().enumerate() {
                if index == in_vain {
                    let error = error_of(join(&rig.device, waiting));
                    assert!(matches!(error, Error::Timeout { .. }), "{error}");
                } else {
                    woken.insert(index, waiting);
                }
            }
            rig.device.wait_for_waits(woken.len());
            for index in order {
                if let Some(waiting) = woken.remove(&index) {
                    rig.device.signal(fences[index].handle(), 1);
                    // Meanwhile, the others still wait.
                    join(&rig.device, waiting).unwrap();
                }
            }
        });
        prop_assert_eq!(rig.device.registered_waits(), 0);
    }
}

#[test]
fn waiters_on_one_fence_end_at_their_own_values() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    scope(|scope| {
        let first = scope.spawn(|| fence.wait(1, FOREVER));
        let second = scope.spawn(|| fence.wait(2, FOREVER));
        rig.device.wait_for_waits(2);
        rig.device.signal(fence.handle(), 1);
        join(&rig.device, first).unwrap();
        assert!(!second.is_finished());
        rig.device.signal(fence.handle(), 2);
        join(&rig.device, second).unwrap();
    });
}

#[test]
fn when_the_reader_of_events_gives_up_another_takes_its_place() {
    let rig = Rig::new();
    let (short, long) = (rig.gpu.create_fence(0).unwrap(), rig.gpu.create_fence(0).unwrap());
    scope(|scope| {
        let reader = scope.spawn(|| short.wait(1, SHORT));
        rig.device.wait_for_reads(1);
        let others: Vec<_> = (1..=3)
            .map(|value| {
                let long = &long;
                scope.spawn(move || long.wait(value, FOREVER))
            })
            .collect();
        assert!(matches!(join(&rig.device, reader), Err(Error::Timeout { .. })));
        rig.device.wait_for_waits(3);
        rig.device.signal(long.handle(), 3);
        for other in others {
            join(&rig.device, other).unwrap();
        }
    });
}

#[test]
fn when_the_reader_of_events_is_served_another_takes_its_place() {
    let rig = Rig::new();
    let (first, second) = (rig.gpu.create_fence(0).unwrap(), rig.gpu.create_fence(0).unwrap());
    scope(|scope| {
        let reader = scope.spawn(|| first.wait(1, FOREVER));
        rig.device.wait_for_reads(1);
        let other = scope.spawn(|| second.wait(1, FOREVER));
        rig.device.wait_for_waits(2);
        rig.device.signal(first.handle(), 1);
        join(&rig.device, reader).unwrap();
        rig.device.wait_for_reads(2);
        rig.device.signal(second.handle(), 1);
        join(&rig.device, other).unwrap();
    });
}

#[test]
fn processes_on_one_transport_wake_each_other() {
    let device = ScriptedDevice::new();
    let one = open(&device);
    let other = one.open_process().unwrap();
    assert_ne!(one.process(), other.process());
    let first = one.create_device().unwrap().create_fence(0).unwrap();
    let second = other.create_device().unwrap().create_fence(0).unwrap();
    scope(|scope| {
        let reader = scope.spawn(|| first.wait(1, FOREVER));
        device.wait_for_reads(1);
        let waiting = scope.spawn(|| second.wait(1, FOREVER));
        device.wait_for_waits(2);
        device.signal(second.handle(), 1);
        join(&device, waiting).unwrap();
        device.signal(first.handle(), 1);
        join(&device, reader).unwrap();
    });
}

#[test]
fn a_queue_that_is_lost_ends_the_waits_for_its_own_fence_and_no_others() {
    let rig = Rig::new();
    let process = rig.adapter.process();
    let other = rig.context.create_user_mode_queue(4096).unwrap();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.device.take_sent();
    scope(|scope| {
        let lost = scope.spawn(|| rig.queue.progress_fence().wait(1, FOREVER));
        let kept = scope.spawn(|| other.progress_fence().wait(1, FOREVER));
        let own = scope.spawn(|| fence.wait(1, FOREVER));
        rig.device.wait_for_waits(3);
        // A queue with this handle in another process is another queue.
        rig.device.post(queue_error(process + 1, other.handle()));
        rig.device.post(queue_error(process, rig.queue.handle()));
        let error = error_of(join(&rig.device, lost));
        let Error::QueueLost { queue, fault } = error else { panic!("{error}") };
        assert_eq!(queue, rig.queue.handle());
        assert!(matches!(fault, Some(QueueFault { reason: FaultReason::UNKNOWN_PACKET, .. })));
        assert!(!kept.is_finished() && !own.is_finished());
        rig.device.signal(other.progress_fence().handle(), 1);
        rig.device.signal(fence.handle(), 1);
        join(&rig.device, kept).unwrap();
        join(&rig.device, own).unwrap();
    });
    let codes = rig.device.take_codes();
    let cancels = codes.iter().filter(|code| **code == RequestCode::CANCEL_WAIT).count();
    assert_eq!(cancels, 1, "the lost queue's wait is taken back: {codes:?}");
}

#[test]
fn a_device_that_goes_away_ends_every_wait() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    let device = Arc::clone(&rig.device);
    scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| fence.wait(1, FOREVER))).collect();
        device.wait_for_waits(3);
        device.go_away();
        for waiting in waiting {
            let error = error_of(join(&device, waiting));
            assert!(matches!(error, Error::Transport(_)), "{error}");
        }
    });
}

#[test]
fn several_fences_are_waited_for_at_once() {
    let rig = Rig::new();
    let [one, two] = [0, 0].map(|value| rig.gpu.create_fence(value).unwrap());
    rig.device.take_sent();
    scope(|scope| {
        let fences = [(&one, 1), (&two, 2)];
        let gpu = &rig.gpu;
        let all = scope.spawn(move || gpu.wait_for_fences(&fences, WaitFlags::empty(), FOREVER));
        let any = scope.spawn(move || gpu.wait_for_fences(&fences, WaitFlags::WAIT_ANY, FOREVER));
        rig.device.wait_for_waits(2);
        rig.device.signal(two.handle(), 2);
        join(&rig.device, any).unwrap();
        assert!(!all.is_finished());
        rig.device.signal(one.handle(), 1);
        join(&rig.device, all).unwrap();
    });
    let codes = rig.device.take_codes();
    assert_eq!(codes, [RequestCode::WAIT_FOR_FENCES; 2]);
    // The device that took its place takes no request.
    let fences = [(&one, 9), (&two, 1)];
    rig.gpu.wait_for_fences(&fences, WaitFlags::WAIT_ANY, Duration::ZERO).unwrap();
    assert!(rig.device.take_sent().is_empty());
    let error = error_of(rig.gpu.wait_for_fences(&fences, WaitFlags::empty(), SHORT));
    assert!(matches!(error, Error::Timeout { value: 9, current: 1 }), "{error}");
}

#[test]
fn a_queue_that_is_lost_ends_a_wait_for_its_fence_and_others() {
    let rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    scope(|scope| {
        let fences = [(&fence, 1), (rig.queue.progress_fence(), 1)];
        let gpu = &rig.gpu;
        let waiting =
            scope.spawn(move || gpu.wait_for_fences(&fences, WaitFlags::empty(), FOREVER));
        rig.device.wait_for_waits(1);
        rig.device.post(queue_error(rig.adapter.process(), rig.queue.handle()));
        let error = error_of(join(&rig.device, waiting));
        assert!(matches!(error, Error::QueueLost { queue, .. } if queue == rig.queue.handle()));
    });
    assert_eq!(rig.device.registered_waits(), 0);
}

#[test]
fn a_fence_is_signaled_from_the_cpu_and_releases_who_waits_for_it() {
    let rig = Rig::new();
    let [one, two] = [0, 0].map(|value| rig.gpu.create_fence(value).unwrap());
    scope(|scope| {
        let waiting = scope.spawn(|| one.wait(5, FOREVER));
        rig.device.wait_for_waits(1);
        rig.gpu.signal_fences(&[(&one, 5), (&two, 7)]).unwrap();
        join(&rig.device, waiting).unwrap();
    });
    assert_eq!((one.current_value().unwrap(), two.current_value().unwrap()), (5, 7));
    two.signal(8).unwrap();
    assert_eq!(two.current_value().unwrap(), 8);
}
