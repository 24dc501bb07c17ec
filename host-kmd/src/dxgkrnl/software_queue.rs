//! What a queue for kernel-mode submission is given while it cannot go on: its *software queue*, VidSch's
//! software context.
//!
//! Monitored fences cannot be waited for on the GPU: "the operating system implements this functionality on
//! the CPU by holding off GPU work that's dependent on the waited value, and only releasing it to the GPU
//! when the value is signaled". So behind a wait that is not over everything is held here, in its order.
//! A signal takes effect when everything before it is done on the GPU, and what is behind it is held until
//! then: "when packet is at head of SWContext, vidsch updates fence value directly from CPU".
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and "Cross-adapter
//! wait/signal combinations".

use super::context::Context;
use super::error::RequestError;
use super::fence_waits::check_count;
use super::hw_queue::HwQueue;
use super::kernel::Kernel;
use super::request::{Answer, Handled, zero};
use super::scope::Scope;
use super::submission::{Deferred, DeferredWork, HeldSubmission};
use super::waits::{Needed, Owner, Wait, WaitId};
use crate::ddi::CurrentValuesFlags;
use crate::hardware::{Fault, GuestId};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{FenceValue, SignalFromGpu, WaitFromGpu};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something that is held.
#[derive(Debug)]
enum Held<S, C> {
    Wait(WaitId),
    Signal(S),
    Submission(C),
}

/// Something that is held no more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready<S, C> {
    /// Takes effect now.
    Signal(S),
    /// Goes to the hardware now.
    Submission(C),
}

/// What one queue was given and is held, the oldest first: signals and submissions, and waits between
/// them.
#[derive(Debug)]
pub(super) struct SoftwareQueue<S, C> {
    held: VecDeque<Held<S, C>>,
    /// Which of the waits are over: a guest may have many end at once.
    over: BTreeSet<WaitId>,
}

impl<S, C> Default for SoftwareQueue<S, C> {
    fn default() -> Self {
        Self { held: VecDeque::new(), over: BTreeSet::new() }
    }
}

impl<S, C> SoftwareQueue<S, C> {
    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether something is held that is more than a wait.
    pub(super) fn has_work(&self) -> bool {
        self.held.iter().any(|held| !matches!(held, Held::Wait(_)))
    }

    /// How much is held.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// What comes after is held until a wait is over.
    pub(super) fn push_wait(&mut self, wait: WaitId) {
        self.held.push_back(Held::Wait(wait));
    }

    /// A signal is held until its turn comes.
    pub(super) fn push_signal(&mut self, signal: S) {
        self.held.push_back(Held::Signal(signal));
    }

    /// A submission is held until its turn comes.
    pub(super) fn push_submission(&mut self, submission: C) {
        self.held.push_back(Held::Submission(submission));
    }

    /// A submission that the hardware has no room for is the next again.
    fn put_back(&mut self, submission: C) {
        self.held.push_front(Held::Submission(submission));
    }

    /// A wait of those that are held is over.
    pub(super) fn end_wait(&mut self, wait: WaitId) {
        self.over.insert(wait);
    }

    /// Takes what is the next that can go on, and waits before it that are over. `is_idle`: everything
    /// that went to the hardware is done, and what takes effect may.
    pub(super) fn next(&mut self, is_idle: bool) -> Option<Ready<S, C>> {
        while let Some(Held::Wait(wait)) = self.held.front()
            && self.over.remove(wait)
        {
            self.held.pop_front();
        }
        let goes_on = |held: &mut Held<S, C>| match held {
            Held::Wait(_) => false,
            Held::Signal(_) => is_idle,
            Held::Submission(_) => true,
        };
        match self.held.pop_front_if(goes_on)? {
            Held::Signal(signal) => Some(Ready::Signal(signal)),
            Held::Submission(submission) => Some(Ready::Submission(submission)),
            Held::Wait(_) => None,
        }
    }

    /// Drops everything. Returns the waits that are not over, and the submissions.
    fn abandon(&mut self) -> (Vec<WaitId>, Vec<C>) {
        let over = std::mem::take(&mut self.over);
        let (mut waits, mut submissions) = (Vec::new(), Vec::new());
        for held in self.held.drain(..) {
            match held {
                Held::Wait(wait) if !over.contains(&wait) => waits.push(wait),
                Held::Submission(submission) => submissions.push(submission),
                Held::Wait(_) | Held::Signal(_) => {}
            }
        }
        (waits, submissions)
    }
}

