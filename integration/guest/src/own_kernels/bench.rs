// SPDX-License-Identifier: MIT OR Apache-2.0

//! What one dispatch needs: a queue of the compute node, and memory.

use anyhow::Context as _;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{
    Adapter, Arguments, CommandBuffer, Device, GpuMapping, Kernel, PlacementPolicy, UserModeQueue,
};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::kernel::unpadded;
use bellhop_protocol::features::Features;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a dispatch may take before the guest gives up. The device ends one that hangs long before.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A process with a queue for kernels.
pub(super) struct Bench {
    // Dropped in this order.
    queue: UserModeQueue,
    pub(super) device: Device,
    adapter: Adapter,
}

impl Bench {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        placement: PlacementPolicy,
    ) -> anyhow::Result<Self> {
        let adapter =
            Adapter::open_with(transport, placement).context("cannot open the adapter")?;
        anyhow::ensure!(
            adapter.features().contains(Features::USER_MODE_SUBMISSION),
            "user-mode submission was not negotiated, so there are no doorbells"
        );
        let node = adapter.least_used_node(EngineType::THREE_D);
        let node = node.context("there is no compute node")?;
        let device = adapter.create_device()?;
        let queue = device.create_context(node)?.create_user_mode_queue(4096)?;
        Ok(Self { queue, device, adapter })
    }

    /// The name of the Vulkan device that runs the kernels.
    pub(super) fn device_name(&self) -> anyhow::Result<String> {
        Ok(unpadded(&self.adapter.kernel_caps()?.device).to_owned())
    }

    /// Memory of the guest's own that kernels reach, with these bytes in it and zeroes behind them.
    pub(super) fn memory(&self, bytes: &[u8]) -> anyhow::Result<GpuMapping> {
        let size = (bytes.len().max(1) as u64).next_multiple_of(PAGE_SIZE);
        let no_room = || format!("the guest has no memory for a buffer of {} bytes", bytes.len());
        let memory =
            self.device.create_allocation(AllocationKind::SYSTEM, size).with_context(no_room)?;
        memory.write(0, bytes)?;
        Ok(memory.map(Protection::WRITE)?)
    }

    /// Runs a kernel once, and returns how long it took from the doorbell to the fence.
    pub(super) fn run(
        &mut self,
        kernel: &Kernel,
        groups: [u32; 3],
        arguments: &Arguments,
    ) -> anyhow::Result<Duration> {
        let mut commands = CommandBuffer::new(&self.device, 4096)?;
        commands.dispatch_kernel(kernel, groups, arguments)?;
        let start = Instant::now();
        let submitted = self.queue.submit(&mut commands);
        let done = submitted.and_then(|value| self.queue.progress_fence().wait(value, TIMEOUT));
        let elapsed = start.elapsed();
        done.map_err(|error| commands.blame(error))?;
        Ok(elapsed)
    }
}
