// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several GPUs that the graphics kernel takes for one.
//!
//! Dxgkrnl asks the hardware itself about memory, fences, statuses of doorbells and tickets; what the drivers do goes
//! through the proxy. Each call goes to the GPU that has the node or the queue. The chain's GPUs share what belongs to a
//! guest and to no node: its memory and its fences. The master speaks for that.

mod by_id;
mod displays;
mod kernels;
mod mirrored;
mod video;

use super::display::Numbers;
use super::shared::Shared;
use crate::hardware::{GpuOrdinal, Hardware, HwQueueId, NodeDescription};
use std::sync::Arc;

/// The hardware of a chain of at least two GPUs.
///
/// The GPUs of a chain share guests: each has every guest under one id, with one BAR, one table of fences and one memory.
/// A ticket of one is a ticket of all.
pub struct LinkedHardware {
    /// By GPU ordinal. Never empty.
    gpus: Vec<Arc<dyn Hardware>>,
    /// The nodes of all GPUs, in the order of the chain.
    nodes: Vec<NodeDescription>,
    shared: Arc<Shared>,
}

impl LinkedHardware {
    /// The hardware of a chain of these GPUs, the master first.
    #[must_use]
    pub fn new(master: Arc<dyn Hardware>, slaves: Vec<Arc<dyn Hardware>>) -> Self {
        let gpus: Vec<_> = std::iter::once(master).chain(slaves).collect();
        let nodes = gpus.iter().flat_map(|gpu| gpu.nodes()).copied().collect();
        let displays: Vec<_> = gpus.iter().map(|gpu| gpu.display_caps()).collect();
        let shared = Arc::new(Shared::with_displays(Numbers::of(&displays)));
        Self { gpus, nodes, shared }
    }

    /// What the proxy and this know of the chain.
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn master(&self) -> &dyn Hardware {
        self.gpu(GpuOrdinal::MASTER)
    }

    /// A GPU. The master reports what no GPU has.
    fn gpu(&self, gpu: GpuOrdinal) -> &dyn Hardware {
        self.gpus.get(gpu.index()).unwrap_or(&self.gpus[0]).as_ref()
    }

    /// The GPU of a queue.
    fn of(&self, queue: HwQueueId) -> &dyn Hardware {
        self.gpu(queue.gpu())
    }

    /// The GPU that has a node, and the node's ordinal there. The master reports a node that no GPU has.
    fn node(&self, node: u32) -> (&dyn Hardware, u32) {
        let (gpu, own) = self.place(node);
        (self.gpu(gpu), own)
    }

    fn place(&self, node: u32) -> (GpuOrdinal, u32) {
        let mut own = node;
        for (gpu, hardware) in (0..).map(GpuOrdinal).zip(&self.gpus) {
            let nodes = u32::try_from(hardware.nodes().len()).unwrap_or(u32::MAX);
            if own < nodes {
                return (gpu, own);
            }
            own -= nodes;
        }
        (GpuOrdinal::MASTER, node)
    }

    /// Each GPU with its ordinal and its first node.
    fn each(&self) -> impl Iterator<Item = (GpuOrdinal, u32, &dyn Hardware)> {
        let mut first = 0;
        (0..).zip(&self.gpus).map(move |(ordinal, gpu)| {
            let first_node = first;
            first += u32::try_from(gpu.nodes().len()).unwrap_or(u32::MAX);
            (GpuOrdinal(ordinal), first_node, gpu.as_ref())
        })
    }

    /// The GPUs that have some of the queues, each with those.
    fn each_gpu<E>(
        &self,
        queues: &[HwQueueId],
        mut act: impl FnMut(&dyn Hardware, &[HwQueueId]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut outcome = Ok(());
        for (ordinal, _, gpu) in self.each() {
            let own: Vec<_> =
                queues.iter().copied().filter(|queue| queue.gpu() == ordinal).collect();
            if !own.is_empty() {
                outcome = outcome.and(act(gpu, &own));
            }
        }
        outcome
    }
}
