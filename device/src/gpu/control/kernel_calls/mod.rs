// SPDX-License-Identifier: MIT OR Apache-2.0

//! The registers: the control plane's operations on the GPU, one file per subject of
//! [`Gpu`](bellhop_host_kmd::hardware::Gpu) and [`Platform`](bellhop_host_kmd::hardware::Platform).

mod display;
mod doorbells;
mod engines;
mod fences;
mod kernels;
mod memory;
mod page_tables;
mod process_bars;
mod queues;
mod video;

use crate::gpu::Gpu;
use crate::gpu::memory::page_table::AddressSpace;
use crate::gpu::shared::chip::EnginePort;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use bellhop_host_kmd::hardware::{
    Adapter, AddressSpaceId, Chain, DoorbellModel, DriverCaps, GuestId, HwQueueId, Interrupt,
    Interrupts, NodeDescription, UnknownId,
};
use bellhop_protocol::control::security::SecurityCaps;
use std::sync::Arc;

impl Gpu {
    pub(super) fn guest(&self, guest: GuestId) -> Result<Arc<Partition>, UnknownId> {
        self.registry().guests.get(&guest).cloned().ok_or(UnknownId::Guest(guest))
    }

    pub(super) fn queue(&self, queue: HwQueueId) -> Result<Arc<HwQueue>, UnknownId> {
        self.registry().queues.get(&queue).cloned().ok_or(UnknownId::HwQueue(queue))
    }

    pub(super) fn engine(&self, node: u32) -> Result<&EnginePort, UnknownId> {
        self.chip.own_engines().get(node as usize).ok_or(UnknownId::Node(node))
    }

    fn space(&self, space: AddressSpaceId) -> Result<Arc<AddressSpace>, UnknownId> {
        let registry = self.registry();
        let found = registry.spaces.get(&space).map(|(_, space)| Arc::clone(space));
        found.ok_or(UnknownId::AddressSpace(space))
    }

    /// Calls `act` for each existing queue of the list.
    fn each_queue(
        &self,
        queues: &[HwQueueId],
        act: impl Fn(&Arc<HwQueue>),
    ) -> Result<(), UnknownId> {
        each(queues, |queue| {
            act(&self.queue(*queue)?);
            Ok(())
        })
    }

    fn kick_queue(&self, queue: &Arc<HwQueue>) {
        if let Some(port) = self.chip.engines.get(queue.engine as usize) {
            port.kick(queue);
        }
    }
}

/// Calls `act` for every item, and returns the first error afterwards.
fn each<T>(items: &[T], mut act: impl FnMut(&T) -> Result<(), UnknownId>) -> Result<(), UnknownId> {
    let mut outcome = Ok(());
    for item in items {
        outcome = outcome.and(act(item));
    }
    outcome
}

impl Adapter for Gpu {
    fn nodes(&self) -> &[NodeDescription] {
        &self.nodes
    }

    fn doorbell_model(&self) -> DoorbellModel {
        self.doorbell_model
    }

    fn physical_doorbells(&self) -> u32 {
        self.physical_doorbells
    }
}

impl DriverCaps for Gpu {
    fn optimized_fence_interrupt(&self) -> bool {
        self.chip.optimized_fence_interrupt
    }
}

impl Chain for Gpu {
    fn security_caps(&self) -> SecurityCaps {
        self.security.as_ref().map(|security| security.caps()).unwrap_or_default()
    }
}

impl Interrupts for Gpu {
    fn take_interrupts(&self) -> Vec<Interrupt> {
        self.collect_interrupts()
    }
}
