// SPDX-License-Identifier: MIT OR Apache-2.0

//! What many cost: guests, queues, connected doorbells, workers of kernels, and requests in flight.
//!
//! Each is measured at numbers that are powers, and the report has the exponents of growth. Costs are of one piece or
//! of one operation, so most should not grow.

pub(super) mod doorbells;
pub(super) mod guests;
pub(super) mod queues;
pub(super) mod requests;
pub(super) mod workers;

use super::setting::Setting;
use crate::inspect::ControlClient;
use anyhow::ensure;
use bellhop_guest::Guest;
use bellhop_guest::bench::{Measured, Memory};
use bellhop_guest::client::{Client, Shape};
use bellhop_guest::inspect::{Selection, snapshots};
use bellhop_guest::processors;
use bellhop_guest::timing::{Latency, time, time_all};
use bellhop_guest_umd::{Adapter, CommandBuffer, Device, Error, UserModeQueue};
use bellhop_protocol::snapshot::Snapshot;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long something may take before the suite fails.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Round trips that are timed at each number, at most, in one repetition.
const ROUND_TRIPS: u64 = 20_000;
/// Submissions of a batch, and batches that are timed.
const BATCH: usize = 64;
const BATCHES: u32 = 2000;
/// Batches before them.
const WARM_UP: u32 = 50;
/// Room for a command that does nothing.
const COMMANDS: usize = 64;

/// The numbers at which something is measured: these, as far as the arguments allow, and the limit that they set.
fn counts(setting: &Setting, all: &[usize]) -> Vec<usize> {
    let most = setting.arguments.most().unwrap_or(usize::MAX);
    let mut counts: Vec<_> = all.iter().copied().filter(|count| *count < most).collect();
    counts.extend(all.iter().copied().find(|count| *count >= most).map(|_| most));
    counts
}

/// Repeats a measurement as often as the arguments say, on the processor that the daemon leaves to this thread.
fn repeat(
    setting: &Setting,
    mut measure: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if let Some((first, _)) = processors::pair() {
        processors::pin(&[first])?;
    }
    (0..setting.options(&[]).repetitions).try_for_each(|_| measure())
}

/// Round trips to time in one repetition.
fn round_trips(setting: &Setting) -> u64 {
    let options = setting.options(&[]);
    options.samples.div_ceil(options.repetitions).min(ROUND_TRIPS)
}

/// The memory of the daemon.
fn memory(setting: &Setting) -> anyhow::Result<Memory> {
    Memory::of(setting.daemon)
}

/// The memory of the daemon once it has this many guests: it forgets a guest after the connection has ended.
fn memory_with_guests(setting: &Setting, guests: usize) -> anyhow::Result<Memory> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let (seen, _) = inspect(setting, 1)?;
        let shown = seen.iter().map(|snapshot| snapshot.guests.len()).sum::<usize>();
        if shown == guests {
            return memory(setting);
        }
        ensure!(Instant::now() < end, "the daemon has {shown} guests, and not {guests}");
    }
}

/// Nanoseconds of a call.
fn nanoseconds<T>(call: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, u64)> {
    let start = Instant::now();
    let result = call()?;
    Ok((result, start.elapsed().as_nanos() as u64))
}

/// Inspects the daemon, as `bellhop inspect` does. Returns the snapshots, and the median time of some.
fn inspect(setting: &Setting, times: u64) -> anyhow::Result<(Vec<Snapshot>, f64)> {
    let mut client = ControlClient::connect(&setting.control)?;
    let mut seen = Vec::new();
    let latency = time_all(times, || {
        seen = snapshots(&mut client, Selection::default())?;
        anyhow::Ok(())
    })?;
    Ok((seen, latency.p50 as f64))
}

/// A process of a new guest with what it takes to submit.
fn client(setting: &Setting, number: usize) -> anyhow::Result<Client> {
    client_of(setting, setting.guest(number)?)
}

fn client_of(setting: &Setting, guest: Arc<dyn Guest>) -> anyhow::Result<Client> {
    let shape = Shape { commands: COMMANDS, ..Shape::default() };
    let mut client = Client::new(Adapter::open_with(guest, setting.place.policy())?, shape)?;
    client.commands.nop()?;
    round_trip(&mut client.queue, &mut client.commands)?;
    Ok(client)
}

/// Submits, and waits for the fence.
fn round_trip(queue: &mut UserModeQueue, commands: &mut CommandBuffer) -> Result<(), Error> {
    let value = queue.submit(commands)?;
    queue.progress_fence().poll(value, TIMEOUT)
}

/// A queue of many that alone submits: its round trips one at a time, and its rate of submissions in batches.
fn one_submits(
    setting: &Setting,
    (subject, count): (&str, usize),
    queue: &mut UserModeQueue,
    batch: &mut [CommandBuffer],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let [first, ..] = batch else { anyhow::bail!("there are no commands to submit") };
    let times: Latency = time(round_trips(setting), || round_trip(queue, first))?;
    measured.times_at_scale(subject, count, "submission_ns", &times);
    let mut submit = |batches| -> anyhow::Result<()> {
        for _ in 0..batches {
            for commands in &mut *batch {
                queue.queue(commands)?;
            }
            queue.ring()?;
            queue.progress_fence().poll(queue.last_value(), TIMEOUT)?;
        }
        Ok(())
    };
    // The first touch of each command buffer and of the ring.
    submit(WARM_UP)?;
    let ((), time) = nanoseconds(|| submit(BATCHES))?;
    let submissions = f64::from(BATCHES) * batch.len() as f64;
    measured.at_scale(subject, count, "submissions_per_second", submissions / time as f64 * 1e9);
    Ok(())
}

/// Commands that do nothing, for a batch.
fn batch(device: &Device) -> anyhow::Result<Vec<CommandBuffer>> {
    let mut batch = CommandBuffer::many(device, COMMANDS, BATCH)?;
    batch.iter_mut().try_for_each(|commands| commands.nop().map(drop))?;
    Ok(batch)
}
