// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waits for a guest's fences, and signals that end them.
//!
//! The subsystem tells nobody that a wait has ended: it returns [`WaitEnded`], in order, and its caller does what follows.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object",
//! "Synchronization issues", "DdiUpdateMonitoredValues" and "DdiUpdateCurrentValuesFromCpu".

use crate::ddi::{CurrentValuesFlags, Miniport};
use crate::dxgkrnl::fence::cross::CrossFences;
use crate::dxgkrnl::fence::state::FenceState;
use crate::dxgkrnl::fence::storage::FenceKind;
use crate::dxgkrnl::fence::table::Fences;
use crate::dxgkrnl::fence::waits::{Needed, Owner, Wait, WaitId};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::{Limited, Quotas};
use crate::hardware::{GuestId, Platform, SlotValue, UnknownId};
use std::collections::{BTreeMap, BTreeSet};

/// A wait that has ended.
#[derive(Debug)]
pub(crate) struct WaitEnded {
    /// The wait.
    pub(crate) id: WaitId,
    /// The process that waited.
    pub(crate) process: u32,
    /// Who waited.
    pub(crate) owner: Owner,
    /// When it began, on the adapter's clock; 0 if no tool traced then.
    pub(crate) since: u64,
    /// The slot of the fence that ended it.
    pub(crate) slot: u32,
    /// How that fence ended it.
    pub(crate) end: End,
}

/// The end of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// The fence has the value that the wait needed.
    Reached {
        /// The need.
        needed: Needed,
        /// The fence's value.
        current: u64,
        /// Whether whoever began the wait learns of its end otherwise.
        is_known: bool,
    },
    /// The process has closed the fence.
    Lost,
}

/// A guest's fences with all that a signal needs.
pub(crate) struct Signals<'a> {
    /// The guest.
    pub(crate) guest: GuestId,
    /// Its fences.
    pub(crate) fences: &'a mut Fences,
    /// Its quotas, which pay for waits.
    pub(crate) quotas: &'a mut Quotas,
    /// The driver, which keeps MonitoredValues and signals native fences.
    pub(crate) miniport: &'a mut dyn Miniport,
    /// The values, and the fences that dxgkrnl itself signals.
    pub(crate) platform: &'a dyn Platform,
    /// The fences that other guests have, too.
    pub(crate) cross_fences: &'a mut CrossFences,
    /// The waits that have ended.
    pub(crate) ended: Vec<WaitEnded>,
}

