// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engines' logs of fences.

use crate::support::data::write_data;
use crate::support::log_buffers::{LOGS, SIGNALS, WAITS, entries, logged_queue, read};
use crate::support::rig::*;
use bellhop_host_kmd::hardware::{
    CurrentValues as _, FenceLogContents as _, FenceLogs as _, Interrupts as _, KernelSubmission,
    QueueLog, Queues as _,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::doorbell::{DoorbellStatus, LoggingLevel};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::fence_log::{FenceLogEntry, FenceLogHeader, FenceLogOperation};
use bellhop_protocol::handoff::fence_log::LogReader;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::packet::fence::{
    ConditionalInterrupt, LogFence, LoggedSignal, LoggedWait, SignalFence, WaitFence, WriteFence,
};
use bellhop_protocol::packet::flow::NOP;
use bellhop_protocol::packet::transfer::{Copy, Timestamp};
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::FromBytes;

const SIGNAL: FenceLogOperation = FenceLogOperation::SIGNAL_EXECUTED;
const WAIT: FenceLogOperation = FenceLogOperation::WAIT_UNBLOCKED;

#[test]
fn signals_are_logged_with_what_the_packet_says_and_the_time_between_the_packets_around() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fences = [guest.fence(0), guest.fence(0)];
    let mut queue = logged_queue(&mut guest, COPY);
    let signals = [(fences[0], 3), (fences[1], 1), (fences[0], 3), (fences[0], 9)];
    let mut packets = Packets::new().then(Timestamp::new(LOCAL));
    for (slot, value) in signals {
        packets = packets.then(LoggedSignal::new(slot, value));
    }
    guest.run(&mut queue, packets.then(Timestamp::new(LOCAL + 8)));
    let logged = entries(&gpu, queue.id, SIGNALS);
    let what = |entry: &FenceLogEntry| (entry.fence, entry.fence_value);
    assert_eq!(logged.iter().map(what).collect::<Vec<_>>(), signals);
    assert!(logged.iter().all(|entry| entry.operation == SIGNAL.0));
    assert!(logged.iter().all(|entry| entry.observed_timestamp == 0));
    let times: Vec<_> = [guest.read_word(LOCAL)]
        .into_iter()
        .chain(logged.iter().map(|entry| entry.end_timestamp))
        .chain([guest.read_word(LOCAL + 8)])
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(entries(&gpu, queue.id, WAITS), []);
    // The fused signal of the progress fence is in no log.
    assert_eq!(guest.published(fences[0]), 9);
}

#[test]
fn a_wait_is_logged_with_the_time_when_it_held_the_queue_or_without() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(5);
    let mut queue = logged_queue(&mut guest, COPY);
    let mut signaler = guest.queue(COMPUTE);
    let packets = Packets::new()
        .then(LoggedWait::new(fence, 5))
        .then(Timestamp::new(LOCAL))
        .then(LoggedWait::new(fence, 6))
        .then(Timestamp::new(LOCAL + 8))
        // Neither `LOG_FENCE` directly follows the wait that held the queue.
        .then(WaitFence::new(fence, 7))
        .then(NOP)
        .then(LogFence::new(fence, 7, WAIT))
        .then(LogFence::new(fence, 6, WAIT));
    guest.submit_with_progress(&mut queue, packets);
    for value in [6, 7] {
        eventually("the wait before", || guest.read_word(LOCAL + 8 * (value - 6)) != 0);
        wait_until_asleep(&gpu);
        guest.run(&mut signaler, Packets::new().then(SignalFence::new(fence, value)));
    }
    guest.wait(queue.progress, queue.submitted);
    let logged = entries(&gpu, queue.id, WAITS);
    let values: Vec<_> = logged.iter().map(|entry| entry.fence_value).collect();
    assert_eq!(values, [5, 6, 7, 6]);
    let observed: Vec<_> = logged.iter().map(|entry| entry.observed_timestamp).collect();
    let was_held: Vec<_> = observed.iter().map(|time| *time != 0).collect();
    assert_eq!(was_held, [false, true, false, false]);
    let times = [guest.read_word(LOCAL), observed[1], logged[1].end_timestamp];
    assert!(times.is_sorted(), "{times:?}");
    assert!(logged.iter().all(|entry| entry.operation == WAIT.0));
}

