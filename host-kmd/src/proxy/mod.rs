// SPDX-License-Identifier: MIT OR Apache-2.0

//! The proxy: a driver that holds the drivers of the GPUs of a chain.
//!
//! ```text
//!   dxgkrnl ──Miniport──► Proxy ──Miniport──► BellhopMiniport of the master ──► its GPU
//!           ◄─DxgkCallbacks─  ◄─DxgkCallbacks─ of each slave ───────────────► its GPU
//!      └────Platform──────► LinkedPlatform ──────────────────────────────────► all of them
//! ```
//!
//! "OS thinks Proxy is the KMD driver. KMD Driver thinks Proxy is the OS." The graphics kernel sees one adapter with the
//! nodes of all GPUs, in the order of the chain. The proxy dispatches each DDI call to the drivers that it concerns:
//!
//! | call about | goes to |
//! |---|---|
//! | a node | the driver of the GPU that has the node |
//! | a queue or its doorbell | the driver of the GPU in the queue's id |
//! | a process, a system context, page tables | all drivers: page tables are mirrored |
//! | displays | the driver of the GPU that has the source or the connector (`display`) |
//! | fences, paging buffers | the master's driver: the chain's GPUs share a guest's fences, and the master's copy engine pages |
//!
//! What the graphics kernel asks the platform itself goes through [`LinkedPlatform`], which dispatches alike. In a chain
//! of one the proxy passes through, and the kernel has the GPU's own [`Platform`](crate::hardware::Platform).
//!
//! Source: Windows KMD overview, "MGPU" and "Base driver multi-GPU architecture".

mod callbacks;
mod display;
mod miniport;
mod platform;
mod shared;
#[cfg(test)]
mod tests;

use crate::ddi::Miniport;
use crate::ddi::display::DisplayDdi;
use crate::hardware::{GpuOrdinal, HwQueueId};
use display::Numbers;
pub use platform::LinkedPlatform;
use shared::Shared;
use std::sync::Arc;

/// The driver of one GPU, and the nodes that the graphics kernel knows it by.
struct Driver {
    miniport: Box<dyn Miniport>,
    first_node: u32,
    nodes: u32,
}

/// The proxy of a chain.
pub struct Proxy {
    /// By GPU ordinal; the first is the master's. Never empty.
    drivers: Vec<Driver>,
    shared: Arc<Shared>,
}

impl Proxy {
    /// The proxy of a chain of these drivers, the master's first. That of one driver passes through.
    #[must_use]
    pub fn new(master: Box<dyn Miniport>, slaves: Vec<Box<dyn Miniport>>) -> Self {
        let mut first_node = 0;
        let drivers = std::iter::once(master).chain(slaves).map(|miniport| {
            let nodes = miniport.node_count();
            let driver = Driver { miniport, first_node, nodes };
            first_node += nodes;
            driver
        });
        let drivers: Vec<_> = drivers.collect();
        let displays = drivers.iter().map(|driver| driver.miniport.display());
        let caps: Vec<_> = displays
            .map(|display| display.map(DisplayDdi::query_child_relations).unwrap_or_default())
            .collect();
        Self { drivers, shared: Arc::new(Shared::with_displays(Numbers::of(&caps))) }
    }

    /// The driver of the master.
    fn master(&self) -> &dyn Miniport {
        self.driver(GpuOrdinal::MASTER)
    }

    fn master_mut(&mut self) -> &mut dyn Miniport {
        self.driver_mut(GpuOrdinal::MASTER)
    }

    /// The driver of a GPU. An ordinal that the chain does not have can only be in the id of a queue that no GPU has: the
    /// master's driver finds it unknown.
    fn driver(&self, gpu: GpuOrdinal) -> &dyn Miniport {
        self.drivers[self.place(gpu)].miniport.as_ref()
    }

    fn driver_mut(&mut self, gpu: GpuOrdinal) -> &mut dyn Miniport {
        let place = self.place(gpu);
        self.drivers[place].miniport.as_mut()
    }

    fn place(&self, gpu: GpuOrdinal) -> usize {
        if gpu.index() < self.drivers.len() { gpu.index() } else { 0 }
    }

    /// The GPU that has a node, and the node's ordinal there. `None` if no GPU has it.
    fn node(&self, node: u32) -> Option<(GpuOrdinal, u32)> {
        let of =
            |driver: &Driver| node.checked_sub(driver.first_node).filter(|n| *n < driver.nodes);
        let mut drivers = (0..).zip(&self.drivers);
        drivers.find_map(|(gpu, driver)| Some((GpuOrdinal(gpu), of(driver)?)))
    }

    /// Calls `act` with the driver of each GPU that has some of the queues, and with those.
    fn each_gpu<E>(
        &mut self,
        queues: &[HwQueueId],
        mut act: impl FnMut(&mut dyn Miniport, &[HwQueueId]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(first) = queues.first() else { return Ok(()) };
        // The queues of a context are on one node.
        if queues.iter().all(|queue| queue.gpu() == first.gpu()) {
            return act(self.driver_mut(first.gpu()), queues);
        }
        let mut outcome = Ok(());
        for gpu in (0..self.drivers.len() as u8).map(GpuOrdinal) {
            let own: Vec<_> = queues.iter().copied().filter(|queue| queue.gpu() == gpu).collect();
            if !own.is_empty() {
                outcome = outcome.and(act(self.driver_mut(gpu), &own));
            }
        }
        outcome
    }
}
