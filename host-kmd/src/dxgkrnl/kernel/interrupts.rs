// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts: the driver's interrupt routine (ISR) takes them off the hardware and names them; the DPC acts on them.
//! The ISR decides nothing, and the DPC never asks the hardware what happened.
//!
//! Source: Windows KMD overview, "Interrupt".

use crate::dxgkrnl::display::flip::FlipId;
use crate::dxgkrnl::display::source::Shown;
use crate::dxgkrnl::fence::scan::Scan;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::rules::connect::doorbell_rotated;
use crate::hardware::{EngineState, GlobalFence, Interrupt};

impl Kernel {
    /// The interrupt line was asserted.
    pub(crate) fn interrupt(&mut self) {
        if self.miniport.interrupt_routine(&mut self.callbacks) {
            self.dpc();
        }
    }

    /// Acts on the interrupts that the interrupt routine reported, in their order.
    fn dpc(&mut self) {
        for interrupt in self.callbacks.take_interrupts() {
            match interrupt {
                Interrupt::NativeFenceSignaled { signaled, evaluate_legacy_monitored_fences } => {
                    let scan = Scan {
                        native: signaled.is_empty(),
                        monitored: evaluate_legacy_monitored_fences,
                    };
                    self.fences_signaled(signaled, scan);
                }
                Interrupt::MonitoredFenceSignaled { signaled } => {
                    self.fences_signaled(signaled, Scan::default());
                }
                Interrupt::NativeFencesLogged { node, queue, .. } => {
                    self.fences_logged(node, queue);
                }
                Interrupt::GoneQueueLogged { guest } => {
                    let concerned =
                        self.guests.get(&guest).map(|guest| guest.fences.concerned(Scan::ALL));
                    let slots = concerned.unwrap_or_default().into_iter();
                    let signaled = slots.map(|slot| GlobalFence { guest, slot }).collect();
                    self.fences_signaled(signaled, Scan::default());
                }
                Interrupt::DmaCompleted { fence, .. } => {
                    // `None` if the queue is gone.
                    if let Some(queue) = self.submissions.complete(fence) {
                        self.dma_completed(queue, fence);
                    }
                }
                Interrupt::DmaPreempted { node, preemption_fence, .. } => {
                    self.dma_preempted(node, preemption_fence);
                }
                Interrupt::PageFault { queue, fault }
                | Interrupt::HwQueueFault { queue, fault } => {
                    self.hw_queue_fault(queue, fault);
                }
                Interrupt::DoorbellRotated { queue, outcome } => {
                    let Self { callbacks, miniport, queues, .. } = self;
                    doorbell_rotated(callbacks, miniport.as_mut(), queues, (queue, outcome));
                }
                Interrupt::GpuEngineStateChange { node, new_state } => match new_state {
                    EngineState::Active { transition } => {
                        self.power.refused(node, transition);
                    }
                    EngineState::TransitionToF1 => self.power_down_engine(node),
                    EngineState::Hung { queue, fault } => {
                        self.makes_no_progress(node, queue, fault);
                    }
                },
                // The work list resumes what waits for paging.
                Interrupt::PagingFaulted { guest, fence, fault } => {
                    tracing::error!(guest = guest.0, fence, ?fault, "a paging buffer failed");
                    if let Some(guest) = self.guests.get_mut(&guest) {
                        guest.paging.fail(fence);
                    }
                }
                Interrupt::PagingCompleted { guest, fence } => {
                    if let Some(guest) = self.guests.get_mut(&guest) {
                        guest.paging.complete(fence);
                    }
                }
                Interrupt::EngineReset { node } => self.engine_was_reset(node),
                Interrupt::CrtcVsync { guest, source, target, flip, count, time } => {
                    let shown = Shown { flip: FlipId(flip), count, time };
                    self.crtc_vsync(guest, (source, target), shown);
                }
                Interrupt::Flipped { guest, source, flip, count, time } => {
                    let shown = Shown { flip: FlipId(flip), count, time };
                    self.flip_shown(guest, source, shown);
                }
                Interrupt::ChildStatusChanged { guest, child } => {
                    self.child_status_changed(guest, child);
                }
                Interrupt::DisplayInput { guest, source, kind, value } => {
                    self.display_input(guest, source, (kind, value));
                }
                Interrupt::DisplayQuiesced { guest, ticket } => {
                    self.display_quiesced(guest, ticket);
                }
                // The work list checks the tickets after every input.
                Interrupt::Quiesced => {}
                Interrupt::KernelCompiled { space, kernel, outcome } => {
                    self.kernel_compiled(space, kernel, outcome);
                }
            }
        }
    }
}