#[test]
fn a_log_wraps_and_tells_what_was_overwritten_by_its_count() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let mut queue = logged_queue(&mut guest, COPY);
    let mut value = 0;
    for (count, readable, lost) in [(83, 83, 0), (1, 83, 1), (1, 83, 2), (115, 83, 117)] {
        for _ in 0..count {
            value += 1;
            guest.run(&mut queue, Packets::new().then(LoggedSignal::new(fence, value)));
        }
        let (logged, overwritten) = read(&gpu, queue.id, SIGNALS);
        assert_eq!((logged.len(), overwritten), (readable, lost));
        let values: Vec<_> = logged.iter().map(|entry| entry.fence_value).collect();
        assert_eq!(values, (value - 82..=value).collect::<Vec<_>>());
        assert!(logged.is_sorted_by_key(|entry| entry.end_timestamp));
    }
    // Packets see the log with the reference's layout.
    guest.run(&mut queue, Packets::new().then(Copy::new(LOGS + PAGE_SIZE, LOCAL, PAGE_SIZE)));
    let page = guest.read(LOCAL, PAGE_SIZE as usize);
    let (header, rest) = FenceLogHeader::read_from_prefix(&page).unwrap();
    assert_eq!((header.first_free_entry_index, header.wraparound_count), (200 % 84, 200 / 84));
    assert_eq!((header.log_type, header.number_of_entries), (SIGNALS, 84));
    let (last, _) = FenceLogEntry::read_from_prefix(&rest[(200 % 84 - 1) * 48..]).unwrap();
    assert_eq!((last.fence, last.fence_value), (fence, 200));
}

#[test]
fn a_reader_that_an_engine_overruns_gets_whole_entries_in_order_or_knows_of_the_loss() {
    const LAST: u64 = 40_000;
    let mut guest = Guest::start();
    let fence = guest.fence(0);
    let mut queue = logged_queue(&mut guest, COPY);
    let is_done = AtomicBool::new(false);
    let log = QueueLog { queue: queue.id, log_type: SIGNALS };
    let (mut reader, mut next, mut lost, mut handed) = (LogReader::default(), 0, 0, 0);
    let mut time = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for first in (0..LAST).step_by(8) {
                let packets = (first + 1..=first + 8).fold(Packets::new(), |packets, value| {
                    packets.then(LogFence {
                        queued_timestamp: !value,
                        ..LogFence::new(fence, value, SIGNAL)
                    })
                });
                guest.submit(&mut queue, &packets);
            }
            guest.run(&mut queue, Packets::new());
            is_done.store(true, Ordering::Release);
        });
        loop {
            let was_done = is_done.load(Ordering::Acquire);
            guest
                .gpu
                .with_fence_log(log, &mut |content| {
                    let position = content.position();
                    guest.gpu.flush_fence_logs(&[log.queue]);
                    let mut first = None;
                    let gone = reader.read_entries(&content, position, |entry| {
                        assert_eq!(entry.queued_timestamp, !entry.fence_value, "half of an entry");
                        assert!(entry.fence_value > next && entry.end_timestamp >= time);
                        (next, time) = (entry.fence_value, entry.end_timestamp);
                        first.get_or_insert(entry.fence_value);
                        handed += 1;
                    });
                    lost += gone;
                })
                .unwrap();
            if was_done {
                break;
            }
        }
    });
    assert_eq!((next, handed + lost), (LAST, LAST));
}

#[test]
fn packets_read_logs_and_do_not_write_them() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = logged_queue(&mut guest, COPY);
    let write = write_data(LOGS + PAGE_SIZE, &u64::MAX.to_le_bytes());
    let fault = guest.run_into_fault(&mut queue, &write);
    assert_eq!(fault.reason, FaultReason::WRITE_PROTECTION_FAULT);
    assert_eq!(entries(&gpu, queue.id, SIGNALS), []);
}

#[test]
fn an_operation_that_no_log_has_and_a_fence_that_is_anothers_are_faults_and_not_logged() {
    let (bad, not_owned) = (FaultReason::BAD_LOG_OPERATION, FaultReason::FENCE_NOT_OWNED);
    for (slot, operation, reason, address) in [
        (0, 2, bad, 2),
        (0, u32::MAX, bad, u64::from(u32::MAX)),
        (40, 0, not_owned, 40),
        (u32::MAX, 1, not_owned, u64::from(u32::MAX)),
    ] {
        let gpu = start();
        let mut guest = Guest::attach(&gpu);
        assert_eq!(guest.fence(0), 0);
        let mut queue = logged_queue(&mut guest, COPY);
        let packet = LogFence::new(slot, 1, FenceLogOperation(operation));
        let fault = guest.run_into_fault(&mut queue, &Packets::new().then(packet));
        assert_eq!((fault.reason, fault.address), (reason, address));
        assert_eq!(fault.opcode, Opcode::LOG_FENCE);
        for log_type in [WAITS, SIGNALS] {
            assert_eq!(entries(&gpu, queue.id, log_type), []);
        }
    }
}

