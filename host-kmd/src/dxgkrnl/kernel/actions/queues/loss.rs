// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues, contexts and devices in error: a queue's doorbell is aborted, its held work is dropped, and its progress
//! fence is permanently signaled; so are the fences that a device created.
//!
//! Source: user-mode work submission, "Residency model of doorbell memory and ring buffer allocations"; native
//! GPU fence object, "AlwaysSignaled".

use crate::dxgkrnl::doorbell::state::DisconnectReason;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::queues::doorbells::disconnect;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::device::{Device, Failing};
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::queue::context::{Context, Suspension};
use crate::dxgkrnl::queue::hw_queue::{HeldWork, HwQueue, QueueIdentity};
use crate::hardware::{Fault, Reported};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::FromZeros;

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
        self.platform.lose_hw_queue(id).reported();
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
        disconnect(self.callbacks, self.miniport, id, DisconnectReason::Abort);
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

    /// Drops the held work of a queue that is lost or destroyed.
    pub(crate) fn abandon_software_queue(&mut self, software: &mut HeldWork) {
        self.guest.quotas.refund(Limited::Held, software.len() as u64);
        let (waits, submissions) = software.abandon();
        self.drop_waits(waits);
        self.give_up_held(submissions);
    }

    /// Puts all devices of the process in error.
    pub(crate) fn fail_process(&mut self, fault: Fault, failing: Failing) {
        let Ok(devices) = self.process().map(|process| process.devices().clone()) else { return };
        for device in devices {
            self.fail_device(device, fault, failing);
        }
    }

    /// Puts a device in error: engines execute nothing more for it, and nothing can be created on it. Waits end for
    /// the fences that it created. A fence that it only opened is left for other devices to signal, unless they fail
    /// too.
    pub(crate) fn fail_device(&mut self, handle: Handle, fault: Fault, failing: Failing) {
        let Ok(device) = self.get_mut::<Device>(handle) else { return };
        device.fail();
        let (contexts, fences) = (device.contexts().clone(), device.fences().clone());
        for context in contexts {
            self.lose_context(context, fault);
        }
        for fence in fences {
            if failing == Failing::WithItsGuest || self.is_parent_of(handle, fence) {
                self.signal_always(fence);
            }
        }
    }
}
