// SPDX-License-Identifier: MIT OR Apache-2.0

//! Many null command buffers, each with a buffer of its own, on one engine.

use super::floor::{MinimalPath, ONE_PROCESSOR};
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

/// The best rate of this discipline over that of the floor.
const THROUGHPUT: &str = "throughput_over_minimal_path";

/// When the doorbell is rung and when the fence is waited for.
struct Discipline {
    name: &'static str,
    batch: fn(&mut UserModeQueue, &mut [CommandBuffer]) -> Result<(), Error>,
}

const DISCIPLINES: [Discipline; 3] = [
    Discipline { name: "ring_and_wait_each", batch: ring_and_wait_each },
    Discipline { name: "ring_each_wait_last", batch: ring_each_wait_last },
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

pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let context = context(adapter, EngineType::THREE_D)?;
    for depth in DEPTHS {
        let mut batch = CommandBuffer::many(context.device(), COMMANDS, depth as usize)?;
        for commands in &mut batch {
            commands.nop()?;
        }
        let floor = MinimalPath::start()?.map(|mut path| path.rate(depth, samples));
        let name = format!("minimal_path_depth_{depth:02}_per_second");
        match floor {
            Some(floor) => measured.figure(name, floor),
            None => measured.absent(name, ONE_PROCESSOR),
        }
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
            if (name, depth) == (BEST, DEEPEST) {
                measured.figure("submissions_per_second_one_engine", rate);
                match floor {
                    Some(floor) => measured.ratio(THROUGHPUT, rate, floor),
                    None => measured.absent(THROUGHPUT, ONE_PROCESSOR),
                }
            }
        }
    }
    Ok(())
}
