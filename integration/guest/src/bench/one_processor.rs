// SPDX-License-Identifier: MIT OR Apache-2.0

//! One null command buffer at a time, where the guest and the whole daemon share one processor.

use super::report::Measured;
use super::rivals::{self, Beside};
use super::round_trip::KERNEL_SHARE;
use super::set_up::{context, one_at_a_time};
use crate::timing::Latency;
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::adapter::EngineType;

/// The daemon may use only the processor that this thread is on.
pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let samples = samples.div_ceil(KERNEL_SHARE);
    let context = context(adapter, EngineType::THREE_D)?;
    let [doorbell, kernel_mode] = one_at_a_time(&context, samples, samples)?;
    let eventfd = rivals::eventfd_ping_pong(samples, Beside::Here)?;
    let mut put = |name: &str, Latency { p50, p99, .. }: &Latency| {
        measured.figure(format!("one_processor_{name}_ns_p50"), *p50 as f64);
        measured.figure(format!("one_processor_{name}_ns_p99"), *p99 as f64);
    };
    put("rtt", &doorbell);
    put("kernel_mode_rtt", &kernel_mode);
    put("eventfd_rtt", &eventfd);
    let mut compare = |name: &str, other: &Latency| {
        measured.ratio(name, doorbell.p50.max(1) as f64, other.p50.max(1) as f64);
    };
    compare("one_processor_rtt_over_eventfd_rtt", &eventfd);
    compare("one_processor_rtt_over_kernel_mode_path", &kernel_mode);
    Ok(())
}
