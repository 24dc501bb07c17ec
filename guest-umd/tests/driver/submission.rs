// SPDX-License-Identifier: MIT OR Apache-2.0

//! From the command buffer to the doorbell.
//!
//! Source: user-mode work submission, "HW queue progress fence changes" and "Work submission
//! pseudocode in UMD".

use crate::device::{Answer, FEATURES, HANG, LAYOUT, ScriptedDevice, Shape, success};
use crate::rig::{
    Rig, SUBMISSION, connect_with, error_of, named_buffer, packets, submission, victimise_once,
};
use bellhop_guest_umd::{CommandBuffer, DoorbellCounters, Error, QueueFault};
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::doorbell::ConnectDoorbellReply;
use bellhop_protocol::control::hw_queue::SubmitCommand;
use bellhop_protocol::doorbell::{ConnectionStatus, DoorbellStatus, LoggingLevel};
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::features::Features;
use bellhop_protocol::packet::fence::{LogFence, LoggedSignal, SignalFence};
use bellhop_protocol::packet::flow::IndirectBuffer;
use bellhop_protocol::packet::{Opcode, Packet};
use bellhop_protocol::status::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use zerocopy::FromZeros;

/// Waits for `word` to change from `before`, or for the submitting thread to have failed.
fn changed(before: u64, given_up: &AtomicBool, word: impl Fn() -> u64) -> Option<u64> {
    let start = Instant::now();
    loop {
        let now = word();
        if now != before {
            return Some(now);
        }
        if given_up.load(Ordering::Relaxed) {
            return None;
        }
        assert!(start.elapsed() < HANG, "the word never changed");
        std::hint::spin_loop();
    }
}

/// Tells the other thread that this one is done or has panicked.
struct GiveUp<'a>(&'a AtomicBool);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The event that the device posts for a queue's fault.
fn fault(rig: &Rig) -> (Event, QueueFault) {
    let mut event = Event::new_zeroed();
    event.kind = EventKind::HW_QUEUE_ERROR;
    (event.process, event.object) = (rig.adapter.process(), rig.queue.handle().0);
    (event.reason, event.opcode) = (FaultReason::WRITE_PAGE_FAULT, Opcode::FILL);
    (event.value, event.cookie) = (0xbad_000, 32);
    let fault = QueueFault {
        reason: FaultReason::WRITE_PAGE_FAULT,
        opcode: Opcode::FILL,
        address: 0xbad_000,
        read_pointer: 32,
    };
    (event, fault)
}

#[test]
fn an_engine_that_sees_the_doorbell_rung_sees_all_that_came_before() {
    const ROUNDS: u64 = 600;
    let mut rig = Rig::new();
    rig.commands.nop().unwrap().fill(0x1000, 64, 7).unwrap();
    let device = Arc::clone(&rig.device);
    let slot = rig.queue.progress_fence().slot();
    let given_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let given_up = &given_up;
        scope.spawn(move || {
            let _give_up = GiveUp(given_up);
            for value in 1..=ROUNDS {
                let before = (value - 1) * SUBMISSION;
                let Some(rung) = changed(before, given_up, || device.rung(0)) else { return };
                let ring = device.ring(0);
                assert_eq!(rung, value * SUBMISSION);
                assert_eq!(ring.pointers().written(), rung);
                assert_eq!(device.last_queued(0), value);
                let (buffer, signal) = submission(&ring.read(before, SUBMISSION as usize));
                let content = device.read_gpu(buffer.gpu_va, buffer.size() as usize);
                let [Packet::Nop, Packet::Fill(_)] = packets(&content)[..] else {
                    panic!("another command buffer than the submitted one");
                };
                assert_eq!(signal, SignalFence::new(slot, value));
                device.execute(0, 1);
            }
        });
        let _give_up = GiveUp(given_up);
        for value in 1..=ROUNDS {
            assert_eq!(rig.submit().unwrap(), value);
            rig.queue.progress_fence().poll(value, HANG).unwrap();
        }
    });
    assert!(rig.device.take_sent().is_empty());
    assert_eq!(rig.queue.last_value(), ROUNDS);
}

