// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program behind a guest's broker measures, beside a program without one on the same daemon.
//!
//! Rings, doorbells and fences are loads and stores for both. Requests and events pass the broker.

use super::batch;
use super::fence;
use super::report::Measured;
use super::round_trip::KERNEL_SHARE;
use super::set_up::{TIMEOUT, context, null_commands};
use crate::timing::{Latency, time};
use bellhop_guest_umd::{Adapter, Context};
use bellhop_protocol::control::adapter::EngineType;

/// How often the two programs take turns in a repetition, so that what else the machine does concerns both.
const TURNS: u64 = 4;

/// The programs, in the names of figures.
const PROGRAMS: [&str; 2] = ["without_broker", "behind_broker"];

/// What one program measured.
#[derive(Debug)]
struct Seen {
    /// A null command buffer, from submission to fence.
    round_trip: u64,
    /// From a submission to the wake-up of a thread that waits for it, blocked, by an engine that is awake.
    blocked: u64,
    /// The cheapest request.
    request: u64,
    /// Submissions a second, kept fed and rung for once and each.
    rates: [f64; 2],
}

fn look(adapter: &Adapter, context: &Context, samples: u64) -> anyhow::Result<Seen> {
    let slow_samples = samples.div_ceil(KERNEL_SHARE);
    let mut commands = null_commands(context.device())?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let median = |times: Latency| times.p50.max(1);
    let round_trip = time(samples, || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;
    let blocked = fence::blocked_waits(context, |queue| fence::keep_awake(queue, &mut commands))?;
    let request = time(slow_samples, || adapter.power(context.node()).map(drop))?;
    let [round_trip, blocked, request] = [round_trip, blocked, request].map(median);
    Ok(Seen { round_trip, blocked, request, rates: batch::kept_fed(context, samples)? })
}

/// Measures a program without a broker and one behind it, in turns.
///
/// # Errors
/// When a device cannot be used.
pub fn run(programs: [&Adapter; 2], samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let [without, behind] = programs;
    let contexts = [without, behind].map(|adapter| context(adapter, EngineType::THREE_D));
    let [of_without, of_behind] = contexts;
    let programs = [(without, of_without?), (behind, of_behind?)];
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (seen, (adapter, context)) in seen.iter_mut().zip(&programs) {
            seen.push(look(adapter, context, samples.div_ceil(TURNS))?);
        }
    }
    let mut put = |name: &str, ratio: &str, of: fn(&Seen) -> f64| {
        let [without, behind] = [0, 1].map(|program: usize| {
            let mut values: Vec<_> = seen[program].iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            let median = values[values.len() / 2];
            measured.figure(format!("{}_{name}", PROGRAMS[program]), median);
            median
        });
        measured.ratio(ratio, behind, without);
    };
    put("doorbell_rtt_ns_p50", "doorbell_rtt_behind_broker_over_without", |of| {
        of.round_trip as f64
    });
    put("blocked_wait_ns_p50", "blocked_wait_behind_broker_over_without", |of| of.blocked as f64);
    put("request_ns_p50", "request_behind_broker_over_without", |of| of.request as f64);
    put(
        "ring_once_kept_fed_submissions_per_second",
        "throughput_behind_broker_over_without",
        |of| of.rates[0],
    );
    put(
        "ring_each_kept_fed_submissions_per_second",
        "ring_each_throughput_behind_broker_over_without",
        |of| of.rates[1],
    );
    Ok(())
}
