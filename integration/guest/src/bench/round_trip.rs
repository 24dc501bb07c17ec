// SPDX-License-Identifier: MIT OR Apache-2.0

//! One null command buffer at a time.

use super::floor::{self, MinimalPath, ONE_PROCESSOR, Shape};
use super::report::Measured;
use super::rivals::{self, Beside};
use super::set_up::{context, one_at_a_time};
use crate::timing::{Latency, time};
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::adapter::EngineType;

/// Operations that go through a kernel are fewer by this factor, since each takes longer.
pub(super) const KERNEL_SHARE: u64 = 20;

/// The latency of another mechanism, or why it is not known.
type Rival = Result<Latency, &'static str>;

/// Another program's latency, or the reason that there is none.
fn rival(latency: Option<Latency>, why_not: &'static str) -> Rival {
    latency.ok_or(why_not)
}

/// The minimal path in each of these shapes; none on one processor.
fn minimal_paths(
    shapes: impl Iterator<Item = Shape>,
    samples: u64,
) -> anyhow::Result<Vec<(Shape, Latency)>> {
    let mut times = Vec::new();
    for shape in shapes {
        let Some(mut path) = MinimalPath::start(shape)? else { break };
        times.push((shape, path.round_trip(samples)?));
    }
    Ok(times)
}

pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let slow_samples = samples.div_ceil(KERNEL_SHARE);
    let cache_line = rival(floor::cache_line_round_trip(samples)?, ONE_PROCESSOR);
    let checked = minimal_paths(Shape::checked_of_depth(1), samples)?;
    let minimal_paths = minimal_paths(Shape::of_depth(1), samples)?;

    let context = context(adapter, EngineType::THREE_D)?;
    let [doorbell, kernel_mode] = one_at_a_time(&context, samples, slow_samples)?;
    // The cheapest request.
    let virtqueue = time(slow_samples, || adapter.power(context.node()).map(drop))?;
    let eventfd = rivals::eventfd_ping_pong(slow_samples, Beside::Apart)?;
    let io_uring = rivals::io_uring_nop(samples)?;

    let medians = minimal_paths.iter().map(|(shape, times)| (shape.to_string(), times.p50 as f64));
    measured.best_shape("minimal_path_rtt_ns_p50", medians);
    let [minimal, checked] = [minimal_paths, checked].map(|paths| {
        let best = paths.into_iter().map(|(_, times)| times).min_by_key(|times| times.p50);
        rival(best, ONE_PROCESSOR)
    });
    let mut put = |name: &str, rival: &Rival| {
        if let Ok(times) = rival {
            measured.distribution(name, times);
        }
        let percentiles = rival.as_ref().map(|times| [times.p50, times.p99, times.p99_9]);
        for (place, percentile) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            let name = format!("{name}_ns_{percentile}");
            match percentiles {
                Ok(percentiles) => measured.figure(name, percentiles[place] as f64),
                Err(why) => measured.absent(name, *why),
            }
        }
    };
    put("doorbell_rtt", &Ok(doorbell.clone()));
    put("cacheline_rtt", &cache_line);
    put("minimal_path_rtt", &minimal);
    put("checked_path_rtt", &checked);
    put("io_uring_sqpoll_nop", &io_uring);
    let others = [kernel_mode, virtqueue, eventfd].map(Ok);
    for (name, rival) in ["kernel_mode_rtt", "virtqueue_rtt", "eventfd_rtt"].iter().zip(&others) {
        put(name, rival);
    }
    let mut compare = |name: &str, rival: &Rival| {
        let over = format!("doorbell_rtt_over_{name}");
        match rival {
            Ok(times) => {
                measured.ratio(over, doorbell.p50.max(1) as f64, times.p50.max(1) as f64);
            }
            Err(why) => measured.absent(over, *why),
        }
    };
    compare("cacheline_rtt", &cache_line);
    compare("minimal_path", &minimal);
    compare("checked_path", &checked);
    let names = ["kernel_mode_path", "virtqueue_rtt", "eventfd_rtt"];
    names.iter().zip(&others).for_each(|(name, rival)| compare(name, rival));
    compare("io_uring_sqpoll_nop", &io_uring);
    Ok(())
}
