//! How long the smallest submission takes, through a doorbell and through the control queue.

use bellhop_guest_umd::{Adapter, CommandBuffer, DoorbellCounters, Error};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The longest that one may take before something is wrong.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Kernel-mode submissions are that much fewer: each takes that much longer.
const KERNEL_MODE_SHARE: u64 = 20;
/// Submissions before the first that is timed.
const WARM_UP: u64 = 200;
/// Room for the smallest packet.
const COMMANDS: usize = 64;

/// Percentiles of a time, in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// How many were timed.
    pub samples: u64,
    /// Half took at most this.
    pub p50: u64,
    /// Nine of ten.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p99_9: u64,
    /// All of them.
    pub max: u64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            samples: histogram.len(),
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p99_9: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

pub(super) struct Timed {
    pub(super) submissions: u64,
    pub(super) doorbells: DoorbellCounters,
    pub(super) user_mode: Latency,
    pub(super) kernel_mode: Latency,
    pub(super) kernel_mode_submissions: u64,
}

/// Times `count` calls after a warm-up.
fn time(count: u64, mut submit: impl FnMut() -> Result<(), Error>) -> anyhow::Result<Latency> {
    for _ in 0..WARM_UP.min(count) {
        submit()?;
    }
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    for _ in 0..count {
        let start = Instant::now();
        submit()?;
        histogram.saturating_record(start.elapsed().as_nanos() as u64);
    }
    Ok(Latency::of(&histogram))
}

pub(super) fn run(adapter: &Adapter, node: u32, samples: u64) -> anyhow::Result<Timed> {
    let device = adapter.create_device()?;
    let context = device.create_context(node)?;
    let mut commands = CommandBuffer::new(&device, COMMANDS)?;
    commands.nop()?;

    let mut queue = context.create_user_mode_queue(64 << 10)?;
    let user_mode = time(samples, || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;

    let mut kernel_mode_queue = context.create_kernel_mode_queue()?;
    let kernel_mode = time(samples.div_ceil(KERNEL_MODE_SHARE), || {
        let value = kernel_mode_queue.submit(&mut commands)?;
        kernel_mode_queue.progress_fence().poll(value, TIMEOUT)
    })?;
    let kernel_mode_submissions = kernel_mode_queue.last_value();
    Ok(Timed {
        kernel_mode_submissions,
        submissions: queue.last_value(),
        doorbells: queue.counters(),
        user_mode,
        kernel_mode,
    })
}
