// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program behind a guest's broker measures, beside programs without one on the same daemon.
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

/// How often the programs take turns in a repetition, so that what else the machine does concerns all.
const TURNS: u64 = 4;

/// Programs that are measured.
pub const PROGRAMS: usize = 3;

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

/// Measures two programs without a broker, each alone in its guest, and one behind a broker, in turns. How much the first two
/// differ is the noise.
///
/// # Errors
/// When a device cannot be used.
pub fn run(
    programs: [&Adapter; PROGRAMS],
    samples: u64,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let mut contexts = Vec::new();
    for adapter in programs {
        contexts.push((adapter, context(adapter, EngineType::THREE_D)?));
    }
    let mut seen = [const { Vec::new() }; PROGRAMS];
    for _ in 0..TURNS {
        for (seen, (adapter, context)) in seen.iter_mut().zip(&contexts) {
            seen.push(look(adapter, context, samples.div_ceil(TURNS))?);
        }
    }
    let mut put = |figure: &str, ratio: &str, of: fn(&Seen) -> f64| {
        let [without, another, behind] = seen.each_ref().map(|seen| {
            let mut values: Vec<_> = seen.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        });
        measured.figure(format!("without_broker_{figure}"), without);
        measured.figure(format!("behind_broker_{figure}"), behind);
        measured.ratio(format!("{ratio}_another_without_broker_over_without"), another, without);
        measured.ratio(format!("{ratio}_behind_broker_over_without"), behind, without);
    };
    put("doorbell_rtt_ns_p50", "doorbell_rtt", |of| of.round_trip as f64);
    put("blocked_wait_ns_p50", "blocked_wait", |of| of.blocked as f64);
    put("request_ns_p50", "request", |of| of.request as f64);
    put("ring_once_kept_fed_submissions_per_second", "throughput", |of| of.rates[0]);
    put("ring_each_kept_fed_submissions_per_second", "ring_each_throughput", |of| of.rates[1]);
    Ok(())
}
