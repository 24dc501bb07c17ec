// SPDX-License-Identifier: MIT OR Apache-2.0

//! Power: D3 suspends all contexts, disconnects all doorbells and evicts all rings, and D0 undoes that; F1
//! disconnects the doorbells of one engine. `power::state` keeps the states.
//!
//! Source: user-mode work submission, "Engine F-state transitions" and "Engine D-state transitions".

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::power::state::PowerDownStep;
use crate::dxgkrnl::queue::context::{Context, Suspension};
use crate::dxgkrnl::queue::hw_queue::{HwQueue, QueueOwner};
use crate::hardware::{GuestId, HwQueueId, Reported as _};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::power::DevicePowerState;

impl Kernel {
    /// Disconnects all doorbells of an engine's queues and then powers the engine down: it was idle for long, or a
    /// command or a request asks for it.
    pub(crate) fn power_down_engine(&mut self, node: u32, effects: &mut Vec<Effect>) {
        if !self.power.has_power() {
            return;
        }
        self.disconnect_doorbells(|owner| owner.node == node, effects);
        self.power.power_down_engine(node, self.now, self.miniport.as_mut());
    }

    /// D0 to D3: suspends all contexts, disconnects all doorbells, and evicts the rings once engines have left the
    /// contexts. Reports `completion` in D3.
    pub(crate) fn power_down(
        &mut self,
        guest: GuestId,
        completion: Completion,
        effects: &mut Vec<Effect>,
    ) {
        if self.power.is_off() {
            return self.complete(guest, completion, Ok(()), effects);
        }
        self.power.await_d3(guest, completion);
        if !self.power.has_power() {
            return;
        }
        self.each_context(effects, |access, context| {
            access.suspend_context(context, Suspension::POWER)
        });
        self.disconnect_doorbells(|_| true, effects);
        self.power.begin_suspending(self.hardware.quiesce(None));
        self.work.wake(Rule::PowerDown);
    }

    /// Continues what [`Self::power_down`] began, as far as engines have come.
    pub(crate) fn continue_power_down(&mut self, effects: &mut Vec<Effect>) {
        while let Some(step) = self.power.next_step(self.quiesced.all, self.is_paging()) {
            match step {
                PowerDownStep::EvictRings => {
                    self.each_ring(effects, |access, queue| access.evict_ring(queue));
                    self.power.begin_evicting(self.hardware.quiesce(None));
                }
                PowerDownStep::PowerOff => self.power_off(effects),
            }
        }
    }

    /// Powers the device down: it is now in D3.
    fn power_off(&mut self, effects: &mut Vec<Effect>) {
        self.set_power_of_gpus(DevicePowerState::D3);
        let waiting = self.power.power_off(self.miniport.as_mut());
        tracing::debug!("the device is in D3");
        let was_asked_for = waiting.iter().any(|(_, c)| !matches!(c, Completion::Nothing));
        for (guest, completion) in waiting {
            self.complete(guest, completion, Ok(()), effects);
        }
        // A device that went to D3 by itself had idle engines, and no work.
        if was_asked_for && self.is_work_stranded() {
            tracing::debug!("the device has work and goes back to D0");
            self.ensure_power(effects);
        }
    }

    /// Whether accepted work waits only for power. The guest submitted it earlier and need not ask for power: it
    /// waits for the progress fence, perhaps by polling it.
    fn is_work_stranded(&self) -> bool {
        self.queues.iter().any(|(id, owner)| {
            self.has_work(*id, owner, |context| context.state().waits_for_power())
        })
    }