#[test]
fn a_reader_that_sees_work_in_the_ring_sees_the_last_queued_value() {
    const ROUNDS: u64 = 600;
    let mut rig = Rig::new();
    let device = Arc::clone(&rig.device);
    let given_up = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let given_up = &given_up;
        scope.spawn(move || {
            let _give_up = GiveUp(given_up);
            let mut before = 0;
            while before < ROUNDS * SUBMISSION {
                let written = || device.ring(0).pointers().written();
                let Some(written) = changed(before, given_up, written) else { return };
                assert_eq!(device.last_queued(0), written / SUBMISSION);
                before = written;
                device.execute(0, 1);
            }
        });
        let _give_up = GiveUp(given_up);
        for value in 1..=ROUNDS {
            assert_eq!(rig.submit().unwrap(), value);
            // The other thread polls the ring and not the doorbell.
            rig.queue.progress_fence().poll(value, HANG).unwrap();
        }
    });
}

#[test]
fn a_connected_doorbell_takes_one_store_and_no_request() {
    let mut rig = Rig::new();
    for value in 1..=10 {
        assert_eq!(rig.submit().unwrap(), value);
        assert_eq!(rig.device.rung(0), value * SUBMISSION);
    }
    assert!(rig.device.take_sent().is_empty());
    assert_eq!(
        rig.queue.counters(),
        DoorbellCounters { rings: 10, notifies: 0, kicks: 0, connects: 0 }
    );
}

/// The reference connects before it makes the work visible: after a failed connect, no work was submitted.
#[test]
fn what_is_refused_was_not_submitted_and_runs_once_when_it_is_tried_again() {
    let mut rig = Rig::disconnected();
    rig.device.script(|_, sent| match sent.code {
        RequestCode::CONNECT_DOORBELL => Answer::Refuse(Status::INSUFFICIENT_RESOURCES, 7),
        _ => Answer::AsUsual,
    });
    for _ in 0..3 {
        assert!(matches!(error_of(rig.submit()), Error::Refused { .. }));
        assert_eq!(rig.device.ring(0).pointers().written(), 0, "the ring holds what was refused");
        assert_eq!((rig.device.last_queued(0), rig.queue.last_value()), (0, 0));
    }
    rig.device.script(|_, _| Answer::AsUsual);
    assert_eq!(rig.submit().unwrap(), 1);
    rig.device.execute(0, usize::MAX);
    assert_eq!(rig.device.executed().len(), 1);
    rig.queue.progress_fence().poll(1, HANG).unwrap();
}

#[test]
fn a_failed_ring_reports_that_work_was_accepted_and_a_retry_does_not_submit_it_twice() {
    let mut rig = Rig::disconnected();
    victimise_once(&rig, |_| Answer::Refuse(Status::INSUFFICIENT_RESOURCES, 7));
    for _ in 0..3 {
        let error = error_of(rig.submit());
        let Error::NotRung { value: 1, reason } = error else { panic!("{error}") };
        assert!(matches!(*reason, Error::Refused { .. }), "{reason}");
        assert_eq!(rig.device.ring(0).pointers().written(), SUBMISSION);
    }
    // Another buffer is another submission, which the driver refuses.
    let mut other = named_buffer(&rig.gpu);
    assert!(matches!(error_of(rig.queue.submit(&mut other)), Error::Refused { .. }));
    rig.device.script(|_, _| Answer::AsUsual);
    assert_eq!(rig.submit().unwrap(), 1);
    rig.device.execute(0, usize::MAX);
    assert_eq!(rig.device.executed().len(), 1);
    // After the ring, the buffer is a new submission.
    assert_eq!(rig.submit().unwrap(), 2);
    rig.device.execute(0, usize::MAX);
    assert_eq!(rig.device.executed().len(), 2);
}

