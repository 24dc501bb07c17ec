// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waits for fences, and signals that end them.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object",
//! "Synchronization issues", "DdiUpdateMonitoredValues" and "DdiUpdateCurrentValuesFromCpu".

use crate::ddi::CurrentValuesFlags;
use crate::dxgkrnl::display::flip::FlipId;
use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::fence::waits::{Needed, Owner, Wait, WaitId};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::queue::software_queue::Released;
use crate::hardware::{Fault, SlotValue, UnknownId};
use bellhop_protocol::control::Handle;
use bellhop_protocol::event::{Event, EventKind, FaultReason};
use bellhop_protocol::packet::Opcode;
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::FromZeros;

impl ProcessAccess<'_> {
    /// Begins a wait, unless it is satisfied already.
    pub(crate) fn begin_wait(&mut self, mut wait: Wait) -> Result<Option<WaitId>, RequestError> {
        for (fence, Needed { value, .. }) in wait.fences().clone() {
            // A value that is already reached needs no wait.
            if self.current_value(fence) >= value && wait.reach(fence) {
                return Ok(None);
            }
        }
        self.guest.quotas.charge(Limited::Waits, wait.fences().len() as u64)?;
        wait.begin(self.recorder.now());
        let fences = wait.fences().clone();
        let id = self.guest.fences.waits.add(wait);
        for (fence, Needed { value, .. }) in &fences {
            self.global_mut(*fence)?.waiters().add(*value, id);
        }
        // The values may have been reached since. Then no event is sent, because the caller is told directly.
        let is_satisfied = self.satisfy_waits(fences.into_keys(), Some(id))?;
        Ok((!is_satisfied).then_some(id))
    }

    /// `DxgkDdiUpdateCurrentValuesFromCpu` for the native fences among them, then ends the CPU waits that they
    /// satisfy, in this guest and in others: a signal from the CPU raises no interrupt.
    pub(crate) fn update_current_values(
        &mut self,
        values: BTreeMap<u32, u64>,
        flags: CurrentValuesFlags,
    ) -> Result<(), RequestError> {
        let updates = values.iter().map(|(slot, value)| SlotValue { slot: *slot, value: *value });
        let is_native = |update: &SlotValue| {
            let fence = self.guest.fences.get(update.slot);
            fence.is_some_and(|fence| fence.kind() != FenceKind::Monitored)
        };
        let (native, monitored): (Vec<_>, Vec<_>) = updates.partition(is_native);
        if !native.is_empty() {
            self.miniport.update_current_values_from_cpu(self.guest_id, &native, flags)?;
        }
        if !monitored.is_empty() {
            // Dxgkrnl writes the values of monitored fences itself.
            let always = flags.always_signaled;
            if flags.notification_only {
                let slots: Vec<_> = monitored.iter().map(|value| value.slot).collect();
                self.hardware.notify_current_values(self.guest_id, &slots, always)?;
            } else {
                self.hardware.update_current_values(self.guest_id, &monitored, always)?;
            }
        }
        for slot in values.keys().filter(|_| !flags.notification_only) {
            self.tell_other_guests(*slot, flags.always_signaled);
        }
        self.satisfy_waits(values.into_keys(), None)?;
        Ok(())
    }

    /// Another guest signaled a fence. `slot` is that of this guest's view.
    pub(crate) fn notify_fence(&mut self, slot: u32, always: bool) -> Result<(), RequestError> {
        let fence = self.global_mut(slot)?;
        if fence.is_always_signaled() {
            return Ok(());
        }
        if always {
            fence.always_signal();
        }
        let flags = CurrentValuesFlags { always_signaled: always, notification_only: true };
        let value = self.current_value(slot);
        self.update_current_values([(slot, value)].into(), flags)
    }

    /// Requests an interrupt when a queue's progress fence reaches `value`, unless it has. Returns the fence's slot.
    pub(crate) fn monitor_drain(
        &mut self,
        handle: Handle,
        value: u64,
    ) -> Result<u32, RequestError> {
        let slot = self.global_of(handle)?;
        self.global_mut(slot)?.await_drain(value);
        self.satisfy_waits([slot], None)?;
        Ok(slot)
    }

    /// Makes a fence permanently signaled, which ends all waits for it. If another guest created the fence, only this
    /// guest sees it so.
    pub(crate) fn signal_always(&mut self, handle: Handle) {
        let result = self.global_of(handle).and_then(|slot| {
            let fence = self.global_mut(slot)?;
            if let Some(cross) = fence.cross()
                && !self.cross_fences.is_creator(cross, self.guest_id)
            {
                return self.notify_fence(slot, true);
            }
            self.global_mut(slot)?.always_signal();
            let flags = CurrentValuesFlags { always_signaled: true, ..Default::default() };
            self.update_current_values([(slot, u64::MAX)].into(), flags)
        });
        if let Err(error) = result {
            tracing::error!(guest = self.guest_id.0, fence = %handle, %error, "a fence is missing");
        }
    }

    /// The process closes a fence: drops its waits that cannot be satisfied without it.
    pub(crate) fn forget_waits_for(&mut self, global: u32) -> Result<(), RequestError> {
        let process = self.process_id;
        let fence = self.global_mut(global)?;
        let waiters: Vec<_> = fence.waiters().iter().collect();
        let mut fences = BTreeSet::from([global]);
        for (value, id) in waiters {
            let waits = &mut self.guest.fences.waits;
            if waits.get(id).is_none_or(|wait| wait.process() != process) {
                continue;
            }
            let lost = waits.lose(id, global);
            self.guest.quotas.refund(Limited::Waits, 1);
            self.global_mut(global)?.waiters().remove(value, id);
            if let Some(wait) = lost {
                match wait.owner() {
                    Owner::Cpu(_) => {}
                    Owner::Queue(queue) => self.orphan_queue(queue, wait.process(), global),
                    Owner::Flip(flip) => self.flip_waited(flip, true),
                }
                fences.extend(self.forget_wait(id, wait));
            }
        }
        self.satisfy_waits(fences, None)?;
        Ok(())
    }

    /// Removes a dropped wait from the fences that it still needs. Returns them: their MonitoredValues may change.
    pub(crate) fn forget_wait(
        &mut self,
        id: WaitId,
        wait: Wait,
    ) -> impl Iterator<Item = u32> + use<> {
        self.guest.quotas.refund(Limited::Waits, wait.fences().len() as u64);
        for (slot, needed) in wait.fences() {
            if let Some(fence) = self.guest.fences.get_mut(*slot) {
                fence.waiters().remove(needed.value, id);
            }
        }
        wait.into_fences().into_keys()
    }

    /// Satisfies the waits that CurrentValues have reached, and keeps each MonitoredValue at the least waited value
    /// minus 1. Returns whether the wait `own` is among the satisfied ones; sends events for the others. Skips a slot
    /// without a fence.
    ///
    /// The order is that of `monitor` in protocol::handoff::fence: store MonitoredValues, full fence, re-sample
    /// CurrentValues. So the loop ends only when no value sampled after the current MonitoredValue satisfies a wait.
    /// It does end: only fences that lost waits in a round have another round.
    pub(crate) fn satisfy_waits(
        &mut self,
        fences: impl IntoIterator<Item = u32>,
        own: Option<WaitId>,
    ) -> Result<bool, RequestError> {
        let mut own_is_satisfied = false;
        let mut fences: BTreeSet<_> = fences.into_iter().collect();
        while !fences.is_empty() {
            let mut changed = BTreeSet::new();
            while let Some(slot) = fences.pop_first() {
                if self.guest.fences.get(slot).is_none() {
                    continue;
                }
                changed.insert(slot);
                let current = self.current_value(slot);
                while let Some(id) = self.global_mut(slot)?.waiters().take_reached(current) {
                    self.guest.quotas.refund(Limited::Waits, 1);
                    let waits = &mut self.guest.fences.waits;
                    let handle = waits.get(id).and_then(|wait| wait.fences().get(&slot)).copied();
                    let Some(wait) = waits.reach(id, slot) else { continue };
                    if let Some(needed) = handle {
                        self.record_wait(&wait, slot, needed);
                    }
                    if own == Some(id) {
                        own_is_satisfied = true;
                    } else if let Some(Needed { handle, .. }) = handle {
                        match wait.owner() {
                            Owner::Cpu(cookie) => self.tell(&wait, cookie, handle, current),
                            Owner::Queue(queue) => self.release_queue(queue, wait.process(), id),
                            Owner::Flip(flip) => self.flip_waited(flip, false),
                        }
                    }
                    // Fences that it no longer needs may need no monitoring.
                    changed.extend(self.forget_wait(id, wait));
                }
                let fence = self.global_mut(slot)?;
                fence.reach_drain(current);
            }
            fences = self.update_monitored_values(changed)?;
        }
        Ok(own_is_satisfied)
    }

    /// `DxgkDdiUpdateMonitoredValues` for the fences that need another MonitoredValue. Returns them: their
    /// CurrentValues must be sampled again.
    pub(crate) fn update_monitored_values(
        &mut self,
        fences: BTreeSet<u32>,
    ) -> Result<BTreeSet<u32>, UnknownId> {
        let mut updates = Vec::new();
        for slot in fences {
            let Some(fence) = self.guest.fences.get_mut(slot) else { continue };
            let value = fence.update_monitored();
            updates.extend(value.map(|value| SlotValue { slot, value }));
        }
        if !updates.is_empty() {
            self.miniport.update_monitored_values(self.guest_id, &updates)?;
        }
        Ok(updates.into_iter().map(|update| update.slot).collect())
    }

    /// Records the end of a wait for a tool that traced when the wait began.
    pub(crate) fn record_wait(&self, wait: &Wait, slot: u32, needed: Needed) {
        let (process, since) = (wait.process(), wait.since());
        match wait.owner() {
            Owner::Flip(_) => {}
            _ if since == 0 => {}
            Owner::Cpu(_) => {
                let Needed { handle, value } = needed;
                self.recorder.cpu_wait((self.guest_id, process), slot, (handle, value), since);
            }
            Owner::Queue(queue) => {
                if let Ok(queue) = self.guest.handles.get::<HwQueue>(process, queue) {
                    let fence = (self.guest_id, slot);
                    self.recorder.software_wait(queue.id(), fence, needed.value, since);
                }
            }
        }
    }

    /// Sends the event that ends a wait.
    pub(crate) fn tell(&mut self, wait: &Wait, cookie: u64, fence: Handle, current: u64) {
        self.event(Event {
            kind: EventKind::FENCE_SIGNALED,
            process: wait.process(),
            object: fence.0,
            value: current,
            cookie,
            ..Event::new_zeroed()
        });
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

    /// A flip's fences have had their values, or never will.
    pub(crate) fn flip_waited(&mut self, flip: u64, hopeless: bool) {
        if let Some(flip) = self.guest.display.waiting_flip(FlipId(flip)) {
            (flip.wait, flip.hopeless) = (None, flip.hopeless || hopeless);
        }
        self.work.wake(Rule::Display(self.guest_id));
    }
}