/// A value of a fence, by what it stays whoever closes it: slot and serial number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldSignal {
    slot: u32,
    serial: u64,
    value: u64,
    /// When it was given, on the adapter's clock; 0 when nobody traced then.
    queued: u64,
}

/// A queue whose software queue is to be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Released {
    pub(super) guest: GuestId,
    pub(super) process: u32,
    pub(super) hw_queue: Handle,
    /// Why the queue is lost, if it is: it waited for a fence that went.
    pub(super) fault: Option<Fault>,
}

/// The fault of a queue that a held packet did something wrong for.
fn fault(reason: FaultReason, opcode: Opcode, address: u64) -> Fault {
    Fault { reason, opcode, address, read_pointer: 0 }
}

impl Kernel {
    /// Goes on with queues whose waits are over, or whose submissions are done. Each round gives up
    /// something that was held, which quotas bound. Returns whether there were any.
    pub(super) fn continue_software_queues(&mut self, effects: &mut Vec<Effect>) -> bool {
        let went_on = !self.released.is_empty();
        while let Some(Released { guest, process, hw_queue, fault }) = self.released.pop_front() {
            let holds = self.scope(guest, process, effects).is_some_and(|scope| {
                scope.get::<HwQueue>(hw_queue).is_ok_and(|queue| !queue.software.is_empty())
            });
            if !holds {
                // It went meanwhile, or went on already.
                continue;
            }
            // It may wake an engine.
            self.watch_engines();
            let needs_power = fault.is_none() && !self.has_power();
            if needs_power {
                self.power_up(effects);
            }
            if let Some(mut scope) = self.scope(guest, process, effects) {
                let result = match fault {
                    Some(fault) => scope.lose_queue_s_context(hw_queue, fault),
                    None => scope.continue_software_queue(hw_queue),
                };
                if let Err(error) = result {
                    tracing::error!(guest = guest.0, %hw_queue, %error, "a software queue is stuck");
                }
                let given_up = scope.given_up;
                self.retire_given_up(guest, given_up);
            }
            if needs_power {
                self.resume_after_power_up(effects);
            }
        }
        went_on
    }
}

