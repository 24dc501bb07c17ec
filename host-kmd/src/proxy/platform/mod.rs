// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several GPUs that the graphics kernel takes for one.
//!
//! Dxgkrnl asks the platform itself about memory, fences, statuses of doorbells and tickets; what the drivers do goes
//! through the proxy. Each call goes to the GPU that has the node or the queue. The chain's GPUs share what belongs to a
//! guest and to no node: its memory and its fences. The master speaks for that.

mod accessed;
mod by_id;
mod kernels;
mod video;

use super::Proxy;
use super::shared::Shared;
use crate::hardware::{GpuOrdinal, HwQueueId, NodeDescription, Platform};
use std::sync::Arc;

/// The platform of a chain of at least two GPUs.
///
/// The GPUs of a chain share guests: each has every guest under one id, with one BAR, one table of fences and one memory.
/// A ticket of one is a ticket of all.
pub struct LinkedPlatform {
    /// By GPU ordinal. Never empty.
    gpus: Vec<Arc<dyn Platform>>,
    /// The nodes of all GPUs, in the order of the chain.
    nodes: Vec<NodeDescription>,
    shared: Arc<Shared>,
}

impl LinkedPlatform {
    /// The platform of a chain of these GPUs, the master first, behind the proxy of their drivers.
    #[must_use]
    pub fn new(master: Arc<dyn Platform>, slaves: Vec<Arc<dyn Platform>>, proxy: &Proxy) -> Self {
        let gpus: Vec<_> = std::iter::once(master).chain(slaves).collect();
        let nodes = gpus.iter().flat_map(|gpu| gpu.nodes()).copied().collect();
        Self { gpus, nodes, shared: Arc::clone(&proxy.shared) }
    }

    fn master(&self) -> &dyn Platform {
        self.gpu(GpuOrdinal::MASTER)
    }

    /// A GPU. The master reports what no GPU has.
    fn gpu(&self, gpu: GpuOrdinal) -> &dyn Platform {
        self.gpus.get(gpu.index()).unwrap_or(&self.gpus[0]).as_ref()
    }

    /// The GPU of a queue.
    fn of(&self, queue: HwQueueId) -> &dyn Platform {
        self.gpu(queue.gpu())
    }

    /// The GPU that has a node, and the node's ordinal there. The master reports a node that no GPU has.
    fn node(&self, node: u32) -> (&dyn Platform, u32) {
        let (gpu, own) = self.place(node);
        (self.gpu(gpu), own)
    }

    fn place(&self, node: u32) -> (GpuOrdinal, u32) {
        let mut own = node;
        for (gpu, platform) in (0..).map(GpuOrdinal).zip(&self.gpus) {
            let nodes = u32::try_from(platform.nodes().len()).unwrap_or(u32::MAX);
            if own < nodes {
                return (gpu, own);
            }
            own -= nodes;
        }
        (GpuOrdinal::MASTER, node)
    }

    /// Each GPU with its ordinal and its first node.
    fn each(&self) -> impl Iterator<Item = (GpuOrdinal, u32, &dyn Platform)> {
        let mut first = 0;
        (0..).zip(&self.gpus).map(move |(ordinal, gpu)| {
            let first_node = first;
            first += u32::try_from(gpu.nodes().len()).unwrap_or(u32::MAX);
            (GpuOrdinal(ordinal), first_node, gpu.as_ref())
        })
    }
}
