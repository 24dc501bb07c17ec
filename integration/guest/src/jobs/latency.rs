//! How long the smallest submission takes, through a doorbell and through the control queue.

use crate::timing::{Latency, time};
use bellhop_guest_umd::{Adapter, CommandBuffer, DoorbellCounters};
use std::time::Duration;

/// The longest that one may take before something is wrong.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Kernel-mode submissions are that much fewer: each takes that much longer.
const KERNEL_MODE_SHARE: u64 = 20;
/// Room for the smallest packet.
const COMMANDS: usize = 64;

pub(super) struct Timed {
    pub(super) submissions: u64,
    pub(super) doorbells: DoorbellCounters,
    pub(super) user_mode: Latency,
    pub(super) kernel_mode: Latency,
    pub(super) kernel_mode_submissions: u64,
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
