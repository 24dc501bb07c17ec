// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fault loses a queue; a hang loses a context, or all contexts on a GPU; what is done to a guest puts its devices in
//! error.
//!
//! Source: user-mode work submission, "Residency model of doorbell memory and ring buffer allocations"; native
//! GPU fence object, "AlwaysSignaled".

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::object::device::Failing;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::hardware::{Fault, GpuOrdinal, GuestId, HwQueueId};

impl Kernel {
    /// A queue faulted: aborts its doorbell and tells the guest. Other queues are not affected. Source: user-mode
    /// work submission, "Residency model of doorbell memory and ring buffer allocations", device-lost scenarios.
    pub(crate) fn hw_queue_fault(&mut self, id: HwQueueId, fault: Fault) {
        // The queue may be gone by now.
        let Some(owner) = self.queues.get(&id).copied() else { return };
        self.for_process(owner.guest, owner.process, |access| {
            access.lose_queue(owner.handle, fault);
        });
    }

    /// All guests lose their contexts on a GPU.
    pub(crate) fn lose_contexts_on(&mut self, gpu: GpuOrdinal, fault: Fault) {
        for guest in self.guests.keys().copied().collect::<Vec<_>>() {
            self.lose_contexts_of_guest_on(guest, gpu, fault);
        }
    }

    /// A guest loses its contexts on a GPU.
    pub(crate) fn lose_contexts_of_guest_on(
        &mut self,
        guest: GuestId,
        gpu: GpuOrdinal,
        fault: Fault,
    ) {
        let nodes = self.tdr.engines_of(gpu);
        self.each_context_of_guest(guest, |access, context| {
            if nodes.contains(&access.get::<Context>(context)?.node()) {
                access.lose_context(context, fault);
            }
            Ok(())
        });
    }

    /// Loses the context of a hung queue, with all its queues.
    pub(crate) fn lose_context_of(&mut self, queue: HwQueueId, fault: Fault) {
        let Some(owner) = self.queues.get(&queue).copied() else { return };
        self.for_process(owner.guest, owner.process, |access| {
            if let Ok(queue) = access.get::<HwQueue>(owner.handle) {
                access.lose_context(queue.context(), fault);
            }
        });
    }

    /// Puts all current devices of a guest in error.
    pub(crate) fn fail_guest(&mut self, guest: GuestId, fault: Fault) {
        let processes = self.guests.get(&guest).map(|guest| guest.processes.keys().copied());
        for process in processes.into_iter().flatten().collect::<Vec<_>>() {
            self.for_process(guest, process, |access| {
                access.fail_process(fault, Failing::WithItsGuest);
            });
        }
    }
}
