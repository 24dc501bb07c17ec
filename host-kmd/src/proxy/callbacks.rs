// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the proxy does for a driver: "KMD Driver thinks Proxy is the OS".

use super::shared::Shared;
use crate::ddi::{DxgkCallbacks, InvalidParameter};
use crate::hardware::{GpuOrdinal, HwQueueId, Interrupt};
use bellhop_protocol::doorbell::ConnectionStatus;

/// The graphics kernel's callbacks as the driver of one GPU sees them.
pub(super) struct ProxyCallbacks<'a> {
    /// The graphics kernel's.
    pub(super) kernel: &'a mut dyn DxgkCallbacks,
    /// The driver's GPU.
    pub(super) gpu: GpuOrdinal,
    /// The node that the graphics kernel takes the driver's first one for.
    pub(super) first_node: u32,
    /// What is known of the chain.
    pub(super) shared: &'a Shared,
}

impl DxgkCallbacks for ProxyCallbacks<'_> {
    fn disconnect_doorbell(
        &mut self,
        queue: HwQueueId,
        reason: ConnectionStatus,
    ) -> Result<(), InvalidParameter> {
        // The id names the GPU, too.
        self.kernel.disconnect_doorbell(queue, reason)
    }

    fn notify_interrupt(&mut self, interrupt: Interrupt) {
        if let Some(interrupt) = of_chain(interrupt, (self.gpu, self.first_node), self.shared) {
            self.kernel.notify_interrupt(interrupt);
        }
    }
}

/// An interrupt of one GPU as the chain's: its nodes, sources and connectors follow those of the GPUs before it. `None` if the chain has nothing
/// to report yet.
pub(super) fn of_chain(
    interrupt: Interrupt,
    (gpu, first_node): (GpuOrdinal, u32),
    shared: &Shared,
) -> Option<Interrupt> {
    Some(match interrupt {
        Interrupt::NativeFencesLogged { node, engine, queue } => {
            Interrupt::NativeFencesLogged { node: first_node + node, engine, queue }
        }
        Interrupt::DmaCompleted { node, engine, fence } => {
            Interrupt::DmaCompleted { node: first_node + node, engine, fence }
        }
        Interrupt::DmaPreempted { node, engine, preemption_fence, last_completed_fence } => {
            let node = first_node + node;
            Interrupt::DmaPreempted { node, engine, preemption_fence, last_completed_fence }
        }
        Interrupt::GpuEngineStateChange { node, new_state } => {
            Interrupt::GpuEngineStateChange { node: first_node + node, new_state }
        }
        Interrupt::EngineReset { node } => Interrupt::EngineReset { node: first_node + node },
        Interrupt::KernelCompiled { space, kernel, outcome } => {
            let (space, outcome) = shared.end_kernel(gpu, (space, kernel), outcome)?;
            Interrupt::KernelCompiled { space, kernel, outcome }
        }
        Interrupt::CrtcVsync { guest, source, target, flip, count, time } => {
            let displays = shared.displays();
            let source = displays.sources.of_chain(gpu, source);
            let target = displays.children.of_chain(gpu, target);
            Interrupt::CrtcVsync { guest, source, target, flip, count, time }
        }
        Interrupt::Flipped { guest, source, flip, count, time } => {
            let source = shared.displays().sources.of_chain(gpu, source);
            Interrupt::Flipped { guest, source, flip, count, time }
        }
        Interrupt::DisplayInput { guest, source, kind, value } => {
            let source = shared.displays().sources.of_chain(gpu, source);
            Interrupt::DisplayInput { guest, source, kind, value }
        }
        Interrupt::ChildStatusChanged { guest, child } => {
            let child = shared.displays().children.of_chain(gpu, child);
            Interrupt::ChildStatusChanged { guest, child }
        }
        Interrupt::DisplayQuiesced { guest, ticket } => {
            let ticket = shared.pass_ticket(guest, gpu, ticket)?;
            Interrupt::DisplayQuiesced { guest, ticket }
        }
        other => other,
    })
}
