// SPDX-License-Identifier: MIT OR Apache-2.0

//! Software queues: a wait for fences holds the work that follows it in a queue, and a signal waits for the work
//! before it. `queue::software_queue` keeps what is held, in order.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and "Cross-adapter
//! wait/signal combinations".

use crate::ddi::CurrentValuesFlags;
use crate::dxgkrnl::fence::waits::{Needed, Owner, Wait, WaitId};
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::kernel::requests::fence_waits::check_count;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::faults::IN_ERROR;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::{HeldWork, HwQueue};
use crate::dxgkrnl::queue::software_queue::{HeldSignal, Ready, Released};
use crate::dxgkrnl::queue::submission::{Deferred, DeferredWork};
use crate::hardware::{Fault, HardwareError};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{FenceValue, SignalFromGpu, WaitFromGpu};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use std::collections::BTreeMap;

impl Kernel {
    /// Continues a queue after a wait or a submission ended, or loses the queue. Each call releases something held;
    /// quotas bound how much is held.
    pub(crate) fn continue_software_queue_of(
        &mut self,
        Released { guest, process, hw_queue, fault }: Released,
        effects: &mut Vec<Effect>,
    ) {
        let holds = self.access(guest, process, effects).is_some_and(|access| {
            access.get::<HwQueue>(hw_queue).is_ok_and(|queue| !queue.held().is_empty())
        });
        if !holds {
            // The queue is gone, or holds nothing.
            return;
        }
        // Continuing may wake an engine.
        self.watch_engines();
        if fault.is_none() {
            self.ensure_power(effects);
        }
        if let Some(mut access) = self.access(guest, process, effects) {
            let result = match fault {
                Some(fault) => access.lose_queue_s_context(hw_queue, fault),
                None => access.continue_software_queue(hw_queue),
            };
            if let Err(error) = result {
                let span = queue_span(process, hw_queue);
                tracing::error!(parent: &span, guest = guest.0, %error, "a software queue is stuck");
            }
            let given_up = access.into_given_up();
            self.retire_given_up(guest, given_up);
        }
        // A termination may wait for the work that the queue held.
        self.work.wake(Rule::Terminations);
    }
}

impl ProcessAccess<'_> {
    /// The kernel-mode queue that a request names, by its own handle or by that of its context. Also returns the
    /// context, if its submissions wait for paging.
    fn software_target(&self, handle: Handle) -> Result<(Handle, Option<Handle>), RequestError> {
        match self.get::<HwQueue>(handle) {
            Ok(_) => {
                let queue = self.own_queue(handle)?;
                if queue.takes_user_mode_submission() {
                    return Err(RequestError::NotSupported(
                        "the queue waits and signals by packets",
                    ));
                }
                queue.check_alive(handle).map(|()| (handle, None))
            }
            Err(RequestError::TypeMismatch { .. }) => {
                let node = self.node_submission(handle)?;
                Ok((node.hw_queue(), node.model().renders().then_some(handle)))
            }
            Err(error) => Err(error),
        }
    }

    /// `D3DKMTWaitForSynchronizationObjectFromGpu`.
    pub(crate) fn wait_from_gpu(
        &mut self,
        request: WaitFromGpu,
        list: Vec<FenceValue>,
    ) -> Handled<()> {
        check_count(request.count)?;
        zero("reserved", request.reserved)?;
        let (queue, context) = self.software_target(request.queue)?;
        for FenceValue { fence, .. } in &list {
            self.cpu_fence(*fence)?;
        }
        self.give_in_order(queue, context, DeferredWork::Wait(list))
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu`.
    pub(crate) fn signal_from_gpu(
        &mut self,
        request: SignalFromGpu,
        list: Vec<FenceValue>,
    ) -> Handled<()> {
        check_count(request.count)?;
        zero("reserved", request.reserved)?;
        let (queue, context) = self.software_target(request.queue)?;
        self.held_signals(&list)?;
        self.give_in_order(queue, context, DeferredWork::Signal(list))
    }

    /// Gives a queue a wait or a signal now, or after the guest's submissions that wait for paging: their order must
    /// not change.
    fn give_in_order(
        &mut self,
        queue: Handle,
        context: Option<Handle>,
        work: DeferredWork,
    ) -> Handled<()> {
        if let Some(context) = context
            && self.waits_for_paging()
        {
            let process = self.process_id;
            return Ok(Answer::SubmitAfterPaging(Deferred { process, context, work }));
        }
        match work {
            DeferredWork::Wait(list) => self.give_wait(queue, &list),
            DeferredWork::Signal(list) => self.give_signal(queue, &list),
            DeferredWork::Submission { .. } => Ok(()),
        }?;
        Ok(Answer::Done(()))
    }

    /// Whether new submissions of this guest must wait for paging.
    pub(crate) fn waits_for_paging(&self) -> bool {
        self.guest.vidmm.has_plan() || self.guest.paging.is_busy()
    }

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

    fn held_signals(&mut self, list: &[FenceValue]) -> Result<Vec<HeldSignal>, RequestError> {
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
        self.update_current_values(values, CurrentValuesFlags::default())
    }

    /// Loses a queue with its context: its held work can never execute.
    fn lose_queue_s_context(&mut self, handle: Handle, fault: Fault) -> Result<(), RequestError> {
        let context = self.get::<HwQueue>(handle)?.context();
        self.lose_context(context, fault);
        Ok(())
    }

    /// Drops the held work of a queue that is lost or destroyed.
    pub(crate) fn abandon_software_queue(&mut self, software: &mut HeldWork) {
        self.guest.quotas.refund(Limited::Held, software.len() as u64);
        let (waits, submissions) = software.abandon();
        let mut fences = Vec::new();
        for id in waits {
            if let Some(wait) = self.guest.fences.waits.remove(id) {
                fences.extend(self.forget_wait(id, wait));
            }
        }
        if let Err(error) = self.satisfy_waits(fences, None) {
            tracing::error!(guest = self.guest_id.0, %error, "a fence is missing");
        }
        self.give_up_held(submissions);
    }

    /// A wait of a queue has ended: the work list continues its software queue.
    pub(crate) fn release_queue(&mut self, hw_queue: Handle, process: u32, wait: WaitId) {
        if let Ok(queue) = self.guest.handles.get_mut::<HwQueue>(process, hw_queue) {
            queue.held_mut().end_wait(wait);
        }
        let guest = self.guest_id;
        self.work.release(Released { guest, process, hw_queue, fault: None });
    }

    /// A queue waits for a fence that its process has closed. The queue is lost, as after a packet that does so.
    pub(crate) fn orphan_queue(&mut self, hw_queue: Handle, process: u32, slot: u32) {
        let fault = Fault::new(FaultReason::FENCE_NOT_OWNED, Opcode::WAIT_FENCE, slot.into());
        let guest = self.guest_id;
        self.work.release(Released { guest, process, hw_queue, fault: Some(fault) });
    }

    /// Something happened that a software queue may wait for.
    pub(crate) fn look_at_software_queue(&mut self, hw_queue: Handle) {
        let holds = self.get::<HwQueue>(hw_queue).is_ok_and(|queue| !queue.held().is_empty());
        if holds {
            let (guest, process) = (self.guest_id, self.process_id);
            self.work.release(Released { guest, process, hw_queue, fault: None });
        }
    }
}