#[test]
fn a_written_fence_counts_once_it_is_evaluated_and_never_goes_back() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    monitor(&gpu, guest.id, fence, 4);
    let (mut waiter, mut writer) = (guest.queue(COPY), guest.queue(COMPUTE));
    guest.submit_with_progress(&mut waiter, Packets::new().then(WaitFence::new(fence, 5)));
    guest.run(&mut writer, Packets::new().then(WriteFence::new(fence, 5)));
    assert_eq!((gpu.fence_value(guest.id, fence).unwrap(), guest.published(fence)), (5, 0));
    assert_eq!(gpu.take_interrupts(), []);
    guest.run(&mut writer, Packets::new().then(ConditionalInterrupt::new(fence)));
    assert_eq!(guest.published(fence), 5);
    assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, fence)]);
    guest.wait(waiter.progress, waiter.submitted);
    let fault = guest.run_into_fault(&mut writer, &Packets::new().then(WriteFence::new(fence, 4)));
    assert_eq!((fault.reason, fault.address), (FaultReason::FENCE_WENT_BACKWARDS, 4));
    assert_eq!(gpu.fence_value(guest.id, fence).unwrap(), 5);
}

#[test]
fn an_interrupted_cpu_finds_the_entry_of_the_signal() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let fence = guest.fence(0);
    let mut queue = logged_queue(&mut guest, COPY);
    for value in 1..=500 {
        monitor(&gpu, guest.id, fence, value - 1);
        guest
            .submit_with_progress(&mut queue, Packets::new().then(LoggedSignal::new(fence, value)));
        assert_eq!(take_interrupts(&gpu), [fence_signaled(guest.id, fence)]);
        let (logged, _) = read(&gpu, queue.id, SIGNALS);
        assert_eq!(logged.last().unwrap().fence_value, value);
    }
}

#[test]
fn what_the_engine_signals_for_a_submission_in_kernel_mode_is_logged_only_when_everything_is() {
    let gpu = start();
    let mut guest = Guest::attach(&gpu);
    let mut queue = logged_queue(&mut guest, COPY);
    let buffer = guest.buffer(&Packets::new().then(NOP));
    let mut submit = |value| {
        let (gpu_va, size) = (buffer.gpu_va, buffer.size());
        let (progress_fence_value, submission_fence) = (value, value);
        let submission = KernelSubmission { gpu_va, size, progress_fence_value, submission_fence };
        gpu.submit_kernel_mode(queue.id, submission).unwrap();
        gpu.kick(queue.id).unwrap();
        guest.wait(queue.progress, value);
        queue.submitted = value;
    };
    submit(1);
    gpu.set_logging_level(LoggingLevel::VERBOSE);
    submit(2);
    gpu.set_logging_level(LoggingLevel::DEFAULT);
    submit(3);
    let logged = entries(&gpu, queue.id, SIGNALS);
    let what = |entry: &FenceLogEntry| (entry.fence, entry.fence_value);
    assert_eq!(logged.iter().map(what).collect::<Vec<_>>(), [(queue.progress, 2)]);
}

#[test]
fn a_doorbell_is_connected_with_the_level_of_logging_and_keeps_it_while_the_engine_sleeps() {
    let mut guest = Guest::start();
    let queue = guest.disconnected_queue(COPY);
    let status = |guest: &Guest| {
        DoorbellStatus(guest.word(LAYOUT.status(queue.binding.slot)).load(Ordering::Acquire))
    };
    assert_eq!(status(&guest).logging_level(), LoggingLevel::DEFAULT);
    guest.gpu.set_logging_level(LoggingLevel::VERBOSE);
    guest.connect(&queue);
    wait_until_asleep(&guest.gpu);
    assert_eq!(status(&guest).logging_level(), LoggingLevel::VERBOSE);
    assert_eq!(guest.doorbell(&queue).logging_level(), LoggingLevel::VERBOSE);
}
