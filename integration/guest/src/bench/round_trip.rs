//! One null command buffer at a time.

use super::report::Report;
use super::{TIMEOUT, floor, node};
use crate::timing::{Latency, time};
use bellhop_guest_umd::{Adapter, CommandBuffer};
use bellhop_protocol::control::adapter::EngineType;

/// Round trips through the control queue are that much fewer: each takes that much longer.
const KERNEL_MODE_SHARE: u64 = 20;

pub(super) fn run(adapter: &Adapter, samples: u64, report: &mut Report) -> anyhow::Result<()> {
    let device = adapter.create_device()?;
    let context = device.create_context(node(adapter, EngineType::THREE_D)?)?;
    let mut commands = CommandBuffer::new(&device, 64)?;
    commands.nop()?;

    let mut queue = context.create_user_mode_queue(4096)?;
    let doorbell = time(samples, || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;
    let mut queue = context.create_kernel_mode_queue()?;
    let kernel_mode = time(samples.div_ceil(KERNEL_MODE_SHARE), || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;
    let cache_line = floor::cache_line_round_trip(samples)?;

    let mut put = |name: &str, latency: &Latency| {
        report.figure(format!("{name}_ns_p50"), latency.p50 as f64);
        report.figure(format!("{name}_ns_p99"), latency.p99 as f64);
    };
    put("doorbell_rtt", &doorbell);
    put("kernel_mode_rtt", &kernel_mode);
    put("cacheline_rtt", &cache_line);
    let median = |latency: &Latency| latency.p50.max(1) as f64;
    let doorbell = median(&doorbell);
    report.ratio("doorbell_rtt_over_cacheline_rtt", doorbell, median(&cache_line));
    report.ratio("doorbell_rtt_over_kernel_mode_path", doorbell, median(&kernel_mode));
    Ok(())
}
