// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process that works on all GPUs of a chain.

use super::tunnel::Tunnel;
use anyhow::Context as _;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, Device, GpuMapping, PlacementPolicy};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::allocation::{AllocationKind, SegmentSet};
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::features::Features;
use std::sync::Arc;

/// A process that works on all GPUs of a chain.
pub(super) struct Chain {
    // Dropped in this order.
    pub(super) device: Device,
    pub(super) adapter: Adapter,
    /// How many GPUs there are: two at least.
    pub(super) gpus: u8,
}

impl Chain {
    pub(super) fn open(
        transport: Arc<dyn Transport>,
        placement: PlacementPolicy,
    ) -> anyhow::Result<Self> {
        let adapter =
            Adapter::open_with(transport, placement).context("cannot open the adapter")?;
        anyhow::ensure!(
            adapter.features().contains(Features::USER_MODE_SUBMISSION),
            "user-mode submission was not negotiated, so there are no doorbells"
        );
        let gpus = adapter.gpus()?;
        anyhow::ensure!(
            gpus > 1,
            "the adapter has one GPU: its host links several by [link.NAME] in bellhopd's configuration, such as \
             adapters = [\"\", \"second\"]"
        );
        let device = adapter.create_device()?;
        Ok(Self { device, adapter, gpus })
    }

    /// Memory that all GPUs and the processor reach, with zeroes.
    pub(super) fn shared_memory(&self, size: u64) -> anyhow::Result<GpuMapping> {
        let size = size.max(1).next_multiple_of(PAGE_SIZE);
        let no_room = || format!("the guest has no memory for {size} bytes");
        let memory = self.device.create_allocation(AllocationKind::SYSTEM, size);
        Ok(memory.with_context(no_room)?.map(Protection::WRITE)?)
    }

    /// The textures of a tunnel, which all GPUs reach.
    pub(super) fn textures(&self) -> anyhow::Result<GpuMapping> {
        let bytes = Tunnel::textures();
        let textures = self.shared_memory(bytes.len() as u64)?;
        textures.allocation().write(0, &bytes)?;
        Ok(textures)
    }

    /// Local memory of a GPU, or the host's, if that has none.
    pub(super) fn local_memory(&self, gpu: u8, size: u64) -> anyhow::Result<GpuMapping> {
        let size = size.max(1).next_multiple_of(PAGE_SIZE);
        let builder = self.device.allocation(size).on_gpu(gpu);
        let builder = builder.segments(SegmentSet::PRIVATE | SegmentSet::SYSTEM);
        let memory = builder.preferred(SegmentSet::PRIVATE).create()?;
        memory.make_resident().with_context(|| format!("GPU {gpu} has no {size} bytes"))?;
        Ok(memory.map(Protection::WRITE)?)
    }
}
