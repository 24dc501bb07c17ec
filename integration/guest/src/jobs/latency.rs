// SPDX-License-Identifier: MIT OR Apache-2.0

//! The latency of the smallest submission, through a doorbell and through the control queue.

use crate::machine::{Disturbances, Watch};
use crate::timing::{Latency, WARM_UP, times};
use anyhow::bail;
use bellhop_guest_umd::{Adapter, CommandBuffer, DoorbellCounters};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The longest that a submission may take before something is wrong.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Kernel-mode submissions are fewer by this factor, since each takes longer.
const KERNEL_MODE_SHARE: u64 = 20;
/// Room for the smallest packet.
const COMMANDS: usize = 64;

pub(super) struct Timed {
    pub(super) submissions: u64,
    pub(super) doorbells: DoorbellCounters,
    pub(super) user_mode: Latency,
    /// Submissions through a doorbell that found the engine asleep.
    pub(super) notified: Option<Latency>,
    pub(super) kernel_mode: Latency,
    pub(super) kernel_mode_submissions: u64,
    pub(super) repetitions: Vec<Repetition>,
    pub(super) disturbances: Disturbances,
}

/// The medians of one repetition, measured right after each other.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Repetition {
    /// Nanoseconds through a doorbell.
    pub doorbell_ns_p50: u64,
    /// Submissions that found the engine asleep.
    pub notified: u64,
    /// Nanoseconds through the control queue.
    pub control_queue_ns_p50: u64,
}

impl Repetition {
    /// How many times as fast the doorbell is.
    #[must_use]
    pub fn speedup(&self) -> f64 {
        self.control_queue_ns_p50 as f64 / self.doorbell_ns_p50.max(1) as f64
    }
}

/// Times `samples` submissions through a doorbell, and fewer through the control queue, over all
/// repetitions.
pub(super) fn run(
    adapter: &Adapter,
    node: u32,
    samples: u64,
    repetitions: u64,
) -> anyhow::Result<Timed> {
    let device = adapter.create_device()?;
    let context = device.create_context(node)?;
    let mut buffers = CommandBuffer::many(&device, COMMANDS, 2)?;
    for commands in &mut buffers {
        commands.nop()?;
    }
    let [commands, kernel_mode_commands] = &mut buffers[..] else { bail!("buffers are missing") };
    let mut queue = context.create_user_mode_queue(64 << 10)?;
    let mut kernel_mode_queue = context.create_kernel_mode_queue()?;
    let mut by_doorbell = || {
        let value = queue.submit(commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        anyhow::Ok(queue.counters().notifies)
    };
    let samples = samples.div_ceil(repetitions);
    let kernel_mode_samples = samples.div_ceil(KERNEL_MODE_SHARE);
    let mut notifies = 0;
    for _ in 0..WARM_UP.min(samples) {
        notifies = by_doorbell()?;
    }

    let [mut all, mut asleep, mut control] = [times()?, times()?, times()?];
    let mut seen = Vec::new();
    let watch = Watch::begin();
    for _ in 0..repetitions {
        let (mut doorbells, notifies_before) = (times()?, notifies);
        for _ in 0..samples {
            let (time, after) = timed(&mut by_doorbell)?;
            if after != notifies {
                asleep.saturating_record(time);
            }
            notifies = after;
            doorbells.saturating_record(time);
        }
        let mut requests = times()?;
        for _ in 0..kernel_mode_samples {
            let by_request = || {
                let value = kernel_mode_queue.submit(kernel_mode_commands)?;
                anyhow::Ok(kernel_mode_queue.progress_fence().poll(value, TIMEOUT)?)
            };
            requests.saturating_record(timed(by_request)?.0);
        }
        seen.push(Repetition {
            doorbell_ns_p50: Latency::of(&doorbells).p50,
            notified: notifies - notifies_before,
            control_queue_ns_p50: Latency::of(&requests).p50,
        });
        all.add(doorbells)?;
        control.add(requests)?;
    }
    let disturbances = watch.end();
    Ok(Timed {
        kernel_mode_submissions: kernel_mode_queue.last_value(),
        submissions: queue.last_value(),
        doorbells: queue.counters(),
        user_mode: Latency::of(&all),
        notified: of_any(&asleep),
        kernel_mode: Latency::of(&control),
        repetitions: seen,
        disturbances,
    })
}

/// Times a call in nanoseconds, and returns its result.
fn timed<T>(mut act: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<(u64, T)> {
    let start = Instant::now();
    let result = act()?;
    Ok((start.elapsed().as_nanos() as u64, result))
}

fn of_any(times: &Histogram<u64>) -> Option<Latency> {
    (!times.is_empty()).then(|| Latency::of(times))
}
