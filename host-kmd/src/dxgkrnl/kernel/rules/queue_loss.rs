// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fault loses a queue: its doorbell is aborted, its held work is dropped, and its progress fence is permanently
//! signaled.
//!
//! Source: user-mode work submission, "Residency model of doorbell memory and ring buffer allocations"; native
//! GPU fence object, "AlwaysSignaled".

use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::queue::context::{Context, Suspension};
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueIdentity};
use crate::hardware::{Fault, HwQueueId, Reported};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::FromZeros;

impl Kernel {
    /// A queue faulted: aborts its doorbell and tells the guest. Other queues are not affected. Source: user-mode
    /// work submission, "Residency model of doorbell memory and ring buffer allocations", device-lost scenarios.
    pub(crate) fn hw_queue_fault(
        &mut self,
        id: HwQueueId,
        fault: Fault,
        effects: &mut Vec<Effect>,
    ) {
        // The queue may be gone by now.
        let Some(owner) = self.queues.get(&id).copied() else { return };
        if let Some(mut access) = self.access(owner.guest, owner.process, effects) {
            access.lose_queue(owner.handle, fault);
            let given_up = access.into_given_up();
            self.retire_given_up(owner.guest, given_up);
        }
    }
}

impl ProcessAccess<'_> {
    /// Suspends a context permanently, and puts all its queues in error.
    pub(crate) fn lose_context(&mut self, handle: Handle, fault: Fault) {
        if let Err(error) = self.suspend_context(handle, Suspension::ERROR) {
            tracing::error!(guest = self.guest_id.0, context = %handle, %error, "a context is missing");
        }
        let Ok(context) = self.get::<Context>(handle) else { return };
        for queue in context.hw_queues().clone() {
            self.lose_queue(queue, fault);
        }
    }

    /// Puts a queue in error: aborts its doorbell and tells the guest, once. Makes its progress fence permanently
    /// signaled, so that no CPU and no engine waits for it.
    ///
    /// Source: native GPU fence object, "AlwaysSignaled".
    pub(crate) fn lose_queue(&mut self, handle: Handle, fault: Fault) {
        let (guest, process) = (self.guest_id, self.process_id);
        let Ok(queue) = self.get_mut::<HwQueue>(handle) else { return };
        let QueueIdentity { id, context, progress_fence, .. } = queue.identity();
        let Some((in_flight, mut software)) = queue.lose() else { return };
        self.hardware.lose_hw_queue(id).reported();
        // Terminations no longer wait for this queue.
        self.work.wake(Rule::Terminations);
        self.abandon_software_queue(&mut software);
        self.submissions.forget(id);
        self.give_up_in_flight(in_flight);
        // The guest knows the queue of a node context by its context.
        let submits_to_node =
            self.get::<Context>(context).is_ok_and(|context| context.node_submission().is_some());
        let object = if submits_to_node { context } else { handle };
        // At level debug, because a guest can trigger this at will.
        tracing::debug!(parent: &queue_span(process, handle), guest = guest.0, ?fault, "HW queue lost");
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