    /// Whether a queue has unfinished work, if its context is as wanted: "In order for Dxgkrnl to know whether a
    /// particular hardware queue has pending work, the UMD needs to update the queued progress fence value"
    /// (user-mode work submission, "HW queue progress fence changes").
    pub(crate) fn has_work(
        &self,
        id: HwQueueId,
        owner: &QueueOwner,
        is_wanted: impl Fn(&Context) -> bool,
    ) -> bool {
        let QueueOwner { guest, process, handle, progress_fence, .. } = *owner;
        let Some(state) = self.guests.get(&guest) else { return false };
        let Ok(queue) = state.handles.get::<HwQueue>(process, handle) else { return false };
        let context = state.handles.get::<Context>(process, queue.context());
        if queue.is_in_error() || !context.is_ok_and(is_wanted) {
            return false;
        }
        let queued = self.hardware.last_queued_value(id).reported();
        !queue.is_idle() || queued > self.hardware.fence_value(guest, progress_fence).reported()
    }

    /// Whether the device is in D3.
    pub(crate) fn is_without_power(&self) -> bool {
        self.power.is_off()
    }

    /// Gives the device power, unless it has it: D3 to D0, with the rings resident again. The caller then does what
    /// needs the power; the work list resumes the contexts only afterwards, so a doorbell is connected before its
    /// queue executes.
    pub(crate) fn ensure_power(&mut self, effects: &mut Vec<Effect>) {
        if self.power.has_power() {
            return;
        }
        let Self { power, gpu_power, tdr, miniport, .. } = self;
        let wakes = |node| gpu_power.has_power(tdr.gpu_of(node));
        let (was_evicted, waiting) = power.power_on(wakes, miniport.as_mut());
        if was_evicted {
            self.each_ring(effects, |access, queue| access.make_ring_resident(queue));
        }
        for (guest, completion) in waiting {
            self.complete(guest, completion, Err(RequestError::PoweredUpAgain), effects);
        }
        self.power_displays();
        self.work.wake(Rule::PowerUp);
    }

    /// Resumes all contexts, after [`Self::ensure_power`].
    pub(crate) fn resume_after_power_up(&mut self, effects: &mut Vec<Effect>) {
        self.each_context(effects, |access, context| {
            access.resume_context(context, Suspension::POWER)
        });
    }

    /// Takes the device to D3 if all engines have been in F1 for long enough.
    pub(crate) fn power_down_when_idle(&mut self, effects: &mut Vec<Effect>) {
        let is_due = self.idle_deadline().is_some_and(|deadline| deadline <= self.now);
        if is_due && !self.is_lit() {
            self.power_down(GuestId(0), Completion::Nothing, effects);
        }
    }

    /// Calls `act` with each context of each guest.
    pub(crate) fn each_context(
        &mut self,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        for guest in self.guests.keys().copied().collect::<Vec<_>>() {
            self.each_context_of_guest(guest, effects, &act);
        }
    }

    /// Calls `act` with each context of a guest.
    pub(crate) fn each_context_of_guest(
        &mut self,
        guest: GuestId,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let processes = self.guests.get(&guest).map(|guest| guest.processes.keys().copied());
        for process in processes.into_iter().flatten().collect::<Vec<_>>() {
            self.each_context_of(guest, process, effects, &act);
        }
    }

    /// Calls `act` with each context of a process.
    pub(crate) fn each_context_of(
        &mut self,
        guest: GuestId,
        process: u32,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let Some(mut access) = self.access(guest, process, effects) else { return };
        for context in access.contexts() {
            if let Err(error) = act(&mut access, context) {
                tracing::error!(guest = guest.0, process, %context, %error, "a context is missing");
            }
        }
        let given_up = access.into_given_up();
        self.retire_given_up(guest, given_up);
    }

    /// Calls `act` with each queue.
    fn each_ring(
        &mut self,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let owners: Vec<_> = self.queues.values().copied().collect();
        for owner in owners {
            let Some(mut access) = self.access(owner.guest, owner.process, effects) else {
                continue;
            };
            if let Err(error) = act(&mut access, owner.handle) {
                let span = queue_span(owner.process, owner.handle);
                tracing::error!(parent: &span, guest = owner.guest.0, %error, "a ring is missing");
            }
        }
    }
}
