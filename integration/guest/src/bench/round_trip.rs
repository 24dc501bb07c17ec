//! One null command buffer at a time.

use super::floor::{self, MinimalPath};
use super::report::Measured;
use super::{TIMEOUT, context, null_commands, rivals};
use crate::timing::{Latency, time};
use bellhop_guest_umd::Adapter;
use bellhop_protocol::control::adapter::EngineType;

/// What goes through a kernel is measured that much less: each takes that much longer.
const KERNEL_SHARE: u64 = 20;

pub(super) fn run(adapter: &Adapter, samples: u64, measured: &mut Measured) -> anyhow::Result<()> {
    let slow_samples = samples.div_ceil(KERNEL_SHARE);
    let cache_line = floor::cache_line_round_trip(samples)?;
    let minimal = MinimalPath::start()?.round_trip(samples)?;

    let context = context(adapter, EngineType::THREE_D)?;
    let mut commands = null_commands(context.device())?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let doorbell = time(samples, || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;
    let mut queue = context.create_kernel_mode_queue()?;
    let kernel_mode = time(slow_samples, || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;
    // A request that needs nothing but an answer.
    let virtqueue = time(slow_samples, || adapter.power(context.node()).map(drop))?;
    let eventfd = rivals::eventfd_ping_pong(slow_samples)?;
    let io_uring = rivals::io_uring_nop(samples)?;

    let mut put = |name: &str, latency: &Latency| {
        measured.figure(format!("{name}_ns_p50"), latency.p50 as f64);
        measured.figure(format!("{name}_ns_p99"), latency.p99 as f64);
        measured.figure(format!("{name}_ns_p99.9"), latency.p99_9 as f64);
    };
    put("cacheline_rtt", &cache_line);
    put("minimal_path_rtt", &minimal);
    put("doorbell_rtt", &doorbell);
    put("kernel_mode_rtt", &kernel_mode);
    put("virtqueue_rtt", &virtqueue);
    put("eventfd_rtt", &eventfd);
    if let Some(io_uring) = &io_uring {
        put("io_uring_sqpoll_nop", io_uring);
    }
    let mut compare = |name: &str, rival: &Latency| {
        let over = format!("doorbell_rtt_over_{name}");
        measured.ratio(over, doorbell.p50.max(1) as f64, rival.p50.max(1) as f64);
    };
    compare("cacheline_rtt", &cache_line);
    compare("minimal_path", &minimal);
    compare("kernel_mode_path", &kernel_mode);
    compare("virtqueue_rtt", &virtqueue);
    compare("eventfd_rtt", &eventfd);
    if let Some(io_uring) = &io_uring {
        compare("io_uring_sqpoll_nop", io_uring);
    }
    Ok(())
}