#[test]
fn a_queue_that_is_lost_once_it_has_the_work_tells_so_by_its_fence() {
    let mut rig = Rig::disconnected();
    let (event, fault) = fault(&rig);
    victimise_once(&rig, move |device| {
        device.set_status(0, ConnectionStatus::DISCONNECTED_ABORT);
        device.post(event);
        Answer::Refuse(Status::DEVICE_REMOVED, 0)
    });
    let value = rig.submit().unwrap();
    let error = error_of(rig.queue.progress_fence().poll(value, HANG));
    assert!(matches!(error, Error::QueueLost { fault: Some(told), .. } if told == fault));
    assert!(matches!(error_of(rig.submit()), Error::QueueLost { .. }));
    assert_eq!(rig.device.ring(0).pointers().written(), SUBMISSION);
}

#[test]
fn an_unwatched_ring_is_made_again_once_connected() {
    let mut rig = Rig::disconnected();
    victimise_once(&rig, |device| {
        // Takes the first ring away, as the dummy page does.
        assert_eq!(device.word(LAYOUT.doorbell(0)).swap(0, Ordering::Relaxed), SUBMISSION);
        Answer::AsUsual
    });
    rig.submit().unwrap();
    assert_eq!(rig.device.rung(0), SUBMISSION);
    assert_eq!(rig.device.take_codes(), [RequestCode::CONNECT_DOORBELL; 2]);
    assert_eq!(
        rig.queue.counters(),
        DoorbellCounters { rings: 2, notifies: 0, kicks: 0, connects: 2 }
    );
    // The driver did not put the packet into the ring again.
    assert_eq!(rig.device.ring(0).pointers().written(), SUBMISSION);
}

#[test]
fn a_doorbell_that_is_victimised_while_it_connects_is_connected_again() {
    let mut rig = Rig::disconnected();
    let victims = AtomicU64::new(3);
    rig.device.script(move |device, sent| {
        if sent.code != RequestCode::CONNECT_DOORBELL || victims.load(Ordering::Relaxed) == 0 {
            return Answer::AsUsual;
        }
        victims.fetch_sub(1, Ordering::Relaxed);
        device.set_status(0, ConnectionStatus::DISCONNECTED_RETRY);
        let status = ConnectionStatus::CONNECTED;
        let reply = ConnectDoorbellReply { status, reserved: 0 };
        Answer::Reply(success(&reply))
    });
    rig.submit().unwrap();
    assert_eq!(
        rig.queue.counters(),
        DoorbellCounters { rings: 4, notifies: 0, kicks: 0, connects: 4 }
    );
    assert_eq!(rig.queue.status(), ConnectionStatus::CONNECTED);
}

#[test]
fn buffers_beside_each_other_share_memory_and_no_byte() {
    let mut rig = Rig::new();
    let mut many = CommandBuffer::many(&rig.gpu, 64, 100).unwrap();
    let codes = [RequestCode::CREATE_ALLOCATION, RequestCode::MAP_GPU_VIRTUAL_ADDRESS];
    assert_eq!(rig.device.take_codes(), codes);
    for commands in &mut many {
        while commands.nop().is_ok() {}
        assert!(commands.gpu_va().is_multiple_of(64));
    }
    for commands in &mut many {
        rig.queue.queue(commands).unwrap();
    }
    for commands in &many {
        let bytes = rig.device.read_gpu(commands.gpu_va(), commands.len());
        assert_eq!(packets(&bytes), [Packet::Nop; 8]);
    }
    many.truncate(1);
    assert_eq!(rig.device.take_codes(), []);
    drop(many);
    let codes = [RequestCode::FREE_GPU_VIRTUAL_ADDRESS, RequestCode::DESTROY_ALLOCATION];
    assert_eq!(rig.device.take_codes(), codes);
}

