// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fence.log.*`: what engines log about fences.

use crate::conformance::behaviour::{Behaviour, Mismatch, require};
use crate::conformance::scene::{Bench, Scene, TIMEOUT};
use crate::conformance::source;
use bellhop_guest_umd::{CommandBuffer, Fence};
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::fence_log::{
    FENCE_LOG_SIZE, FenceLogEntry, FenceLogHeader, FenceLogOperation, FenceLogType,
};
use bellhop_protocol::packet::fence::{LogFence, SignalFence, WriteFence};
use zerocopy::{FromBytes, IntoBytes};

pub(in crate::conformance) const BEHAVIOURS: &[Behaviour] = &[
    Behaviour::new("fence.log.signals", source::FENCE_LOG, signals).shows(
        "signals are logged in order, with their values, at times between those of the packets \
         around them",
    ),
    Behaviour::new("fence.log.waits", source::FENCE_LOG, waits)
        .shows("a wait is logged, with the time at which it held the queue if it did"),
    Behaviour::new("fence.log.wrap", source::FENCE_LOG_OVERRUN, wrap)
        .shows("a full log continues at its start, and counts that"),
    Behaviour::new("fence.log.order", source::FENCE_LOG_ORDER, order).shows(
        "no waiter learns of a value that a packet wrote before it is evaluated, and its log \
         entry is there by then",
    ),
    Behaviour::new("fence.log.unlogged", source::FENCE_LOG, unlogged).shows(
        "a signal packet without a log packet is in no log, and each queue has logs of its own",
    ),
    Behaviour::new("fence.log.read-only", source::FENCE_LOG, read_only)
        .shows("packets can read logs and cannot write them"),
    Behaviour::new("fence.log.bad-operation", source::FENCE_LOG, bad_operation)
        .shows("a log packet with an unknown operation is a fault"),
    Behaviour::new("fence.log.not-owned", source::FENCE_LOG, not_owned)
        .shows("a packet cannot log a fence of another process"),
];

/// A log as the queue's packets see it: the header, and the entries written so far, oldest first.
fn read(
    bench: &mut Bench,
    log: FenceLogType,
) -> Result<(FenceLogHeader, Vec<FenceLogEntry>), Mismatch> {
    let logs = bench.queue.fence_logs();
    let from = if log == FenceLogType::WAITS { logs.waits } else { logs.signals };
    let to = bench.va(0x1000);
    bench.commands.reset();
    bench.commands.copy(from, to, FENCE_LOG_SIZE)?;
    bench.run()?;
    let page = bench.read(0x1000, FENCE_LOG_SIZE as usize)?;
    let short = |_| Mismatch::Seen("half of a header".into());
    let (header, rest) = FenceLogHeader::read_from_prefix(&page).map_err(short)?;
    require!(header.log_type == log, "its type reads {}", header.log_type);
    let count = header.number_of_entries;
    require!((count, logs.entries) == (84, 84), "it has {count} entries");
    let free = header.first_free_entry_index as usize;
    require!(free < 84, "the first free entry is {free}");
    let entries: Vec<_> = rest
        .chunks_exact(size_of::<FenceLogEntry>())
        .filter_map(|bytes| FenceLogEntry::read_from_bytes(bytes).ok())
        .take(84)
        .collect();
    let (new, old) = entries.split_at(free);
    let old = if header.wraparound_count == 0 { &[] } else { old };
    Ok((header, [old, new].concat()))
}

/// Asserts what entries say besides their times, and that times never go backwards.
fn check(
    entries: &[FenceLogEntry],
    operation: FenceLogOperation,
    expected: &[(&Fence, u64)],
) -> Result<(), Mismatch> {
    let seen: Vec<_> = entries.iter().map(|entry| (entry.fence, entry.fence_value)).collect();
    let wanted: Vec<_> = expected.iter().map(|(fence, value)| (fence.slot(), *value)).collect();
    require!(seen == wanted, "the log has {seen:?}, not {wanted:?}");
    require!(entries.iter().all(|entry| entry.operation == operation.0), "another operation");
    let times: Vec<_> = entries.iter().map(|entry| entry.end_timestamp).collect();
    require!(times.is_sorted(), "time goes back: {times:?}");
    Ok(())
}

fn signals(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let [one, two] = [bench.device.create_fence(0)?, bench.device.create_fence(0)?];
    let (before, after) = (bench.va(0), bench.va(8));
    bench.commands.timestamp(before)?.signal_fence(&one, 5)?.signal_fence(&two, 1)?;
    bench.commands.signal_fence(&one, 5)?.signal_fence(&one, 6)?.timestamp(after)?;
    bench.run()?;
    let around = [bench.word(0)?, bench.word(8)?];
    let (header, entries) = read(&mut bench, FenceLogType::SIGNALS)?;
    require!(header.wraparound_count == 0, "it has wrapped");
    let expected = [(&one, 5), (&two, 1), (&one, 5), (&one, 6)];
    check(&entries, FenceLogOperation::SIGNAL_EXECUTED, &expected)?;
    let times: Vec<_> = entries.iter().map(|entry| entry.end_timestamp).collect();
    let inside = times.iter().all(|time| (around[0]..=around[1]).contains(time));
    require!(inside, "{times:?} is not between {around:?}");
    let (_, waits) = read(&mut bench, FenceLogType::WAITS)?;
    require!(waits.is_empty(), "{} waits", waits.len());
    Ok(())
}

