//! Interrupts: the driver's interrupt routine, and the DPC that handles what it reported.

use super::doorbell::DisconnectReason;
use super::guest::SlotOwner;
use super::hw_queue::HwQueue;
use super::kernel::Kernel;
use crate::hardware::{Fault, GuestId, HwQueueId, Interrupt};
use crate::port::Effect;
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::FromZeros;

impl Kernel {
    /// The hardware has interrupts.
    pub(super) fn interrupt(&mut self, effects: &mut Vec<Effect>) {
        self.miniport.interrupt_routine(&mut self.callbacks);
        for interrupt in self.callbacks.take_interrupts() {
            match interrupt {
                Interrupt::NativeFenceSignaled { guest, slot } => {
                    self.fence_signaled(guest, slot, effects);
                }
                Interrupt::NativeFencesSignaled => self.fences_signaled(effects),
                Interrupt::HwQueueFault { queue, fault } => {
                    self.hw_queue_fault(queue, fault, effects);
                }
                Interrupt::DoorbellRotated { queue, outcome } => {
                    self.doorbell_rotated(queue, outcome, effects);
                }
                // What this releases is released after every input.
                Interrupt::Quiesced => {}
            }
        }
    }

    /// A fence passed its MonitoredValue. It may be gone by now, or another may have its slot,
    /// which then is looked at for nothing.
    fn fence_signaled(&mut self, guest: GuestId, slot: u32, effects: &mut Vec<Effect>) {
        let owner = self.guests.get(&guest).and_then(|guest| guest.fences.get(&slot)).copied();
        if let Some(SlotOwner { process, fence }) = owner
            && let Some(mut scope) = self.scope(guest, process, effects)
            && let Err(error) = scope.satisfy_waits(fence, None)
        {
            tracing::error!(?guest, slot, %error, "a fence's slot names no fence");
        }
    }

    /// Some fence passed its MonitoredValue: scans all.
    fn fences_signaled(&mut self, effects: &mut Vec<Effect>) {
        let all: Vec<_> = self
            .guests
            .iter()
            .flat_map(|(id, guest)| guest.fences.keys().map(|slot| (*id, *slot)))
            .collect();
        for (guest, slot) in all {
            self.fence_signaled(guest, slot, effects);
        }
    }

    /// A queue made an error: its doorbell is aborted and the guest is told. Other queues go on.
    /// Source: user-mode work submission, "Residency model of doorbell memory and ring buffer
    /// allocations", device-lost scenarios.
    fn hw_queue_fault(&mut self, id: HwQueueId, fault: Fault, effects: &mut Vec<Effect>) {
        // A queue that was destroyed meanwhile is nobody's.
        let Some(owner) = self.queues.get(&id).copied() else { return };
        let Some(mut scope) = self.scope(owner.guest, owner.process, effects) else { return };
        let Ok(queue) = scope.get_mut::<HwQueue>(owner.handle) else { return };
        if std::mem::replace(&mut queue.in_error, true) {
            return;
        }
        let context = queue.context;
        // Debug only: a guest can do this as often as it likes.
        tracing::debug!(guest = owner.guest.0, hw_queue = %owner.handle, ?fault, "HW queue fault");
        scope.disconnect(id, DisconnectReason::Abort);
        scope.event(Event {
            kind: EventKind::HW_QUEUE_ERROR,
            process: owner.process,
            object: owner.handle.0,
            value: fault.address,
            cookie: fault.read_pointer,
            reason: fault.reason,
            opcode: fault.opcode,
            context: context.0,
            ..Event::new_zeroed()
        });
    }
}