#[test]
fn a_device_that_sleeps_is_notified_once_after_each_ring() {
    let mut rig = Rig::new();
    rig.device.set_status(0, ConnectionStatus::CONNECTED_NOTIFY);
    rig.device.script(|device, sent| {
        if sent.code == RequestCode::NOTIFY_WORK_SUBMISSION {
            assert!(sent.is_posted, "somebody waits for the reply");
            assert_eq!(device.rung(0), device.ring(0).pointers().written());
            assert_eq!(device.rung(0), device.last_queued(0) * SUBMISSION);
        }
        Answer::AsUsual
    });
    for _ in 0..3 {
        rig.submit().unwrap();
    }
    assert_eq!(rig.device.take_codes(), [RequestCode::NOTIFY_WORK_SUBMISSION; 3]);
    assert_eq!(
        rig.queue.counters(),
        DoorbellCounters { rings: 3, notifies: 3, kicks: 0, connects: 0 }
    );
}

#[test]
fn a_device_whose_engines_a_kick_wakes_is_kicked_and_sent_no_request() {
    let features = FEATURES | Features::NOTIFY_BY_KICK;
    let shape = Shape { features, opened: features, ..Shape::default() };
    let mut rig = Rig::on(ScriptedDevice::with(shape));
    rig.device.set_status(0, ConnectionStatus::CONNECTED_NOTIFY);
    for _ in 0..3 {
        rig.submit().unwrap();
    }
    assert_eq!(rig.device.take_codes(), []);
    assert_eq!(rig.device.kicks(), 3);
    let counters = DoorbellCounters { rings: 3, notifies: 3, kicks: 3, connects: 0 };
    assert_eq!(rig.queue.counters(), counters);
}

#[test]
fn a_device_that_falls_asleep_while_it_connects_is_notified() {
    let mut rig = Rig::disconnected();
    rig.device.script(|device, sent| {
        if sent.code != RequestCode::CONNECT_DOORBELL {
            return Answer::AsUsual;
        }
        let status = ConnectionStatus::CONNECTED_NOTIFY;
        device.set_status(0, status);
        let reply = ConnectDoorbellReply { status, reserved: 0 };
        Answer::Reply(success(&reply))
    });
    rig.submit().unwrap();
    let codes = [RequestCode::CONNECT_DOORBELL, RequestCode::NOTIFY_WORK_SUBMISSION];
    assert_eq!(rig.device.take_codes(), codes);
}

#[test]
fn a_lost_queue_tells_the_fault_of_its_event() {
    let mut rig = Rig::new();
    let (event, fault) = fault(&rig);
    // Faults of another queue or another process do not concern this queue.
    let other = FaultReason::UNKNOWN_PACKET;
    rig.device.post(Event { object: event.object + 1, reason: other, ..event });
    rig.device.post(Event { process: event.process + 1, reason: other, ..event });
    rig.device.post(event);
    rig.device.set_status(0, ConnectionStatus::DISCONNECTED_ABORT);
    for _ in 0..2 {
        let Error::QueueLost { queue, fault: told } = error_of(rig.submit()) else {
            panic!("the queue is lost");
        };
        assert_eq!((queue, told), (rig.queue.handle(), Some(fault)));
    }
    assert!(rig.device.take_sent().is_empty());
}

#[test]
fn a_lost_queue_waits_a_little_for_the_event_that_tells_why() {
    let mut rig = Rig::new();
    let (event, fault) = fault(&rig);
    rig.device.post_late(event);
    rig.device.set_status(0, ConnectionStatus::DISCONNECTED_ABORT);
    let error = error_of(rig.submit());
    assert!(matches!(error, Error::QueueLost { fault: Some(told), .. } if told == fault));
}

#[test]
fn a_queue_is_lost_even_if_the_device_never_tells_why() {
    let mut rig = Rig::new();
    rig.device.set_status(0, ConnectionStatus::DISCONNECTED_ABORT);
    assert!(matches!(rig.submit(), Err(Error::QueueLost { fault: None, .. })));
}

#[test]
fn an_unknown_status_is_a_lost_queue() {
    for status in [4, 5, u32::MAX] {
        let mut rig = Rig::new();
        let (event, _) = fault(&rig);
        rig.device.post(event);
        rig.device.set_status(0, ConnectionStatus(status));
        assert!(matches!(rig.submit(), Err(Error::QueueLost { .. })), "status {status:#x}");
        assert!(rig.device.take_sent().is_empty());
    }
}

