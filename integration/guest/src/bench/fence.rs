// SPDX-License-Identifier: MIT OR Apache-2.0

//! Signals: how often they interrupt, how soon they wake a thread, and how soon another engine continues.

use super::floor;
use super::report::Measured;
use super::rivals::{Beside, EventfdEcho, EventfdWake};
use super::set_up::{TIMEOUT, context, null_commands};
use crate::timing::{Latency, times};
use bellhop_guest_umd::{Adapter, CommandBuffer, Context, UserModeQueue};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Signals of one command buffer.
const SIGNALS: u64 = 1000;
/// Timed waits.
const WAITS: u64 = 200;
/// Long enough for a thread to be asleep.
const ASLEEP: Duration = Duration::from_micros(500);
/// How often two engines wait for each other in a round.
const EXCHANGES: u64 = 2000;
/// Rounds: the host's scheduler takes a few until each engine has a processor.
const ROUNDS: u64 = 16;
/// Exchanges between two notes of the time: a note takes a tenth of an exchange.
const GROUP: u64 = 20;
/// Room for the packets of a signal, or of a wait, with its entry in a log.
const PACKETS: usize = 64;

pub(super) fn run(adapter: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    interrupts(adapter, measured)?;
    wake(adapter, measured)?;
    engine_to_engine(adapter, measured)
}

/// The interrupts of many signals, with a CPU that waits for the last value and without.
fn interrupts(adapter: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::THREE_D)?;
    let device = context.device();
    let mut queue = context.create_user_mode_queue(4096)?;
    for (name, is_waited) in [("unwaited", false), ("waited_at_the_end", true)] {
        let fence = device.create_fence(0)?;
        let mut commands = CommandBuffer::new(device, (SIGNALS as usize + 2) * PACKETS)?;
        for value in 1..=SIGNALS {
            commands.signal_fence(&fence, value)?;
        }
        let before = adapter.statistics()?.interrupts;
        if is_waited {
            thread::scope(|scope| -> anyhow::Result<()> {
                let waiter = scope.spawn(|| fence.wait(SIGNALS, TIMEOUT));
                // The host learns of the wait before any signal.
                thread::sleep(ASLEEP);
                let value = queue.submit(&mut commands)?;
                queue.progress_fence().poll(value, TIMEOUT)?;
                waiter.join().map_err(|_| anyhow::anyhow!("the waiting thread panicked"))??;
                Ok(())
            })?;
        } else {
            let value = queue.submit(&mut commands)?;
            queue.progress_fence().poll(value, TIMEOUT)?;
        }
        let raised = adapter.statistics()?.interrupts - before;
        measured.figure(format!("interrupts_of_1000_signals_{name}"), raised as f64);
    }
    Ok(())
}

/// The times from submissions to the wake-ups of a thread that waits for their signals, blocked. Calls `prepare` before each, while
/// the thread is asleep.
pub(super) fn blocked_waits(
    context: &Context,
    mut prepare: impl FnMut(&mut UserModeQueue) -> anyhow::Result<()>,
) -> anyhow::Result<Latency> {
    let device = context.device();
    let mut queue = context.create_user_mode_queue(4096)?;
    let fence = device.create_fence(0)?;
    let mut signal = times()?;
    let (awoken, awakenings) = mpsc::channel();
    thread::scope(|scope| -> anyhow::Result<()> {
        let waits = scope.spawn(|| -> anyhow::Result<()> {
            // The other end is gone once no thread waits for this one.
            let awoken = awoken;
            for value in 1..=WAITS {
                fence.wait(value, TIMEOUT)?;
                let _ = awoken.send(Instant::now());
            }
            Ok(())
        });
        let mut commands = CommandBuffer::new(device, 2 * PACKETS)?;
        for value in 1..=WAITS {
            commands.reset();
            commands.signal_fence(&fence, value)?;
            thread::sleep(ASLEEP);
            prepare(&mut queue)?;
            let start = Instant::now();
            queue.submit(&mut commands)?;
            let awake = awakenings.recv_timeout(TIMEOUT)?;
            signal.record(awake.saturating_duration_since(start).as_nanos() as u64)?;
        }
        waits.join().map_err(|_| anyhow::anyhow!("the waiting thread panicked"))?
    })?;
    Ok(Latency::of(&signal))
}

/// Has the engine that executes a queue look for work.
pub(super) fn keep_awake(
    queue: &mut UserModeQueue,
    nothing: &mut CommandBuffer,
) -> anyhow::Result<()> {
    let value = queue.submit(nothing)?;
    Ok(queue.progress_fence().poll(value, TIMEOUT)?)
}

