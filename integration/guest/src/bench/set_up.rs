// SPDX-License-Identifier: MIT OR Apache-2.0

//! Objects that every suite needs first.

use crate::timing::{Latency, time};
use anyhow::Context as _;
use bellhop_guest_umd::{Adapter, CommandBuffer, Context, Device};
use bellhop_protocol::control::adapter::EngineType;
use std::time::Duration;

/// How long an operation may take before the suite fails.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Room for the smallest command buffer.
pub(super) const COMMANDS: usize = 64;

/// A context on the least used node of a type, on a new device.
pub(super) fn context(adapter: &Adapter, engine_type: EngineType) -> anyhow::Result<Context> {
    let node = adapter.least_used_node(engine_type);
    let node = node.with_context(|| format!("cannot find a node of type {engine_type}"))?;
    Ok(adapter.create_device()?.create_context(node)?)
}

/// The times of one null command buffer at a time, through a doorbell and in kernel mode.
pub(super) fn one_at_a_time(
    context: &Context,
    samples: u64,
    kernel_mode_samples: u64,
) -> anyhow::Result<[Latency; 2]> {
    let mut commands = null_commands(context.device())?;
    let mut queue = context.create_user_mode_queue(4096)?;
    let doorbell = time(samples, || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;
    let mut queue = context.create_kernel_mode_queue()?;
    let kernel_mode = time(kernel_mode_samples, || {
        let value = queue.submit(&mut commands)?;
        queue.progress_fence().poll(value, TIMEOUT)
    })?;
    Ok([doorbell, kernel_mode])
}

/// A command buffer that does nothing.
pub(super) fn null_commands(device: &Device) -> Result<CommandBuffer, bellhop_guest_umd::Error> {
    let mut commands = CommandBuffer::new(device, COMMANDS)?;
    commands.nop()?;
    Ok(commands)
}
