// SPDX-License-Identifier: MIT OR Apache-2.0

//! Power: D3 suspends all contexts, disconnects all doorbells and evicts all rings, and D0 undoes that; F1
//! disconnects the doorbells of one engine. `power::state` keeps the states.
//!
//! Source: user-mode work submission, "Engine F-state transitions" and "Engine D-state transitions".

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::actions::flips::flip_slack;
use crate::dxgkrnl::kernel::rules::connect::disconnect_doorbells;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::power::state::PowerDownStep;
use crate::dxgkrnl::queue::context::Suspension;
use crate::hardware::GuestId;
use bellhop_protocol::control::agent::PowerPolicy;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use std::time::Duration;

impl Kernel {
    /// Disconnects all doorbells of an engine's queues and then powers the engine down: it was idle for long, or a
    /// command or a request asks for it.
    pub(crate) fn power_down_engine(&mut self, node: u32) {
        if !self.power.has_power() {
            return;
        }
        disconnect_doorbells(&mut self.callbacks, self.miniport.as_mut(), &self.queues, |owner| {
            owner.node == node
        });
        self.power.power_down_engine(node, self.now, self.miniport.as_mut());
    }

    /// D0 to D3: suspends all contexts, disconnects all doorbells, and evicts the rings once engines have left the
    /// contexts. Reports `completion` in D3.
    pub(crate) fn power_down(&mut self, guest: GuestId, completion: Completion) {
        if self.power.is_off() {
            return self.complete(guest, completion, Ok(()));
        }
        self.power.await_d3(guest, completion);
        if !self.power.has_power() {
            return;
        }
        self.each_context(|access, context| access.suspend_context(context, Suspension::POWER));
        disconnect_doorbells(&mut self.callbacks, self.miniport.as_mut(), &self.queues, |_| true);
        self.power.begin_suspending(self.platform.quiesce(None));
        self.work.wake(Rule::PowerDown);
    }

    /// Continues what [`Self::power_down`] began, as far as engines have come.
    pub(crate) fn continue_power_down(&mut self) {
        while let Some(step) = self.power.next_step(self.quiesced.all, self.is_paging()) {
            match step {
                PowerDownStep::EvictRings => {
                    self.each_ring(|access, queue| access.evict_ring(queue));
                    self.power.begin_evicting(self.platform.quiesce(None));
                }
                PowerDownStep::PowerOff => self.power_off(),
            }
        }
    }

    /// Powers the device down: it is now in D3.
    fn power_off(&mut self) {
        self.set_power_of_gpus(DevicePowerState::D3);
        let waiting = self.power.power_off(self.miniport.as_mut());
        tracing::debug!("the device is in D3");
        let was_asked_for = waiting.iter().any(|(_, c)| !matches!(c, Completion::Nothing));
        for (guest, completion) in waiting {
            self.complete(guest, completion, Ok(()));
        }
        // A device that went to D3 by itself had idle engines, and no work.
        if was_asked_for && self.is_work_stranded() {
            tracing::debug!("the device has work and goes back to D0");
            self.ensure_power();
        }
    }

    /// Whether accepted work waits only for power. The guest submitted it earlier and need not ask for power: it
    /// waits for the progress fence, perhaps by polling it.
    fn is_work_stranded(&self) -> bool {
        self.queues.iter().any(|(id, owner)| {
            self.has_work(*id, owner, |context| context.state().waits_for_power())
        })
    }

    /// Whether the device is in D3.
    pub(crate) fn is_without_power(&self) -> bool {
        self.power.is_off()
    }

    /// Gives the device power, unless it has it: D3 to D0, with the rings resident again. The caller then does what
    /// needs the power; the work list resumes the contexts only afterwards, so a doorbell is connected before its
    /// queue executes.
    pub(crate) fn ensure_power(&mut self) {
        if self.power.has_power() {
            return;
        }
        let Self { power, gpu_power, tdr, miniport, .. } = self;
        let wakes = |node| gpu_power.has_power(tdr.gpu_of(node));
        let (was_evicted, waiting) = power.power_on(wakes, miniport.as_mut());
        if was_evicted {
            self.each_ring(|access, queue| access.make_ring_resident(queue));
        }
        for (guest, completion) in waiting {
            self.complete(guest, completion, Err(RequestError::PoweredUpAgain));
        }
        self.power_displays();
        self.work.wake(Rule::PowerUp);
    }

    /// Resumes all contexts, after [`Self::ensure_power`].
    pub(crate) fn resume_after_power_up(&mut self) {
        self.each_context(|access, context| access.resume_context(context, Suspension::POWER));
    }

    /// Takes the device to D3 if all engines have been in F1 for long enough.
    pub(crate) fn power_down_when_idle(&mut self) {
        let is_due = self.idle_deadline().is_some_and(|deadline| deadline <= self.now);
        if is_due && !self.is_lit() {
            self.power_down(GuestId(0), Completion::Nothing);
        }
    }

    /// Displays have power again.
    fn power_displays(&mut self) {
        let (now, slack) = (self.now, flip_slack(self.timeout));
        self.set_power_of_gpus(DevicePowerState::D0);
        for guest in self.guests.values_mut() {
            guest.display.restart_deadlines(now, slack);
        }
    }

    /// Whether a guest's monitor shows something: the device does not power down by itself.
    pub(crate) fn is_lit(&self) -> bool {
        self.guests.values().any(|guest| guest.display.is_lit())
    }

    /// Changes the device's state, then reports `completion`.
    pub(crate) fn set_device_power(
        &mut self,
        state: DevicePowerState,
        (guest, completion): (GuestId, Completion),
    ) {
        if state == DevicePowerState::D3 {
            return self.power_down(guest, completion);
        }
        self.ensure_power();
        self.complete(guest, completion, Ok(()));
    }

    /// Changes an engine's state.
    pub(crate) fn set_engine_power(&mut self, node: u32, state: EnginePowerState) {
        match state {
            EnginePowerState::F1 => self.power_down_engine(node),
            // An engine has no power without its GPU.
            _ if !self.may_wake(node) => {}
            _ => self.power.wake_engine(node, self.miniport.as_mut()),
        }
    }

    /// When the device goes to D3 if no engine wakes, as all guests' power policies have it.
    pub(crate) fn idle_deadline(&self) -> Option<Duration> {
        let usual = self.power.deadline()?;
        let open = self.guests.values().filter(|guest| guest.is_open() && !guest.is_detaching());
        let policies: Vec<_> = open.map(|guest| guest.agency.policy()).collect();
        if policies.contains(&PowerPolicy::PERFORMANCE) {
            return None;
        }
        let is_saving = policies.iter().all(|policy| *policy == PowerPolicy::SAVING);
        if is_saving && !policies.is_empty() { self.power.idle_since() } else { Some(usual) }
    }
}
