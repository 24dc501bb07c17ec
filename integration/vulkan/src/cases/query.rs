// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queries: timestamps.

use crate::case::{Case, case};
use crate::lab::{Failure, Gpu, Lab, Outcome, Queue, module, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "query.timestamps",
        "timestamps grow with the work between them, and their unit is a real one",
        timestamps,
    ),
    case(
        "query.not-ready",
        "a query that was reset has no result until a command stores one",
        not_ready,
    ),
    case("query.reset", "a query that is reset is used again", reset),
    case("query.copied", "results are copied into a buffer, with their availability", copied),
];

/// A queue with timestamps.
fn queue(gpu: &Gpu<'_>) -> Outcome<Queue> {
    let queue = gpu.queue()?;
    match queue.timestamp_bits {
        0 => Err(Failure::not_offered("timestamps")),
        36..=64 => Ok(queue),
        bits => Err(Failure::seen(format!("a timestamp has {bits} bits"))),
    }
}

fn timestamps(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let queue = queue(&gpu)?;
    let unit = lab.description().properties.limits.timestamp_period;
    require!(unit > 0.0, "a timestamp's unit is {unit} ns");
    let kernel = gpu.simple(module!("long"), 1, 4)?;
    let set = gpu.set(&kernel, &[gpu.buffer(1)?])?;
    let pool = gpu.timestamps(3)?;
    let start = std::time::Instant::now();
    let commands = gpu.record(queue, |commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[10_000_000]);
        commands.timestamp(pool, 0).barrier().dispatch(1, 1, 1).barrier();
        commands.timestamp(pool, 1).timestamp(pool, 2);
    })?;
    gpu.finish(queue, &[commands])?;
    let elapsed = start.elapsed().as_nanos() as f64;
    let results = gpu.results(pool, 3, true)?;
    require!(results.is_sorted(), "{results:?}");
    let between =
        (results.get(1).copied().unwrap_or(0) - results.first().copied().unwrap_or(0)) as f64;
    // Ten million steps that depend on each other take a millisecond at least.
    let between = between * f64::from(unit);
    require!((1e6..=elapsed * 1.01).contains(&between), "{between} ns of {elapsed} ns");
    Ok(())
}

fn not_ready(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    queue(&gpu)?;
    let pool = gpu.timestamps(2)?;
    same!(gpu.results(pool, 2, false), Err(vk::Result::NOT_READY));
    gpu.run(|commands| {
        commands.timestamp(pool, 0);
    })?;
    same!(gpu.results(pool, 2, false), Err(vk::Result::NOT_READY));
    require!(gpu.results(pool, 1, false).is_ok(), "the one that was stored is not ready");
    Ok(())
}

fn reset(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    queue(&gpu)?;
    let pool = gpu.timestamps(1)?;
    let mut last = 0;
    for round in 0..10 {
        gpu.run(|commands| {
            if round % 2 == 0 {
                commands.reset_queries(pool, 0, 1);
            }
            commands.timestamp(pool, 0);
        })?;
        let result = gpu.results(pool, 1, true)?.first().copied().unwrap_or(0);
        require!(result > last, "{result} after {last}");
        last = result;
        gpu.reset_timestamps(pool, 1)?;
        same!(gpu.results(pool, 1, false), Err(vk::Result::NOT_READY));
    }
    Ok(())
}

fn copied(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    queue(&gpu)?;
    let pool = gpu.timestamps(2)?;
    let results = gpu.buffer(8)?;
    gpu.run(|commands| {
        commands.timestamp(pool, 0).timestamp(pool, 1).barrier();
        commands.copy_results(pool, 2, &results).barrier();
    })?;
    let words = results.read();
    let long = |at: usize| {
        u64::from(words.get(at).copied().unwrap_or(0))
            | u64::from(words.get(at + 1).copied().unwrap_or(0)) << 32
    };
    same!([long(0), long(4)].to_vec(), gpu.results(pool, 2, true)?);
    require!(long(2) != 0 && long(6) != 0, "a result is not available: {words:?}");
    Ok(())
}
