//! Interrupts: the driver's interrupt routine (ISR) takes them off the hardware and says what they are;
//! the DPC acts. Nothing is decided in the ISR, and the DPC never asks the hardware what happened.
//!
//! Source: Windows KMD overview, "Interrupt".

use super::context::{Context, Suspension};
use super::doorbell::DisconnectReason;
use super::fence_storage::FenceKind;
use super::guest::Guest;
use super::hw_queue::HwQueue;
use super::kernel::Kernel;
use super::native_fence::GlobalFence as GlobalFenceObject;
use super::scope::Scope;
use crate::hardware::{EngineState, Fault, GlobalFence, GuestId, HwQueueId, Interrupt};
use crate::port::{CrossFenceId, Effect};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use std::collections::BTreeMap;
use zerocopy::FromZeros;

/// The fault of contexts whose memory is lost.
pub(super) fn lost_memory() -> Fault {
    Fault { reason: FaultReason::DEVICE_IN_ERROR, opcode: Opcode::NOP, address: 0, read_pointer: 0 }
}

/// Which waiters are scanned though no fence is named. "By default, [...] Dxgkrnl only scans all pending
/// native fence waiters and doesn't scan legacy monitored fence waiters."
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scan {
    native: bool,
    monitored: bool,
}

impl Scan {
    /// Fences of either kind.
    pub(super) const ALL: Self = Self { native: true, monitored: true };

    /// Whether it is about a fence.
    pub(super) fn includes(self, fence: &GlobalFenceObject) -> bool {
        match fence.kind {
            FenceKind::Native(_) => self.native,
            FenceKind::Monitored => self.monitored,
        }
    }
}

impl Kernel {
    /// The interrupt line was asserted.
    pub(super) fn interrupt(&mut self, effects: &mut Vec<Effect>) {
        if self.miniport.interrupt_routine(&mut self.callbacks) {
            self.dpc(effects);
        }
    }

    /// Acts on what the interrupt routine reported, in that order.
    fn dpc(&mut self, effects: &mut Vec<Effect>) {
        for interrupt in self.callbacks.take_interrupts() {
            match interrupt {
                Interrupt::NativeFenceSignaled { signaled, evaluate_legacy_monitored_fences } => {
                    let scan = Scan {
                        native: signaled.is_empty(),
                        monitored: evaluate_legacy_monitored_fences,
                    };
                    self.fences_signaled(signaled, scan, effects);
                }
                Interrupt::MonitoredFenceSignaled { signaled } => {
                    self.fences_signaled(signaled, Scan::default(), effects);
                }
                Interrupt::NativeFencesLogged { node, queue, .. } => {
                    self.fences_logged(node, queue, effects);
                }
                Interrupt::GoneQueueLogged { guest } => {
                    let concerned =
                        self.guests.get(&guest).map(|guest| guest.fences.concerned(Scan::ALL));
                    let slots = concerned.unwrap_or_default().into_iter();
                    let signaled = slots.map(|slot| GlobalFence { guest, slot }).collect();
                    self.fences_signaled(signaled, Scan::default(), effects);
                }
                Interrupt::DmaCompleted { fence, .. } => {
                    // None when its queue went meanwhile.
                    if let Some(queue) = self.submissions.complete(fence) {
                        self.dma_completed(queue, fence, effects);
                    }
                }
                Interrupt::DmaPreempted { node, preemption_fence, .. } => {
                    self.dma_preempted(node, preemption_fence, effects);
                }
                Interrupt::PageFault { queue, fault }
                | Interrupt::HwQueueFault { queue, fault } => {
                    self.hw_queue_fault(queue, fault, effects);
                }
                Interrupt::DoorbellRotated { queue, outcome } => {
                    self.doorbell_rotated(queue, outcome, effects);
                }
                Interrupt::GpuEngineStateChange { node, new_state } => match new_state {
                    EngineState::Active { transition } => {
                        self.power.refused(node, transition);
                    }
                    EngineState::TransitionToF1 => self.power_down_engine(node, effects),
                    EngineState::Hung { queue, fault } => {
                        self.makes_no_progress(node, queue, fault);
                    }
                },
                // What waits for paging goes on after every input.
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
                Interrupt::EngineReset { node } => self.engine_was_reset(node, effects),
                // What this releases is released after every input.
                Interrupt::Quiesced => {}
            }
        }
    }

