// SPDX-License-Identifier: MIT OR Apache-2.0

//! What every suite needs first.

use anyhow::Context as _;
use bellhop_guest_umd::{Adapter, CommandBuffer, Context, Device};
use bellhop_protocol::control::adapter::EngineType;
use std::time::Duration;

/// How long a thing may take before something is wrong.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Room for the smallest command buffer.
pub(super) const COMMANDS: usize = 64;

/// A context on the first node of a type, on a device of its own.
pub(super) fn context(adapter: &Adapter, engine_type: EngineType) -> anyhow::Result<Context> {
    let nodes = adapter.nodes().context("cannot query the nodes")?;
    let found = (0u32..).zip(&nodes).find(|(_, node)| node.engine_type == engine_type);
    let node = found.map(|(ordinal, _)| ordinal);
    let node = node.with_context(|| format!("there is no {engine_type} node"))?;
    Ok(adapter.create_device()?.create_context(node)?)
}

/// A command buffer that does nothing.
pub(super) fn null_commands(device: &Device) -> Result<CommandBuffer, bellhop_guest_umd::Error> {
    let mut commands = CommandBuffer::new(device, COMMANDS)?;
    commands.nop()?;
    Ok(commands)
}
