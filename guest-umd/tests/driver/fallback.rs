// SPDX-License-Identifier: MIT OR Apache-2.0

//! A queue that falls back to kernel mode.
//!
//! Source: user-mode work submission, "Work submission pseudocode in UMD" (`cleanup_fallback`).

use crate::device::{Answer, HANG, ScriptedDevice, success};
use crate::rig::{Rig, error_of, named_buffer};
use bellhop_guest_umd::{CommandBuffer, Error, FallbackQueue};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use bellhop_protocol::doorbell::ConnectionStatus;
use bellhop_protocol::status::Status;
use std::sync::atomic::{AtomicBool, Ordering};

/// The second doorbell of a rig; the rig's own queue has the first.
const SLOT: u32 = 1;

/// A fallback queue, with nothing submitted.
fn queue(rig: &Rig) -> (FallbackQueue, CommandBuffer) {
    let queue = rig.context.create_fallback_queue(4096).unwrap();
    let commands = named_buffer(&rig.gpu);
    rig.device.take_sent();
    (queue, commands)
}

/// How many kernel-mode submissions there were.
fn kernel_mode_submissions(device: &ScriptedDevice) -> usize {
    device.take_codes().into_iter().filter(|code| *code == RequestCode::SUBMIT_COMMAND).count()
}

/// "fatal error in connecting doorbell, destroy this HWQueue and re-create using traditional kernel
/// mode submission"
#[test]
fn every_refusal_to_connect_is_a_reason_to_fall_back() {
    let refusals =
        [Status::INSUFFICIENT_RESOURCES, Status::NO_MEMORY, Status::GRAPHICS_NO_VIDEO_MEMORY];
    for refusal in refusals {
        let rig = Rig::new();
        let (mut queue, mut commands) = queue(&rig);
        rig.device.script(move |_, sent| match sent.code {
            RequestCode::CONNECT_DOORBELL => Answer::Refuse(refusal, 0),
            _ => Answer::AsUsual,
        });
        let submission = queue.submit(&mut commands).unwrap();
        assert!(!submission.user_mode && !queue.is_user_mode(), "{refusal}");
        assert_eq!(kernel_mode_submissions(&rig.device), 1);
    }
}

#[test]
fn what_the_engine_may_have_executed_is_not_submitted_again() {
    for is_lost in [false, true] {
        let rig = Rig::new();
        let (mut queue, mut commands) = queue(&rig);
        let is_first = AtomicBool::new(true);
        rig.device.script(move |device, sent| {
            if sent.code != RequestCode::CONNECT_DOORBELL {
                return Answer::AsUsual;
            }
            if is_first.swap(false, Ordering::Relaxed) {
                // It is a victim before the driver rings.
                let status = ConnectionStatus::CONNECTED;
                return Answer::Reply(success(&ConnectDoorbellReply { status, reserved: 0 }));
            }
            // The engine's last look at the physical doorbell found the ring.
            device.execute(SLOT, usize::MAX);
            if is_lost {
                device.set_status(SLOT, ConnectionStatus::DISCONNECTED_ABORT);
            }
            Answer::Refuse(Status::DEVICE_REMOVED, 0)
        });
        let submission = queue.submit(&mut commands).unwrap();
        assert!(submission.user_mode);
        assert_eq!(rig.device.executed().len(), 1);
        // The next submission is in kernel mode, and the one that was executed counts as done.
        let next = queue.submit(&mut commands).unwrap();
        assert!(!next.user_mode);
        assert_eq!(kernel_mode_submissions(&rig.device), 1, "it was submitted again");
        queue.wait(submission, HANG).unwrap();
    }
}

#[test]
fn work_executed_before_a_loss_is_told_from_lost_work() {
    let rig = Rig::new();
    let (mut queue, mut commands) = queue(&rig);
    let done = queue.submit(&mut commands).unwrap();
    rig.device.execute(SLOT, 1);
    let lost = queue.submit(&mut commands).unwrap();
    rig.device.set_status(SLOT, ConnectionStatus::DISCONNECTED_ABORT);
    assert!(!queue.submit(&mut commands).unwrap().user_mode);
    queue.wait(done, HANG).unwrap();
    assert!(matches!(error_of(queue.wait(lost, HANG)), Error::QueueLost { .. }));
}

#[test]
fn a_fence_that_is_always_signaled_does_not_make_what_was_lost_done() {
    let rig = Rig::new();
    let (mut queue, mut commands) = queue(&rig);
    let lost = queue.submit(&mut commands).unwrap();
    rig.device.set_status(SLOT, ConnectionStatus::DISCONNECTED_ABORT);
    rig.device.signal(queue.progress_fence().handle(), u64::MAX);
    assert!(!queue.submit(&mut commands).unwrap().user_mode);
    assert!(matches!(error_of(queue.wait(lost, HANG)), Error::QueueLost { .. }));
}

/// A mistake of the program is no reason to fall back.
#[test]
fn a_mistake_of_the_program_and_a_device_that_is_gone_are_no_reasons_to_fall_back() {
    let rig = Rig::new();
    let (mut queue, mut commands) = queue(&rig);
    rig.device.script(|_, sent| match sent.code {
        RequestCode::CONNECT_DOORBELL => Answer::Disconnect,
        _ => Answer::AsUsual,
    });
    assert!(matches!(error_of(queue.submit(&mut commands)), Error::Transport(_)));
    assert!(queue.is_user_mode());
    assert_eq!(rig.device.take_codes(), []);
}