    /// Fences passed their MonitoredValues: these, and any of those that are to be scanned. A fence may be
    /// gone by now, or another may have its slot, which then is looked at for nothing.
    pub(super) fn fences_signaled(
        &mut self,
        signaled: Vec<GlobalFence>,
        scan: Scan,
        effects: &mut Vec<Effect>,
    ) {
        let mut fences: BTreeMap<_, Vec<_>> = BTreeMap::new();
        if scan.native || scan.monitored {
            let concerned = |guest: &Guest| guest.fences.concerned(scan);
            fences.extend(self.guests.iter().map(|(id, guest)| (*id, concerned(guest))));
        }
        for GlobalFence { guest, slot } in signaled {
            fences.entry(guest).or_default().push(slot);
        }
        for (guest, fences) in fences {
            let Some(mut scope) = self.scope(guest, 0, effects) else { continue };
            for fence in &fences {
                scope.tell_other_guests(*fence, false);
            }
            if let Err(error) = scope.satisfy_waits(fences, None) {
                tracing::error!(guest = guest.0, %error, "a fence is missing");
            }
            if !scope.guest.fences.has_optimized_interrupt() {
                scope.read_some_logs();
            }
        }
    }

    /// Another guest's view of a fence was signaled. The guest may have closed its own meanwhile. A queue may
    /// wait for it, which needs power to go on.
    pub(super) fn cross_adapter_signal(
        &mut self,
        guest: GuestId,
        fence: CrossFenceId,
        always: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut scope) = self.scope(guest, 0, effects) else { return };
        let Some(slot) = scope.guest.fences.views.get(&fence).copied() else { return };
        if let Err(error) = scope.notify_fence(slot, always) {
            tracing::error!(guest = guest.0, %error, "a fence is missing");
        }
        self.ensure_power(effects);
        self.watch_engines();
    }

    /// A queue made an error: its doorbell is aborted and the guest is told. Other queues go on.
    /// Source: user-mode work submission, "Residency model of doorbell memory and ring buffer
    /// allocations", device-lost scenarios.
    fn hw_queue_fault(&mut self, id: HwQueueId, fault: Fault, effects: &mut Vec<Effect>) {
        // A queue that was destroyed meanwhile is nobody's.
        let Some(owner) = self.queues.get(&id).copied() else { return };
        if let Some(mut scope) = self.scope(owner.guest, owner.process, effects) {
            scope.lose_queue(owner.handle, fault);
            let given_up = scope.given_up;
            self.retire_given_up(owner.guest, given_up);
        }
    }
}

impl Scope<'_> {
    /// Nothing more of a context is executed, and all its queues are in error.
    pub(super) fn lose_context(&mut self, handle: Handle, fault: Fault) {
        if let Err(error) = self.suspend_context(handle, Suspension::ERROR) {
            tracing::error!(guest = self.guest_id.0, context = %handle, %error, "a context is missing");
        }
        let Ok(context) = self.get::<Context>(handle) else { return };
        for queue in context.hw_queues.clone() {
            self.lose_queue(queue, fault);
        }
    }

    /// A queue is in error: its doorbell is aborted and the guest is told, once. Its progress fence is always
    /// signaled, so that nobody waits for it, on a CPU or on the GPU.
    ///
    /// Source: native GPU fence object, "AlwaysSignaled".
    pub(super) fn lose_queue(&mut self, handle: Handle, fault: Fault) {
        let (guest, process) = (self.guest_id, self.process_id);
        let Ok(queue) = self.get_mut::<HwQueue>(handle) else { return };
        if std::mem::replace(&mut queue.in_error, true) {
            return;
        }
        let (id, context, progress_fence) = (queue.id, queue.context, queue.progress_fence);
        let in_flight = std::mem::take(&mut queue.in_flight);
        let mut software = std::mem::take(&mut queue.software);
        self.abandon_software_queue(&mut software);
        self.submissions.forget(id);
        self.give_up_in_flight(in_flight);
        // What the guest knows it by.
        let object = match self.get::<Context>(context) {
            Ok(Context { node_submission: Some(_), .. }) => context,
            _ => handle,
        };
        // Debug only: a guest can do this as often as it likes.
        tracing::debug!(guest = guest.0, hw_queue = %handle, ?fault, "HW queue in error");
        self.disconnect(id, DisconnectReason::Abort);
        self.event(Event {
            kind: EventKind::HW_QUEUE_ERROR,
            process,
            object: object.0,
            value: fault.address,
            cookie: fault.read_pointer,
            reason: fault.reason,
            opcode: fault.opcode,
            context: context.0,
            ..Event::new_zeroed()
        });
        self.signal_always(progress_fence);
    }
}
