// SPDX-License-Identifier: MIT OR Apache-2.0

//! Submissions for which the device has no room at the moment.

use crate::device::{Answer, HANG, ScriptedDevice};
use crate::rig::{error_of, open};
use bellhop_guest_umd::{BasicContext, CommandBuffer, Device, Error, RenderBuffer};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Duration;
use zerocopy::FromZeros;

/// The time of a wait that should time out.
const SHORT: Duration = Duration::from_millis(20);

/// A context with this many submissions that are not done.
fn new(submitted: u64) -> (Arc<ScriptedDevice>, Device, BasicContext, RenderBuffer) {
    let device = ScriptedDevice::new();
    let gpu = open(&device).create_device().unwrap();
    let mut context = gpu.create_basic_context(0).unwrap();
    let mut commands = RenderBuffer::new();
    commands.nop().unwrap();
    for value in 1..=submitted {
        assert_eq!(context.submit(&commands).unwrap(), value);
    }
    device.take_sent();
    (device, gpu, context, commands)
}

/// Has the device refuse this many submissions for lack of room.
fn be_full(device: &ScriptedDevice, times: usize, status: Status) {
    let seen = AtomicUsize::new(0);
    device.script(move |_, sent| {
        let is_full =
            sent.code == RequestCode::RENDER && seen.fetch_add(1, Ordering::Relaxed) < times;
        if is_full { Answer::Refuse(status, 0) } else { Answer::AsUsual }
    });
}

const TEMPORARY: [Status; 2] = [Status::INSUFFICIENT_RESOURCES, Status::QUOTA_EXCEEDED];

#[test]
fn each_time_it_is_full_the_oldest_submission_is_waited_for() {
    for status in TEMPORARY {
        let (device, _gpu, mut context, commands) = new(3);
        let fence = context.progress_fence().handle();
        be_full(&device, 2, status);
        scope(|scope| {
            let submitting = scope.spawn(|| context.submit_within(&commands, HANG));
            for value in 1..=2 {
                device.wait_for_waits(1);
                device.signal(fence, value);
            }
            assert_eq!(submitting.join().unwrap().unwrap(), 4);
        });
        let sent = device.take_sent();
        let (render, wait) = (RequestCode::RENDER, RequestCode::WAIT_FOR_FENCES);
        let codes: Vec<_> = sent.iter().map(|sent| sent.code).collect();
        assert_eq!(codes, [render, wait, render, wait, render]);
        assert_eq!([1, 3].map(|index| sent[index].fences()[0].value), [1, 2]);
    }
}

#[test]
fn what_is_done_already_is_not_waited_for() {
    let (device, _gpu, mut context, commands) = new(3);
    device.signal(context.progress_fence().handle(), 2);
    be_full(&device, 1, Status::INSUFFICIENT_RESOURCES);
    let early = error_of(context.submit_within(&commands, SHORT));
    assert!(matches!(early, Error::Timeout { value: 3, current: 2 }), "{early}");
    assert_eq!(device.registered_waits(), 0, "a wait was left");
}

/// An allocation that is no longer listed is freed once engines have forgotten it.
#[test]
fn with_nothing_of_its_own_to_wait_for_engines_are_passed_once() {
    let passing = [
        RequestCode::RENDER,
        RequestCode::RESERVE_GPU_VIRTUAL_ADDRESS,
        RequestCode::FREE_GPU_VIRTUAL_ADDRESS,
        RequestCode::RENDER,
    ];
    let (device, _gpu, mut context, commands) = new(0);
    be_full(&device, 1, Status::INSUFFICIENT_RESOURCES);
    assert_eq!(context.submit_within(&commands, HANG).unwrap(), 1);
    assert_eq!(device.take_codes(), passing);
    device.signal(context.progress_fence().handle(), 1);
    be_full(&device, 2, Status::INSUFFICIENT_RESOURCES);
    let refused = error_of(context.submit_within(&commands, HANG));
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert_eq!(device.take_codes(), passing);
}

#[test]
fn without_time_and_for_other_reasons_it_is_refused_at_once() {
    let (device, _gpu, mut context, commands) = new(1);
    for status in TEMPORARY {
        be_full(&device, 1, status);
        let refused = error_of(context.submit(&commands));
        assert!(matches!(refused, Error::Refused { status: seen, .. } if seen == status));
    }
    for status in [Status::DEVICE_REMOVED, Status::NO_MEMORY, Status::GRAPHICS_NO_VIDEO_MEMORY] {
        be_full(&device, 1, status);
        let refused = error_of(context.submit_within(&commands, HANG));
        assert!(matches!(refused, Error::Refused { status: seen, .. } if seen == status));
    }
    assert_eq!(device.take_codes(), [RequestCode::RENDER; 5]);
}

#[test]
fn a_context_that_is_lost_while_it_waits_is_reported() {
    let (device, gpu, mut context, commands) = new(1);
    be_full(&device, usize::MAX, Status::INSUFFICIENT_RESOURCES);
    let mut event = Event::new_zeroed();
    event.kind = EventKind::HW_QUEUE_ERROR;
    event.object = context.handle().0;
    event.reason = FaultReason::UNKNOWN_PACKET;
    event.process = device.process_of(gpu.handle());
    device.post_late(event);
    let lost = error_of(context.submit_within(&commands, HANG));
    assert!(matches!(lost, Error::QueueLost { fault: Some(_), .. }), "{lost}");
    // A device that goes is such an error, too.
    let (device, _gpu, mut context, commands) = new(1);
    be_full(&device, usize::MAX, Status::INSUFFICIENT_RESOURCES);
    scope(|scope| {
        let submitting = scope.spawn(|| context.submit_within(&commands, HANG));
        device.wait_for_waits(1);
        device.go_away();
        assert!(matches!(error_of(submitting.join().unwrap()), Error::Transport(_)));
    });
}

#[test]
fn a_user_mode_dma_buffer_waits_as_well() {
    let device = ScriptedDevice::new();
    let gpu = open(&device).create_device().unwrap();
    let mut context = gpu.create_basic_plus_plus_context(0).unwrap();
    let mut commands = CommandBuffer::new(&gpu, 64).unwrap();
    commands.nop().unwrap();
    context.submit(&mut commands, &[]).unwrap();
    let fence = context.progress_fence().handle();
    be_full(&device, 1, Status::INSUFFICIENT_RESOURCES);
    scope(|scope| {
        let submitting = scope.spawn(|| context.submit_within(&mut commands, &[], HANG));
        device.wait_for_waits(1);
        device.signal(fence, 1);
        assert_eq!(submitting.join().unwrap().unwrap(), 2);
    });
}
