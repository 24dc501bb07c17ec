// SPDX-License-Identifier: MIT OR Apache-2.0

//! Endless work that keeps every kind of object in use.
//!
//! Shows what happens to these objects when the guest is reset, rebooted or killed.

use crate::guest::Guest;
use anyhow::Context as _;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{
    Adapter, CommandBuffer, Context, Fence, GpuMapping, PlacementPolicy, UserModeQueue,
};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use std::sync::Arc;
use std::time::Duration;

/// Queues on each node.
const QUEUES: usize = 3;
/// Bytes that each submission copies.
const COPIED: u64 = 64 << 10;
/// Submissions to a queue before the guest waits for the last of them.
const DEPTH: u64 = 4;
/// How long a submission may take before the work fails.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A guest's work on one queue.
struct Lane {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: Vec<CommandBuffer>,
    source: GpuMapping,
    target: GpuMapping,
    _context: Context,
}

/// The objects in use.
pub struct Churn {
    lanes: Vec<Lane>,
    _fences: Vec<Fence>,
    _adapter: Adapter,
}

impl Churn {
    /// Takes queues on every node, memory of both kinds and fences.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn new(guest: &Arc<dyn Guest>, placement: PlacementPolicy) -> anyhow::Result<Self> {
        let transport: Arc<dyn Transport> = Arc::clone(guest) as _;
        let adapter =
            Adapter::open_with(transport, placement).context("cannot open the adapter")?;
        let device = adapter.create_device()?;
        let mut lanes = Vec::new();
        for node in (0..).take(adapter.nodes()?.len()) {
            for _ in 0..QUEUES {
                let context = device.create_context(node)?;
                let map = |kind| device.create_allocation(kind, COPIED)?.map(Protection::WRITE);
                let (source, target) = (map(AllocationKind::SYSTEM)?, map(AllocationKind::LOCAL)?);
                let mut commands = Vec::new();
                for _ in 0..DEPTH {
                    let mut buffer = CommandBuffer::new(&device, 256)?;
                    buffer.copy(source.gpu_va(), target.gpu_va(), COPIED)?;
                    commands.push(buffer);
                }
                let queue = context.create_user_mode_queue(4096)?;
                lanes.push(Lane { queue, commands, source, target, _context: context });
            }
        }
        let fences = (0..16).map(|_| device.create_fence(0)).collect::<Result<_, _>>()?;
        Ok(Self { lanes, _fences: fences, _adapter: adapter })
    }

    /// Submits to every queue, and waits for the submissions of the call before.
    ///
    /// # Errors
    /// When a queue is lost, or a submission does not end.
    pub fn round(&mut self) -> anyhow::Result<()> {
        for lane in &mut self.lanes {
            let before = lane.queue.last_value();
            lane.queue.progress_fence().poll(before, TIMEOUT)?;
            for commands in &mut lane.commands {
                commands.reset();
                let (source, target) = (lane.source.gpu_va(), lane.target.gpu_va());
                commands.copy(source, target, COPIED)?;
                lane.queue.submit(commands)?;
            }
        }
        Ok(())
    }
}