impl Signals<'_> {
    fn fence_mut(&mut self, slot: u32) -> Result<&mut FenceState, RequestError> {
        self.fences.get_mut(slot).ok_or(RequestError::parameter("fence slot", slot.into()))
    }

    fn current_value(&self, slot: u32) -> u64 {
        self.fences.current_value(self.platform, self.guest, slot)
    }

    /// Begins a wait, unless it is satisfied already.
    pub(crate) fn begin_wait(
        &mut self,
        mut wait: Wait,
        now: u64,
    ) -> Result<Option<WaitId>, RequestError> {
        for (fence, Needed { value, .. }) in wait.fences().clone() {
            // A value that is already reached needs no wait.
            if self.current_value(fence) >= value && wait.reach(fence) {
                return Ok(None);
            }
        }
        self.quotas.charge(Limited::Waits, wait.fences().len() as u64)?;
        wait.begin(now);
        let fences = wait.fences().clone();
        let id = self.fences.waits.add(wait);
        for (fence, Needed { value, .. }) in &fences {
            self.fence_mut(*fence)?.waiters().add(*value, id);
        }
        // The values may have been reached since. Then no event is sent, because the caller is told directly.
        let is_satisfied = self.satisfy(fences.into_keys(), Some(id))?;
        Ok((!is_satisfied).then_some(id))
    }

    /// Cancels a process's oldest wait with a cookie. Returns whether there was one.
    pub(crate) fn cancel_wait(&mut self, process: u32, cookie: u64) -> Result<bool, RequestError> {
        let Some(oldest) = self.fences.waits.oldest(process, cookie) else { return Ok(false) };
        self.drop_waits([oldest])?;
        Ok(true)
    }

    /// Ends waits that nobody needs any more. Those that are over already do not matter.
    pub(crate) fn drop_waits(
        &mut self,
        waits: impl IntoIterator<Item = WaitId>,
    ) -> Result<(), RequestError> {
        let mut fences = Vec::new();
        for id in waits {
            if let Some(wait) = self.fences.waits.remove(id) {
                fences.extend(self.forget(id, wait));
            }
        }
        self.check(fences)
    }

    /// A process closes a fence: its waits end that cannot be satisfied without it.
    pub(crate) fn lose_waits(&mut self, process: u32, slot: u32) -> Result<(), RequestError> {
        let waiters: Vec<_> = self.fence_mut(slot)?.waiters().iter().collect();
        let mut fences = BTreeSet::from([slot]);
        for (value, id) in waiters {
            let waits = &mut self.fences.waits;
            if waits.get(id).is_none_or(|wait| wait.process() != process) {
                continue;
            }
            let lost = waits.lose(id, slot);
            self.quotas.refund(Limited::Waits, 1);
            self.fence_mut(slot)?.waiters().remove(value, id);
            if let Some(wait) = lost {
                self.end(id, &wait, slot, End::Lost);
                fences.extend(self.forget(id, wait));
            }
        }
        self.check(fences)
    }

    /// `DxgkDdiUpdateCurrentValuesFromCpu` for the native fences among them, then ends the waits that they satisfy, in
    /// this guest and in others: a signal from the CPU raises no interrupt.
    pub(crate) fn update_current_values(
        &mut self,
        values: BTreeMap<u32, u64>,
        flags: CurrentValuesFlags,
    ) -> Result<(), RequestError> {
        let updates = values.iter().map(|(slot, value)| SlotValue { slot: *slot, value: *value });
        let is_native = |update: &SlotValue| {
            let fence = self.fences.get(update.slot);
            fence.is_some_and(|fence| fence.kind() != FenceKind::Monitored)
        };
        let (native, monitored): (Vec<_>, Vec<_>) = updates.partition(is_native);
        if !native.is_empty() {
            self.miniport.update_current_values_from_cpu(self.guest, &native, flags)?;
        }
        if !monitored.is_empty() {
            // Dxgkrnl writes the values of monitored fences itself.
            let always = flags.always_signaled;
            if flags.notification_only {
                let slots: Vec<_> = monitored.iter().map(|value| value.slot).collect();
                self.platform.notify_current_values(self.guest, &slots, always)?;
            } else {
                self.platform.update_current_values(self.guest, &monitored, always)?;
            }
        }
        for slot in values.keys().filter(|_| !flags.notification_only) {
            self.tell_other_guests(*slot, flags.always_signaled);
        }
        self.check(values.into_keys())
    }

    /// Another guest signaled a fence. `slot` is that of this guest's view.
    pub(crate) fn notify(&mut self, slot: u32, always: bool) -> Result<(), RequestError> {
        let fence = self.fence_mut(slot)?;
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

    /// Makes a fence permanently signaled, which ends all waits for it. If another guest created the fence, only this
    /// guest sees it so.
    pub(crate) fn signal_always(&mut self, slot: u32) -> Result<(), RequestError> {
        if let Some(cross) = self.fence_mut(slot)?.cross()
            && !self.cross_fences.is_creator(cross, self.guest)
        {
            return self.notify(slot, true);
        }
        self.fence_mut(slot)?.always_signal();
        let flags = CurrentValuesFlags { always_signaled: true, ..Default::default() };
        self.update_current_values([(slot, u64::MAX)].into(), flags)
    }

    /// Requests an interrupt when a queue's progress fence reaches `value`, unless it has.
    pub(crate) fn await_drain(&mut self, slot: u32, value: u64) -> Result<(), RequestError> {
        self.fence_mut(slot)?.await_drain(value);
        self.check([slot])
    }

    /// A fence was signaled: tells the other guests that have a view of it.
    pub(crate) fn tell_other_guests(&mut self, slot: u32, always: bool) {
        let fence = self.fences.get(slot);
        if let Some(cross) = fence.and_then(|fence| fence.cross()) {
            self.cross_fences.signal(cross, self.guest, always);
        }
    }

    /// Ends the waits that CurrentValues have reached.
    pub(crate) fn check(
        &mut self,
        fences: impl IntoIterator<Item = u32>,
    ) -> Result<(), RequestError> {
        self.satisfy(fences, None).map(|_| ())
    }

    /// Removes a dropped wait from the fences that it still needs. Returns them: their MonitoredValues may change.
    fn forget(&mut self, id: WaitId, wait: Wait) -> impl Iterator<Item = u32> + use<> {
        self.quotas.refund(Limited::Waits, wait.fences().len() as u64);
        for (slot, needed) in wait.fences() {
            if let Some(fence) = self.fences.get_mut(*slot) {
                fence.waiters().remove(needed.value, id);
            }
        }
        wait.into_fences().into_keys()
    }

    fn end(&mut self, id: WaitId, wait: &Wait, slot: u32, end: End) {
        let (process, owner, since) = (wait.process(), wait.owner(), wait.since());
        self.ended.push(WaitEnded { id, process, owner, since, slot, end });
    }

    /// Satisfies the waits that CurrentValues have reached, and keeps each MonitoredValue at the least waited value
    /// minus 1. Returns whether the wait `own` is among the satisfied ones. Skips a slot without a fence.
    ///
    /// The order is that of `monitor` in protocol::handoff::fence: store MonitoredValues, full fence, re-sample
    /// CurrentValues. So the loop ends only when no value sampled after the current MonitoredValue satisfies a wait.
    /// It does end: only fences that lost waits in a round have another round.
    fn satisfy(
        &mut self,
        fences: impl IntoIterator<Item = u32>,
        own: Option<WaitId>,
    ) -> Result<bool, RequestError> {
        let mut own_is_satisfied = false;
        let mut fences: BTreeSet<_> = fences.into_iter().collect();
        while !fences.is_empty() {
            let mut changed = BTreeSet::new();
            while let Some(slot) = fences.pop_first() {
                if self.fences.get(slot).is_none() {
                    continue;
                }
                changed.insert(slot);
                let current = self.current_value(slot);
                while let Some(id) = self.fence_mut(slot)?.waiters().take_reached(current) {
                    self.quotas.refund(Limited::Waits, 1);
                    let waits = &mut self.fences.waits;
                    let needed = waits.get(id).and_then(|wait| wait.fences().get(&slot)).copied();
                    let Some(wait) = waits.reach(id, slot) else { continue };
                    let is_known = own == Some(id);
                    own_is_satisfied |= is_known;
                    if let Some(needed) = needed {
                        self.end(id, &wait, slot, End::Reached { needed, current, is_known });
                    }
                    // Fences that it no longer needs may need no monitoring.
                    changed.extend(self.forget(id, wait));
                }
                self.fence_mut(slot)?.reach_drain(current);
            }
            fences = self.update_monitored_values(changed)?;
        }
        Ok(own_is_satisfied)
    }

    /// `DxgkDdiUpdateMonitoredValues` for the fences that need another MonitoredValue. Returns them: their
    /// CurrentValues must be sampled again.
    fn update_monitored_values(
        &mut self,
        fences: BTreeSet<u32>,
    ) -> Result<BTreeSet<u32>, UnknownId> {
        let mut updates = Vec::new();
        for slot in fences {
            let Some(fence) = self.fences.get_mut(slot) else { continue };
            let value = fence.update_monitored();
            updates.extend(value.map(|value| SlotValue { slot, value }));
        }
        if !updates.is_empty() {
            self.miniport.update_monitored_values(self.guest, &updates)?;
        }
        Ok(updates.into_iter().map(|update| update.slot).collect())
    }
}