/// The time from a submission to the wake-up of a thread that waits for it, blocked: with an engine that
/// polls, and with one that has to be woken first.
fn wake(adapter: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::THREE_D)?;
    let mut nothing = null_commands(context.device())?;
    for engine in ["awake", "asleep"] {
        let (mut process, mut eventfd) = (EventfdWake::start()?, times()?);
        let signal = blocked_waits(&context, |queue| {
            let start = Instant::now();
            process.wake()?;
            eventfd.record(start.elapsed().as_nanos() as u64)?;
            if engine == "awake" {
                keep_awake(queue, &mut nothing)?;
            }
            Ok(())
        })?;
        let (signal, eventfd) = (signal.p50, Latency::of(&eventfd).p50);
        let name = format!("signal_to_blocked_waiter_engine_{engine}");
        measured.figure(format!("{name}_ns_p50"), signal as f64);
        measured.figure(format!("eventfd_wake_engine_{engine}_ns_p50"), eventfd as f64);
        measured.ratio(format!("{name}_over_eventfd_wake"), signal as f64, eventfd.max(1) as f64);
        if engine == "asleep" {
            let floor = two_wakes()?.p50;
            measured.figure("eventfd_round_trip_after_pause_ns_p50", floor as f64);
            let over = format!("{name}_over_eventfd_round_trip");
            measured.ratio(over, signal as f64, floor.max(1) as f64);
        }
    }
    Ok(())
}

/// The floor of a signal to a blocked waiter by an engine that has to be woken first: a process is woken after a
/// pause, and wakes this one. An eventfd that wakes a process right after a signal finds that one's processor awake.
fn two_wakes() -> anyhow::Result<Latency> {
    let (echo, mut taken) = (EventfdEcho::start(Beside::Apart)?, times()?);
    for _ in 0..WAITS {
        thread::sleep(ASLEEP);
        let start = Instant::now();
        echo.round_trip()?;
        taken.record(start.elapsed().as_nanos() as u64)?;
    }
    Ok(Latency::of(&taken))
}

/// Two engines that wait for each other, again and again, without a CPU: the first notes the time after each group
/// of exchanges. The median counts: in others an engine had no processor.
fn engine_to_engine(adapter: &Adapter, measured: &mut Measured) -> anyhow::Result<()> {
    let first = context(adapter, EngineType::THREE_D)?;
    let copy = context(adapter, EngineType::COPY)?.node();
    let device = first.device();
    let second = device.create_context(copy)?;
    let (there, back) = (device.create_fence(0)?, device.create_fence(0)?);
    let bytes = (EXCHANGES as usize * 2 + EXCHANGES as usize / GROUP as usize + 2) * PACKETS;
    let noted = device.create_allocation(AllocationKind::SYSTEM, PAGE_SIZE)?;
    let mapped = noted.map(Protection::WRITE)?;
    let note_of = |exchange: u64| exchange / GROUP * size_of::<u64>() as u64;
    let note = |exchange| -> anyhow::Result<u64> {
        let mut bytes = [0; size_of::<u64>()];
        noted.read(note_of(exchange) as usize, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    let mut begins = CommandBuffer::new(device, bytes)?;
    let mut answers = CommandBuffer::new(device, bytes)?;
    let mut first = first.create_user_mode_queue(4096)?;
    let mut second = second.create_user_mode_queue(4096)?;
    let mut exchanges = times()?;
    for round in 0..ROUNDS {
        begins.reset();
        answers.reset();
        for exchange in 1..=EXCHANGES {
            let value = round * EXCHANGES + exchange;
            answers.wait_fence(&there, value)?.signal_fence(&back, value)?;
            begins.signal_fence(&there, value)?.wait_fence(&back, value)?;
            if exchange % GROUP == 0 {
                begins.timestamp(mapped.gpu_va() + note_of(exchange))?;
            }
        }
        second.submit(&mut answers)?;
        let value = first.submit(&mut begins)?;
        // Both engines need a processor, so this thread yields its own.
        thread::sleep(ASLEEP);
        first.progress_fence().wait(value, TIMEOUT)?;
        for exchange in (2 * GROUP..=EXCHANGES).step_by(GROUP as usize) {
            exchanges.record((note(exchange)? - note(exchange - GROUP)?) / GROUP)?;
        }
    }
    let time = Latency::of(&exchanges).p50 as f64;
    measured.figure("engine_to_engine_rtt_ns", time);
    let over = "engine_to_engine_rtt_over_cacheline_rtt";
    match floor::cache_line_round_trip(EXCHANGES)? {
        Some(floor) => measured.ratio(over, time, floor.p50.max(1) as f64),
        None => measured.absent(over, floor::ONE_PROCESSOR),
    }
    Ok(())
}