fn waits(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(1)?;
    let (first, held) = (bench.va(0), bench.va(8));
    bench
        .commands
        .wait_fence(&fence, 1)?
        .timestamp(first)?
        .wait_fence(&fence, 2)?
        .timestamp(held)?;
    let value = bench.queue.submit(&mut bench.commands)?;
    // Another queue of this engine gets turns while this one waits.
    let mut other = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 64)?;
    commands.nop()?;
    while bench.word(0)? == 0 {
        std::hint::spin_loop();
    }
    for _ in 0..2 {
        let value = other.submit(&mut commands)?;
        other.progress_fence().poll(value, TIMEOUT)?;
    }
    fence.signal(2)?;
    bench.queue.progress_fence().poll(value, TIMEOUT)?;
    let around = [bench.word(0)?, bench.word(8)?];
    let (_, entries) = read(&mut bench, FenceLogType::WAITS)?;
    check(&entries, FenceLogOperation::WAIT_UNBLOCKED, &[(&fence, 1), (&fence, 2)])?;
    let [passed, held] = &entries[..] else { return Err(Mismatch::Seen("two entries".into())) };
    require!(passed.observed_timestamp == 0, "a wait that was over held the queue");
    let times = [around[0], held.observed_timestamp, held.end_timestamp, around[1]];
    require!(times.is_sorted(), "the times are {times:?}");
    Ok(())
}

fn wrap(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    for value in 1..=200 {
        bench.commands.signal_fence(&fence, value)?;
        if value % 50 == 0 {
            bench.run()?;
        }
    }
    let (header, entries) = read(&mut bench, FenceLogType::SIGNALS)?;
    let seen = (header.wraparound_count, header.first_free_entry_index);
    require!(seen == (2, 32), "after 200 entries it says {seen:?}");
    let expected: Vec<_> = (117..=200).map(|value| (&fence, value)).collect();
    check(&entries, FenceLogOperation::SIGNAL_EXECUTED, &expected)
}

fn order(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let copy_node = scene.node(EngineType::COPY)?;
    let mut waiting = bench.device.create_context(copy_node)?.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 128)?;
    commands.wait_fence(&fence, 4)?;
    let held = waiting.submit(&mut commands)?;
    let log = LogFence::new(fence.slot(), 4, FenceLogOperation::SIGNAL_EXECUTED);
    bench.commands.raw(WriteFence::new(fence.slot(), 4).as_bytes())?.raw(log.as_bytes())?;
    bench.run()?;
    let current = fence.current_value()?;
    require!(current == 0, "it reads {current} before it is evaluated");
    let (_, entries) = read(&mut bench, FenceLogType::SIGNALS)?;
    check(&entries, FenceLogOperation::SIGNAL_EXECUTED, &[(&fence, 4)])?;
    bench.commands.conditional_interrupt(&fence)?;
    bench.run()?;
    fence.wait(4, TIMEOUT)?;
    Ok(waiting.progress_fence().poll(held, TIMEOUT)?)
}

fn unlogged(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let mut other = bench.context.create_user_mode_queue(4096)?;
    let mut commands = CommandBuffer::new(&bench.device, 128)?;
    commands.signal_fence(&fence, 1)?;
    let value = other.submit(&mut commands)?;
    other.progress_fence().poll(value, TIMEOUT)?;
    bench.commands.raw(SignalFence::new(fence.slot(), 2).as_bytes())?;
    bench.run()?;
    fence.poll(2, TIMEOUT)?;
    for log in [FenceLogType::SIGNALS, FenceLogType::WAITS] {
        let (_, entries) = read(&mut bench, log)?;
        require!(entries.is_empty(), "{log} has {} entries", entries.len());
    }
    Ok(())
}

fn read_only(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let to = bench.queue.fence_logs().signals;
    bench.commands.write_data(to, &[0xFF; 8])?;
    bench.expect_fault(FaultReason::WRITE_PROTECTION_FAULT, to)?;
    Ok(())
}

fn bad_operation(scene: &Scene) -> Result<(), Mismatch> {
    let mut bench = scene.bench()?;
    let fence = bench.device.create_fence(0)?;
    let packet = LogFence::new(fence.slot(), 1, FenceLogOperation(2));
    bench.commands.raw(packet.as_bytes())?;
    bench.expect_fault(FaultReason::BAD_LOG_OPERATION, 2)?;
    Ok(())
}

fn not_owned(scene: &Scene) -> Result<(), Mismatch> {
    let theirs = scene.bench()?;
    let fence = theirs.device.create_fence(0)?;
    let mut bench = scene.bench()?;
    let packet = LogFence::new(fence.slot(), 1, FenceLogOperation::SIGNAL_EXECUTED);
    bench.commands.raw(packet.as_bytes())?;
    bench.expect_fault(FaultReason::FENCE_NOT_OWNED, fence.slot().into())?;
    Ok(())
}