impl Scope<'_> {
    /// The queue for kernel-mode submission that a request names, by its own handle or by that of its
    /// context. And the context if its submissions wait for paging.
    fn software_target(&self, handle: Handle) -> Result<(Handle, Option<Handle>), RequestError> {
        match self.get::<HwQueue>(handle) {
            Ok(_) => {
                let queue = self.own_queue(handle)?;
                if queue.user_mode_submission {
                    return Err(RequestError::NotSupported(
                        "the queue waits and signals by packets",
                    ));
                }
                queue.check_alive(handle).map(|()| (handle, None))
            }
            Err(RequestError::TypeMismatch { .. }) => {
                let node = self.node_submission(handle)?;
                Ok((node.hw_queue, node.model.renders().then_some(handle)))
            }
            Err(error) => Err(error),
        }
    }

    /// `D3DKMTWaitForSynchronizationObjectFromGpu`.
    pub(super) fn wait_from_gpu(
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
    pub(super) fn signal_from_gpu(
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

    /// Gives a queue something now, or when submissions of its guest have gone that wait for paging: they
    /// would change places.
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

    /// Whether submissions of this guest that come now wait for paging.
    pub(super) fn waits_for_paging(&self) -> bool {
        self.guest.vidmm.has_plan() || self.guest.paging.is_busy()
    }

    /// Holds what a queue is given from now on until fences have these values.
    pub(super) fn give_wait(
        &mut self,
        queue: Handle,
        list: &[FenceValue],
    ) -> Result<(), RequestError> {
        let mut wait = Wait::new(self.process_id, Owner::Queue(queue), false);
        for FenceValue { fence: handle, value } in list.iter().copied() {
            wait.add(self.cpu_fence(handle)?, Needed { handle, value });
        }
        self.guest.quotas.held.charge(1)?;
        match self.begin_wait(wait) {
            Ok(Some(wait)) => {
                self.get_mut::<HwQueue>(queue)?.software.push_wait(wait);
                Ok(())
            }
            // Values only grow: it is over for good.
            other => {
                self.guest.quotas.held.refund(1);
                other.map(|_| ())
            }
        }
    }

    /// Signals fences when everything that a queue was given until now is done.
    pub(super) fn give_signal(
        &mut self,
        queue: Handle,
        list: &[FenceValue],
    ) -> Result<(), RequestError> {
        let signals = self.held_signals(list)?;
        self.guest.quotas.held.charge(1)?;
        self.get_mut::<HwQueue>(queue)?.software.push_signal(signals);
        // The guest may have seen that some are done before their interrupt comes here.
        self.reap_submissions(queue)?;
        self.continue_software_queue(queue)
    }

    fn held_signals(&mut self, list: &[FenceValue]) -> Result<Vec<HeldSignal>, RequestError> {
        let mut signals = Vec::with_capacity(list.len());
        for FenceValue { fence: handle, value } in list.iter().copied() {
            let slot = self.cpu_fence(handle)?;
            let fence = self.global_mut(slot)?;
            if fence.is_progress {
                return Err(RequestError::NotSupported("signaling a progress fence"));
            }
            let serial = fence.serial;
            signals.push(HeldSignal { slot, serial, value, queued: self.recorder.now() });
        }
        Ok(signals)
    }

    /// Does what a software queue has come to.
    pub(super) fn continue_software_queue(&mut self, handle: Handle) -> Result<(), RequestError> {
        loop {
            let queue = self.get::<HwQueue>(handle)?;
            let state = self.get::<Context>(queue.context)?.state;
            if queue.in_error || state.is_lost() {
                return Ok(());
            }
            let is_idle = queue.in_flight.is_empty() && state.is_running();
            let software = &mut self.get_mut::<HwQueue>(handle)?.software;
            let before = software.len();
            let next = software.next(is_idle);
            let given_up = before - software.len();
            self.guest.quotas.held.refund(given_up as u64);
            match next {
                None => return Ok(()),
                Some(Ready::Signal(signals)) => self.signal_held(handle, signals)?,
                Some(Ready::Submission(held)) => {
                    if let Err(held) = self.submit_held(handle, held) {
                        // The hardware takes more of this queue when it is done with some.
                        self.guest.quotas.held.charge(1)?;
                        self.get_mut::<HwQueue>(handle)?.software.put_back(held);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// A signal's turn has come. One of a fence that nobody has any more does nothing.
    fn signal_held(
        &mut self,
        handle: Handle,
        signals: Vec<HeldSignal>,
    ) -> Result<(), RequestError> {
        let mut values = BTreeMap::new();
        let queue = self.get::<HwQueue>(handle)?.id;
        for HeldSignal { slot, serial, value, queued } in signals {
            let Some(fence) = self.guest.fences.globals.get(&slot) else { continue };
            if fence.serial != serial || fence.always_signaled {
                continue;
            }
            let known = values.get(&slot).copied();
            let current = known.unwrap_or_else(|| self.current_value(slot));
            let least = fence.least(current);
            if value < least && fence.cross.is_some() {
                // Another guest may have signaled it: that one is not to lose this one's queue.
                continue;
            }
            if value < least {
                let reason = FaultReason::FENCE_WENT_BACKWARDS;
                let fault = fault(reason, Opcode::SIGNAL_FENCE, value);
                return self.lose_queue_s_context(handle, fault);
            }
            values.insert(slot, value);
            self.recorder.software_signal(queue, (self.guest_id, slot), value, queued);
        }
        self.update_current_values(values, CurrentValuesFlags::default())
    }

    /// Nothing more of a queue's context is executed: what was held for it can never be.
    fn lose_queue_s_context(&mut self, handle: Handle, fault: Fault) -> Result<(), RequestError> {
        let context = self.get::<HwQueue>(handle)?.context;
        self.lose_context(context, fault);
        Ok(())
    }

    /// A queue is lost or goes: drops what is held for it.
    pub(super) fn abandon_software_queue(
        &mut self,
        software: &mut SoftwareQueue<Vec<HeldSignal>, HeldSubmission>,
    ) {
        self.guest.quotas.held.refund(software.len() as u64);
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

    /// A wait of a queue's is over: its software queue goes on after this input.
    pub(super) fn release_queue(&mut self, hw_queue: Handle, process: u32, wait: WaitId) {
        if let Ok(queue) = self.guest.handles.get_mut::<HwQueue>(process, hw_queue) {
            queue.software.end_wait(wait);
        }
        let guest = self.guest_id;
        self.released.push_back(Released { guest, process, hw_queue, fault: None });
    }

    /// A queue waits for a fence that its process has closed, as with a packet: it is lost.
    pub(super) fn orphan_queue(&mut self, hw_queue: Handle, process: u32, slot: u32) {
        let fault = fault(FaultReason::FENCE_NOT_OWNED, Opcode::WAIT_FENCE, slot.into());
        let guest = self.guest_id;
        self.released.push_back(Released { guest, process, hw_queue, fault: Some(fault) });
    }

    /// Something happened that a queue's software queue may go on after.
    pub(super) fn look_at_software_queue(&mut self, hw_queue: Handle) {
        let holds = self.get::<HwQueue>(hw_queue).is_ok_and(|queue| !queue.software.is_empty());
        if holds {
            let (guest, process) = (self.guest_id, self.process_id);
            self.released.push_back(Released { guest, process, hw_queue, fault: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a queue is given.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Given {
        Wait(usize),
        Signal(usize),
        Submission(usize),
    }

    /// What happens.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Wait,
        Signal,
        Submission,
        /// One of the waits that are not over is.
        EndWait(usize),
        /// The hardware is done with its oldest submission.
        Complete,
        /// The hardware is full, or is not.
        Room(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0..8u8, any::<usize>()).prop_map(|(kind, which)| match kind {
            0 => Step::Wait,
            1 => Step::Signal,
            2 | 3 => Step::Submission,
            4 | 5 => Step::EndWait(which),
            6 => Step::Complete,
            _ => Step::Room(which % 2 == 0),
        })
    }

    /// What should have come out of `given` by now, looked at from the start: how much, and whether each
    /// submission is done.
    fn expected(given: &[Given], over: &[bool], completed: usize, room: bool, out: usize) -> usize {
        let (mut come_out, mut submitted) = (0, 0);
        for packet in given {
            match *packet {
                Given::Wait(wait) if !over[wait] => break,
                Given::Wait(_) => continue,
                Given::Signal(_) if submitted > completed => break,
                Given::Submission(_) if !room && come_out >= out => break,
                Given::Submission(_) => submitted += 1,
                Given::Signal(_) => {}
            }
            come_out += 1;
        }
        come_out
    }

    proptest! {
        /// Everything comes out in its order, nothing before it may, and nothing later than it may.
        #[test]
        fn a_software_queue_is_in_order_loses_nothing_and_releases_nothing_early(
            steps in proptest::collection::vec(step(), 0..120),
        ) {
            let mut queue = SoftwareQueue::<usize, usize>::default();
            let (mut given, mut over, mut out) = (Vec::new(), Vec::new(), Vec::new());
            let (mut submitted, mut completed, mut room) = (0, 0, true);
            for step in steps {
                let number = given.len();
                match step {
                    Step::Wait => {
                        queue.push_wait(WaitId::numbered(over.len() as u64));
                        given.push(Given::Wait(over.len()));
                        over.push(false);
                    }
                    Step::Signal => {
                        queue.push_signal(number);
                        given.push(Given::Signal(number));
                    }
                    Step::Submission => {
                        queue.push_submission(number);
                        given.push(Given::Submission(number));
                    }
                    Step::EndWait(which) if !over.is_empty() => {
                        let wait = which % over.len();
                        if !std::mem::replace(&mut over[wait], true) {
                            queue.end_wait(WaitId::numbered(wait as u64));
                        }
                    }
                    Step::EndWait(_) => {}
                    Step::Complete => completed = submitted.min(completed + 1),
                    Step::Room(has_room) => room = has_room,
                }
                while let Some(ready) = queue.next(submitted == completed) {
                    match ready {
                        Ready::Signal(number) => out.push(Given::Signal(number)),
                        Ready::Submission(number) if room => {
                            submitted += 1;
                            out.push(Given::Submission(number));
                        }
                        Ready::Submission(number) => {
                            queue.put_back(number);
                            break;
                        }
                    }
                }
                let visible = given.iter().copied().filter(|given| !matches!(given, Given::Wait(_)));
                let visible: Vec<_> = visible.collect();
                prop_assert_eq!(&out[..], &visible[..out.len()]);
                prop_assert_eq!(out.len(), expected(&given, &over, completed, room, out.len()));
                let held = visible.len() - out.len();
                prop_assert!(queue.len() >= held);
            }
            let left = over.iter().filter(|over| !**over).count();
            let (waits, submissions) = queue.abandon();
            prop_assert_eq!(waits.len(), left);
            prop_assert_eq!(submissions.len() + submitted, given.iter().filter(|given| {
                matches!(given, Given::Submission(_))
            }).count());
        }
    }
}
