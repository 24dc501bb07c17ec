// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a software queue holds, and what it does when it continues. `queue::software_queue` keeps the order.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and "Cross-adapter
//! wait/signal combinations".

use crate::ddi::CurrentValuesFlags;
use crate::dxgkrnl::fence::waits::{Needed, Owner, Wait};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::faults::IN_ERROR;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::queue::software_queue::{HeldSignal, Ready};
use crate::hardware::{Fault, HardwareError};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::FenceValue;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use std::collections::BTreeMap;

impl ProcessAccess<'_> {
    /// Holds later work of a queue until fences have these values.
    pub(crate) fn give_wait(
        &mut self,
        queue: Handle,
        list: &[FenceValue],
    ) -> Result<(), RequestError> {
        let mut wait = Wait::new(self.process_id, Owner::Queue(queue), false);
        for FenceValue { fence: handle, value } in list.iter().copied() {
            wait.add(self.cpu_fence(handle)?, Needed { handle, value });
        }
        self.guest.quotas.charge(Limited::Held, 1)?;
        match self.begin_wait(wait) {
            Ok(Some(wait)) => {
                self.get_mut::<HwQueue>(queue)?.held_mut().push_wait(wait);
                Ok(())
            }
            // The wait is satisfied already, so the queue need not hold for it.
            other => {
                self.guest.quotas.refund(Limited::Held, 1);
                other.map(|_| ())
            }
        }
    }

    /// Signals fences when all earlier work of a queue is done.
    pub(crate) fn give_signal(
        &mut self,
        queue: Handle,
        list: &[FenceValue],
    ) -> Result<(), RequestError> {
        let signals = self.held_signals(list)?;
        self.guest.quotas.charge(Limited::Held, 1)?;
        self.get_mut::<HwQueue>(queue)?.held_mut().push_signal(signals);
        // The guest may know of finished submissions before their interrupts arrive.
        self.reap_submissions(queue)?;
        self.continue_software_queue(queue)
    }

    pub(crate) fn held_signals(
        &mut self,
        list: &[FenceValue],
    ) -> Result<Vec<HeldSignal>, RequestError> {
        let mut signals = Vec::with_capacity(list.len());
        for FenceValue { fence: handle, value } in list.iter().copied() {
            let slot = self.cpu_fence(handle)?;
            let fence = self.global_mut(slot)?;
            if fence.is_progress() {
                return Err(RequestError::NotSupported("signaling a progress fence"));
            }
            let serial = fence.serial();
            signals.push(HeldSignal { slot, serial, value, queued: self.recorder.now() });
        }
        Ok(signals)
    }

    /// Does everything that a software queue can do now.
    pub(crate) fn continue_software_queue(&mut self, handle: Handle) -> Result<(), RequestError> {
        loop {
            let queue = self.get::<HwQueue>(handle)?;
            let state = self.get::<Context>(queue.context())?.state();
            if queue.is_in_error() || state.is_lost() {
                return Ok(());
            }
            let is_idle = queue.is_idle() && state.is_running();
            let software = self.get_mut::<HwQueue>(handle)?.held_mut();
            let before = software.len();
            let next = software.next(is_idle);
            let given_up = before - software.len();
            self.guest.quotas.refund(Limited::Held, given_up as u64);
            match next {
                None => return Ok(()),
                Some(Ready::Signal(signals)) => self.signal_held(handle, signals)?,
                Some(Ready::Submission(held)) => match self.submit_held(handle, held) {
                    Ok(()) => {}
                    Err((held, HardwareError::Full(_))) => {
                        // The hardware accepts more from this queue when it has finished some of its work.
                        self.guest.quotas.charge(Limited::Held, 1)?;
                        self.get_mut::<HwQueue>(handle)?.held_mut().put_back(held);
                        return Ok(());
                    }
                    Err((held, error @ HardwareError::Unknown(_))) => {
                        // A bug of the kernel. The queue can never execute its held work.
                        error.report();
                        self.give_up_held(vec![held]);
                        return self.lose_queue_s_context(handle, IN_ERROR);
                    }
                },
            }
        }
    }

    /// Executes a held signal. Skips fences that are gone.
    fn signal_held(
        &mut self,
        handle: Handle,
        signals: Vec<HeldSignal>,
    ) -> Result<(), RequestError> {
        let mut values = BTreeMap::new();
        let queue = self.get::<HwQueue>(handle)?.id();
        for HeldSignal { slot, serial, value, queued } in signals {
            let Some(fence) = self.guest.fences.get(slot) else { continue };
            if fence.serial() != serial || fence.is_always_signaled() {
                continue;
            }
            let known = values.get(&slot).copied();
            let current = known.unwrap_or_else(|| self.current_value(slot));
            let least = fence.least(current);
            if value < least && fence.cross().is_some() {
                // Another guest may have signaled the fence; that must not cost this guest its queue.
                continue;
            }
            if value < least {
                let reason = FaultReason::FENCE_WENT_BACKWARDS;
                let fault = Fault::new(reason, Opcode::SIGNAL_FENCE, value);
                return self.lose_queue_s_context(handle, fault);
            }
            values.insert(slot, value);
            self.recorder.software_signal(queue, (self.guest_id, slot), value, queued);
        }
        let flags = CurrentValuesFlags::default();
        self.with_signals(|signals| signals.update_current_values(values, flags))
    }

    /// Loses a queue with its context: its held work can never execute.
    pub(crate) fn lose_queue_s_context(
        &mut self,
        handle: Handle,
        fault: Fault,
    ) -> Result<(), RequestError> {
        let context = self.get::<HwQueue>(handle)?.context();
        self.lose_context(context, fault);
        Ok(())
    }
}