#[test]
fn the_logging_level_in_the_upper_half_is_not_part_of_the_status() {
    for level in [1, 3, 0x8000_0000, 0xffff_ffff_u64] {
        let status = |status: ConnectionStatus| level << 32 | DoorbellStatus::new(status).0;
        let mut rig = Rig::new();
        let (event, _) = fault(&rig);
        let set = |rig: &Rig, value| rig.device.status(0).store(value, Ordering::Release);
        set(&rig, status(ConnectionStatus::CONNECTED));
        rig.submit().unwrap();
        assert!(rig.device.take_sent().is_empty());
        set(&rig, status(ConnectionStatus::CONNECTED_NOTIFY));
        rig.submit().unwrap();
        assert_eq!(rig.device.take_codes(), [RequestCode::NOTIFY_WORK_SUBMISSION]);
        set(&rig, status(ConnectionStatus::DISCONNECTED_RETRY));
        rig.submit().unwrap();
        assert_eq!(rig.device.take_codes(), [RequestCode::CONNECT_DOORBELL]);
        rig.device.post(event);
        set(&rig, status(ConnectionStatus::DISCONNECTED_ABORT));
        assert!(matches!(rig.submit(), Err(Error::QueueLost { fault: Some(_), .. })));
    }
}

/// Executes a submission. Returns the packets of its command buffer, and those behind that in the ring.
fn submitted(rig: &Rig) -> Vec<u8> {
    let ring = rig.device.ring(0);
    let start = ring.pointers().consumed();
    rig.device.execute(0, 1);
    let buffer = *rig.device.executed().last().unwrap();
    let mut content = rig.device.read_gpu(buffer.gpu_va, buffer.size() as usize);
    let execute = size_of::<IndirectBuffer>() as u64;
    let behind = start + execute..ring.pointers().consumed();
    content.extend(ring.read(behind.start, (behind.end - behind.start) as usize));
    content
}

/// `FENCE_SIGNAL_QUEUED` and `FENCE_WAIT_QUEUED` of a program's own fences.
#[test]
fn each_signal_and_wait_that_is_logged_says_when_it_was_queued() {
    let mut rig = Rig::new();
    let fence = rig.gpu.create_fence(0).unwrap();
    rig.commands.wait_fence(&fence, 1).unwrap().signal_fence(&fence, 2).unwrap();
    connect_with(&rig, LoggingLevel::VERBOSE);
    rig.device.set_status(0, ConnectionStatus::DISCONNECTED_RETRY);
    rig.submit().unwrap();
    let content = submitted(&rig);
    let times = packets(&content).into_iter().filter_map(|packet| match packet {
        Packet::LogFence(log) => Some(log.queued_timestamp),
        _ => None,
    });
    let times: Vec<_> = times.collect();
    // The wait's, the signal's and the progress fence's, on the clock that the device reported.
    assert!(times.len() == 3 && times[0] >= 5000, "{times:?}");
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
}

