// SPDX-License-Identifier: MIT OR Apache-2.0

//! One doorbell, alone and beside many that are connected and idle.

use super::report::Measured;
use super::set_up::{TIMEOUT, context, null_commands};
use crate::timing::{Latency, time};
use anyhow::bail;
use bellhop_guest_umd::{Adapter, CommandBuffer, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;

/// Doorbells that no queue rings.
const IDLE: u32 = 1024;

pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let physical = adapter.user_mode_submission_caps()?.physical_doorbells;
    if physical <= IDLE {
        bail!(
            "{IDLE} idle doorbells need {} physical ones, and there are {physical}: raise \
             adapter.physical_doorbells, and guest.doorbells with it, or choose other suites",
            IDLE + 1
        );
    }
    let context = context(adapter, EngineType::THREE_D)?;
    let mut commands = null_commands(context.device())?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let alone = round_trip(&mut queue, &mut commands, samples)?;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        let mut queue = context.create_user_mode_queue(4096)?;
        // The first ring connects it.
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)?;
        idle.push(queue);
    }
    let beside = round_trip(&mut queue, &mut commands, samples)?;
    measured.figure("doorbell_rtt_1_ns_p50", alone.p50 as f64);
    measured.figure("doorbell_rtt_beside_1024_idle_ns_p50", beside.p50 as f64);
    let (alone, beside) = (alone.p50.max(1) as f64, beside.p50 as f64);
    measured.ratio("doorbell_rtt_1024_idle_over_1", beside, alone);
    Ok(())
}

fn round_trip(
    queue: &mut UserModeQueue,
    commands: &mut CommandBuffer,
    samples: u64,
) -> anyhow::Result<Latency> {
    time(samples, || {
        let value = queue.submit(commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })
}
