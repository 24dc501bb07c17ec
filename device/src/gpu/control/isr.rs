// SPDX-License-Identifier: MIT OR Apache-2.0

//! The interrupt routine: translates what engines raised into the host's interrupts.

use crate::gpu::Gpu;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::interrupt::{Raised, cause};
use crate::gpu::shared::paging::PagingFault;
use bellhop_host_kmd::hardware::{EngineState, GlobalFence, Interrupt};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Gpu {
    /// See [`Interrupts::take_interrupts`](bellhop_host_kmd::hardware::Interrupts::take_interrupts).
    pub(super) fn collect_interrupts(&self) -> Vec<Interrupt> {
        let mut registry = self.registry();
        let (mut taken, mut signaled, mut monitored) = (Vec::new(), Vec::new(), Vec::new());
        let (mut logged, mut gone) = (Vec::new(), BTreeSet::new());
        let fault_of = |queue: &Arc<HwQueue>| {
            let (fault, queue) = (queue.report_fault()?, queue.id);
            Some(match fault.reason {
                reason if reason.is_page_fault() => Interrupt::PageFault { queue, fault },
                _ => Interrupt::HwQueueFault { queue, fault },
            })
        };
        let completion_of = |queue: &Arc<HwQueue>| {
            let fence = queue.report_completion()?;
            Some(Interrupt::DmaCompleted {
                node: self.chip.node_of(queue.engine),
                engine: 0,
                fence,
            })
        };
        let preemption_of = |queue: &Arc<HwQueue>| {
            let preemption_fence = queue.preemption.report()?;
            let node = self.chip.node_of(queue.engine);
            let last_completed_fence = queue.last_completed();
            let engine = 0;
            Some(Interrupt::DmaPreempted { node, engine, preemption_fence, last_completed_fence })
        };
        let scans = self.chip.interrupts.take(|raised| match raised {
            Raised::Fence { guest, slot } => {
                let partition = registry.guests.get(&guest);
                if let Some(fence) = partition.and_then(|guest| guest.fence(slot)) {
                    fence.interrupt.take();
                    if fence.is_native {
                        signaled.push(GlobalFence { guest, slot })
                    } else {
                        monitored.push(GlobalFence { guest, slot })
                    }
                }
            }
            Raised::Logged { guest, queue } => match registry.queues.get(&queue) {
                Some(known) => {
                    known.logged.take();
                    let (node, engine, queue) = (self.chip.node_of(known.engine), 0, Some(queue));
                    logged.push(Interrupt::NativeFencesLogged { node, engine, queue });
                }
                // Its log is destroyed with it. A guest with several such queues is reported once.
                None => {
                    gone.insert(guest);
                }
            },
            Raised::Fault(queue) => {
                taken.extend(registry.queues.get(&queue).and_then(fault_of));
            }
            Raised::Hung(queue, fault) => {
                taken.extend(registry.queues.get(&queue).map(|known| {
                    let new_state = EngineState::Hung { queue, fault };
                    Interrupt::GpuEngineStateChange {
                        node: self.chip.node_of(known.engine),
                        new_state,
                    }
                }));
            }
            Raised::Completed(queue) => {
                taken.extend(registry.queues.get(&queue).and_then(completion_of));
            }
            Raised::Preempted(queue) => {
                taken.extend(registry.queues.get(&queue).and_then(preemption_of));
            }
        });
        if scans.has(cause::FAULTS) {
            taken.extend(registry.queues.values().filter_map(fault_of));
        }
        if scans.has(cause::QUEUES) {
            taken.extend(registry.queues.values().filter_map(completion_of));
            taken.extend(registry.queues.values().filter_map(preemption_of));
        }
        if !monitored.is_empty() {
            taken.insert(0, Interrupt::MonitoredFenceSignaled { signaled: monitored });
        }
        if scans.has(cause::FENCES) {
            // Some fences did not fit into the queue, and their kinds are unknown.
            signaled.clear();
        }
        let scanned = (0u32..).zip(&self.nodes);
        let scanned = scanned.filter(|(node, _)| scans.logs & 1 << self.chip.engine_of(*node) != 0);
        logged.extend(scanned.map(|(node, _)| {
            let (engine, queue) = (0, None);
            Interrupt::NativeFencesLogged { node, engine, queue }
        }));
        logged.extend(gone.into_iter().map(|guest| Interrupt::GoneQueueLogged { guest }));
        // Before the faults of queues that signaled them.
        taken.splice(0..0, logged);
        if scans.has(cause::FENCES) || !signaled.is_empty() {
            let interrupt = Interrupt::NativeFenceSignaled {
                signaled,
                evaluate_legacy_monitored_fences: scans.has(cause::FENCES),
            };
            taken.insert(0, interrupt);
        }
        if scans.has(cause::PAGING) {
            registry.unpark();
            for (guest, partition) in &registry.guests {
                let (guest, report) = (*guest, partition.paging().report());
                let failed =
                    |PagingFault { fence, fault }| Interrupt::PagingFaulted { guest, fence, fault };
                taken.extend(report.faults.into_iter().map(failed));
                let completed = report.completed;
                taken.extend(completed.map(|fence| Interrupt::PagingCompleted { guest, fence }));
            }
        }
        if scans.has(cause::ROTATED) {
            let rotations = registry.guests.values().filter_map(|guest| guest.rotation());
            let reports = rotations.flat_map(|rotation| rotation.take_reports());
            taken.extend(
                reports.map(|(queue, outcome)| Interrupt::DoorbellRotated { queue, outcome }),
            );
        }
        if scans.has(cause::KERNELS)
            && let Some(kernels) = &self.kernels
        {
            taken.extend(kernels.take_interrupts());
        }
        if scans.has(cause::DISPLAY) {
            taken.extend(self.displays.take_interrupts());
        }
        if scans.has(cause::ENGINE_STATES) {
            for (port, node) in self.chip.own_engines().iter().zip(0..) {
                taken.extend(port.take_states(node));
            }
        }
        if scans.has(cause::QUIESCED) {
            taken.push(Interrupt::Quiesced);
        }
        taken
    }
}