#[test]
fn what_is_logged_follows_the_level_that_a_connect_tells_and_no_other() {
    let mut rig = Rig::new();
    rig.commands.nop().unwrap();
    let slot = rig.queue.progress_fence().slot();
    let last_packets = |rig: &Rig, value| {
        let content = submitted(rig);
        match packets(&content)[..] {
            [Packet::Nop, signal] => {
                assert_eq!(signal, Packet::SignalFence(SignalFence::new(slot, value)));
                LoggingLevel::DEFAULT
            }
            [Packet::Nop, write, log, interrupt] => {
                let logged = LoggedSignal::new(slot, value);
                assert_eq!(write, Packet::WriteFence(logged.write));
                let Packet::LogFence(log) = log else { panic!("{log:?}") };
                // On the clock that the device reported, from when it did.
                assert!((5000..5000 + HANG.as_nanos() as u64).contains(&log.queued_timestamp));
                assert_eq!(LogFence { queued_timestamp: 0, ..log }, logged.log);
                assert_eq!(interrupt, Packet::ConditionalInterrupt(logged.interrupt));
                LoggingLevel::VERBOSE
            }
            _ => panic!("other packets than the submitted ones"),
        }
    };
    let mut submit = |level: LoggingLevel, retry: bool| {
        connect_with(&rig, level);
        if retry {
            rig.device.set_status(0, ConnectionStatus::DISCONNECTED_RETRY);
        }
        let value = rig.submit().unwrap();
        last_packets(&rig, value)
    };
    let (default, verbose) = (LoggingLevel::DEFAULT, LoggingLevel::VERBOSE);
    assert_eq!(submit(verbose, false), default);
    assert_eq!(submit(verbose, true), verbose);
    assert_eq!(submit(verbose, false), verbose);
    assert_eq!(submit(default, true), default);
    assert_eq!(submit(default, false), default);
    // An unknown level does not turn logging on.
    assert_eq!(submit(LoggingLevel(7), true), default);
    assert_eq!(submit(default, false), default);
}

#[test]
fn a_refused_connect_is_a_lost_queue_only_if_the_status_says_so() {
    let refusal = || Answer::Refuse(Status::INSUFFICIENT_RESOURCES, 7);
    let mut rig = Rig::disconnected();
    rig.device.script(move |_, _| refusal());
    let error = error_of(rig.submit());
    let Error::Refused { request, status, detail } = error else { panic!("{error}") };
    assert_eq!(request, RequestCode::CONNECT_DOORBELL);
    assert_eq!((status, detail), (Status::INSUFFICIENT_RESOURCES, 7));

    let (event, fault) = fault(&rig);
    rig.device.script(move |device, _| {
        device.set_status(0, ConnectionStatus::DISCONNECTED_ABORT);
        device.post(event);
        refusal()
    });
    let error = error_of(rig.submit());
    assert!(matches!(error, Error::QueueLost { fault: Some(told), .. } if told == fault));
}

#[test]
fn what_is_queued_without_ringing_is_rung_for_with_one_store() {
    let mut rig = Rig::new();
    for value in 1..=5 {
        assert_eq!(rig.queue.queue(&mut rig.commands).unwrap(), value);
        // Nothing is visible, and no line of memory that the engine reads changes hands.
        assert_eq!((rig.device.rung(0), rig.device.last_queued(0)), (0, 0));
        assert_eq!(rig.device.ring(0).pointers().written(), 0);
    }
    assert_eq!(rig.queue.counters().rings, 0);
    rig.queue.ring().unwrap();
    assert_eq!(rig.device.last_queued(0), 5);
    assert_eq!(rig.device.ring(0).pointers().written(), 5 * SUBMISSION);
    assert_eq!(rig.queue.counters().rings, 1);
    assert_eq!(rig.device.rung(0), 5 * SUBMISSION);
    assert!(rig.device.take_sent().is_empty());
}

#[test]
fn a_kernel_mode_submission_carries_its_progress_value_and_rings_nothing() {
    let mut rig = Rig::new();
    let mut queue = rig.context.create_kernel_mode_queue().unwrap();
    rig.commands.nop().unwrap();
    rig.device.take_sent();
    for value in 1..=3 {
        assert_eq!(queue.submit(&mut rig.commands).unwrap(), value);
        let request: SubmitCommand = rig.device.take_sent()[0].read();
        assert_eq!((request.hw_queue, request.progress_fence_value), (queue.handle(), value));
        assert_eq!((request.gpu_va, request.size), (rig.commands.gpu_va(), 8));
    }
    rig.device.script(|_, _| Answer::Refuse(Status::DEVICE_REMOVED, 0));
    assert!(matches!(queue.submit(&mut rig.commands), Err(Error::Refused { .. })));
    assert_eq!((queue.last_value(), rig.device.rung(0)), (3, 0));
}
