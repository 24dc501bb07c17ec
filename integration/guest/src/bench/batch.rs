// SPDX-License-Identifier: MIT OR Apache-2.0

//! Many null command buffers, each with a buffer of its own, on one engine.

use super::floor::{self, MinimalPath, ONE_PROCESSOR, Shape};
use super::report::Measured;
use super::set_up::{COMMANDS, TIMEOUT, context};
use bellhop_guest_umd::{Adapter, CommandBuffer, Error, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;
use std::time::Instant;

/// Submissions in a batch.
const DEPTHS: [u64; 4] = [1, 4, 16, DEEPEST];
const DEEPEST: u64 = 64;
/// Bytes of the ring.
const RING: u64 = 64 << 10;
/// The discipline in which the service should be fast.
const BEST: &str = "ring_once_wait_last";

/// The other discipline that waits for the last submission.
const RING_EACH: &str = "ring_each_wait_last";
/// The rate of the best discipline over that of the floor.
const THROUGHPUT: &str = "throughput_over_minimal_path";
/// Submissions in the time of a cache line's round trip.
const PER_CACHE_LINE: &str = "submissions_per_cacheline_rtt";

/// When the doorbell is rung and when the fence is waited for.
struct Discipline {
    name: &'static str,
    batch: fn(&mut UserModeQueue, &mut [CommandBuffer]) -> Result<(), Error>,
}

const DISCIPLINES: [Discipline; 3] = [
    Discipline { name: "ring_and_wait_each", batch: ring_and_wait_each },
    Discipline { name: RING_EACH, batch: ring_each_wait_last },
    Discipline { name: BEST, batch: ring_once_wait_last },
];

fn ring_and_wait_each(queue: &mut UserModeQueue, batch: &mut [CommandBuffer]) -> Result<(), Error> {
    for commands in batch {
        let value = queue.submit(commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
    }
    Ok(())
}

fn ring_each_wait_last(
    queue: &mut UserModeQueue,
    batch: &mut [CommandBuffer],
) -> Result<(), Error> {
    for commands in batch {
        queue.submit(commands)?;
    }
    queue.progress_fence().poll(queue.last_value(), TIMEOUT)
}

fn ring_once_wait_last(
    queue: &mut UserModeQueue,
    batch: &mut [CommandBuffer],
) -> Result<(), Error> {
    for commands in batch {
        queue.queue(commands)?;
    }
    queue.ring()?;
    queue.progress_fence().poll(queue.last_value(), TIMEOUT)
}

/// The rate of the minimal path in each shape; none on one processor.
fn minimal_paths(depth: u64, samples: u64) -> anyhow::Result<Vec<(String, f64)>> {
    let mut rates = Vec::new();
    for shape in Shape::of_depth(depth) {
        let Some(mut path) = MinimalPath::start(shape)? else { break };
        rates.push((shape.to_string(), path.rate(depth, samples)));
    }
    Ok(rates)
}

pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::THREE_D)?;
    for depth in DEPTHS {
        let mut batch = CommandBuffer::many(context.device(), COMMANDS, depth as usize)?;
        for commands in &mut batch {
            commands.nop()?;
        }
        let name = format!("minimal_path_depth_{depth:02}_per_second");
        let floor = measured.best_shape(&name, minimal_paths(depth, samples)?);
        match floor {
            Some(floor) => measured.figure(name, floor),
            None => measured.absent(name, ONE_PROCESSOR),
        }
        let mut rates = Vec::new();
        for Discipline { name, batch: submit } in DISCIPLINES {
            let mut queue = context.create_user_mode_queue(RING)?;
            // The first ring connects, and may wake the engine.
            submit(&mut queue, &mut batch)?;
            let rounds = (samples / depth).max(1);
            let start = Instant::now();
            for _ in 0..rounds {
                submit(&mut queue, &mut batch)?;
            }
            let rate = (rounds * depth) as f64 / start.elapsed().as_secs_f64();
            measured.figure(format!("{name}_depth_{depth:02}_submissions_per_second"), rate);
            rates.push((name, rate));
        }
        if depth == DEEPEST {
            deepest(&rates, floor, samples, measured)?;
        }
    }
    Ok(())
}

/// The ratios of the deepest batch.
fn deepest(
    rates: &[(&str, f64)],
    floor: Option<f64>,
    samples: u64,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let rate = |wanted| rates.iter().find(|(name, _)| *name == wanted).map(|(_, rate)| *rate);
    let (Some(once), Some(each)) = (rate(BEST), rate(RING_EACH)) else { return Ok(()) };
    measured.figure("submissions_per_second_one_engine", once);
    measured.ratio("ring_once_over_ring_each_depth_64", once, each);
    match floor {
        Some(floor) => measured.ratio(THROUGHPUT, once, floor),
        None => measured.absent(THROUGHPUT, ONE_PROCESSOR),
    }
    match floor::cache_line_round_trip(samples)? {
        // Both in nanoseconds: how long a cache line's round trip takes, and a submission.
        Some(line) => measured.ratio(PER_CACHE_LINE, line.p50.max(1) as f64, 1e9 / once),
        None => measured.absent(PER_CACHE_LINE, ONE_PROCESSOR),
    }
    Ok(())
}
