//! Power: F-states of engines and D-states of the device.
//!
//! Source: user-mode work submission, "Engine F-state transitions" and "Engine D-state
//! transitions".

use super::context::{Context, Suspension};
use super::doorbell::DisconnectReason;
use super::error::RequestError;
use super::hw_queue::{HwQueue, QueueOwner};
use super::kernel::Kernel;
use super::request::{Answer, Handled, zero};
use super::retire::Completion;
use super::scope::Scope;
use super::trace::Recorder;
use crate::ddi::Miniport;
use crate::hardware::{GuestId, HwQueueId, Ticket};
use crate::port::Effect;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::power::{
    DevicePowerState, EnginePowerState, PowerInfo, QueryPower, SetDevicePower, SetEnginePower,
};
use bellhop_protocol::features::Features;
use std::time::Duration;

/// When power states change by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PowerPolicy {
    /// After how long without work an engine asks for F1: told to the guest only, because the
    /// engine decides. `None` is never; the kernel then sees by itself that it does nothing.
    pub engine_idle: Option<Duration>,
    /// How long all engines are in F1 until the device goes to D3. `None` is never.
    pub device_idle: Option<Duration>,
}

/// The way of the device between D0 and D3.
///
/// ```text
///  D0 ──demand, idle: suspend contexts,──> Suspending ──ticket: evict rings──> Evicting ──ticket──> D3
///  ^                  disconnect doorbells     │                                  │                 │
///  └──────wake: power, rings resident, (connect the doorbell,) resume contexts────┴─────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceState {
    /// It has power.
    D0,
    /// Engines have yet to leave the suspended contexts.
    Suspending(Ticket),
    /// Engines have yet to forget where the rings were.
    Evicting(Ticket),
    /// It has no power.
    D3,
}

/// One engine's component.
#[derive(Debug, Clone, Copy)]
struct Engine {
    state: EnginePowerState,
    /// How often it went to F1.
    transitions: u64,
    /// How often it was asked for either state, which numbers what it is asked for.
    asked: u64,
}

impl Engine {
    /// Asks for a state that it is not in.
    fn ask(&mut self, node: u32, state: EnginePowerState, miniport: &mut dyn Miniport) {
        self.state = state;
        self.asked += 1;
        miniport.set_power_component_f_state(node, state, self.asked);
    }
}

/// Power of the device and its engines.
#[derive(Debug)]
pub(super) struct Power {
    /// When it changes by itself.
    pub(super) policy: PowerPolicy,
    device: DeviceState,
    device_transitions: u64,
    engines: Vec<Engine>,
    /// Since when all engines have been in F1.
    idle_since: Option<Duration>,
    /// Who waits for D3.
    waiting: Vec<(GuestId, Completion)>,
    recorder: Recorder,
}

impl Power {
    /// Everything has power.
    pub(super) fn new(engines: u32, recorder: Recorder) -> Self {
        let engine = Engine { state: EnginePowerState::F0, transitions: 0, asked: 0 };
        Self {
            policy: PowerPolicy::default(),
            device: DeviceState::D0,
            device_transitions: 0,
            engines: (0..engines).map(|_| engine).collect(),
            idle_since: None,
            waiting: Vec::new(),
            recorder,
        }
    }

    fn set_device(&mut self, state: DeviceState) {
        self.device = state;
        let (name, _) = self.describe_device();
        self.recorder.device(name);
    }

    /// The device's state and how often it has gone to D3, for tools.
    pub(super) fn describe_device(&self) -> (&'static str, u64) {
        let state = match self.device {
            DeviceState::D0 => "D0",
            DeviceState::Suspending(_) | DeviceState::Evicting(_) => "D0 to D3",
            DeviceState::D3 => "D3",
        };
        (state, self.device_transitions)
    }

    /// An engine's state and how often it has gone to F1, for tools.
    pub(super) fn describe_engine(&self, node: u32) -> Option<(EnginePowerState, u64)> {
        let engine = self.engines.get(node as usize)?;
        Some((engine.state, engine.transitions))
    }

    /// Gives an engine its power back, for a queue of its that is about to have work.
    pub(super) fn wake_engine(&mut self, node: u32, miniport: &mut dyn Miniport) {
        let Some(engine) = self.engines.get_mut(node as usize) else { return };
        if engine.state != EnginePowerState::F0 {
            self.idle_since = None;
            engine.ask(node, EnginePowerState::F0, miniport);
            self.recorder.engine(node, EnginePowerState::F0);
        }
    }

    /// Whether an engine has power.
    pub(super) fn is_in_f0(&self, node: u32) -> bool {
        self.engines.get(node as usize).is_some_and(|e| e.state == EnginePowerState::F0)
    }

    /// Takes an engine's power.
    fn stop_engine(&mut self, node: u32, miniport: &mut dyn Miniport) {
        let Some(engine) = self.engines.get_mut(node as usize) else { return };
        if engine.state != EnginePowerState::F1 {
            engine.transitions += 1;
            engine.ask(node, EnginePowerState::F1, miniport);
            self.recorder.engine(node, EnginePowerState::F1);
        }
    }

    /// An engine had work when its power was taken, and kept it. Of an earlier transition than the last
    /// this says nothing: the engine has been asked for something else since.
    pub(super) fn refused(&mut self, node: u32, transition: u64) {
        if let Some(engine) = self.engines.get_mut(node as usize)
            && engine.state == EnginePowerState::F1
            && engine.asked == transition
        {
            engine.state = EnginePowerState::F0;
            engine.transitions -= 1;
            self.idle_since = None;
            self.recorder.engine(node, EnginePowerState::F0);
        }
    }

    /// When the device goes to D3 if nothing happens.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let idle = self.policy.device_idle.filter(|_| self.device == DeviceState::D0)?;
        self.idle_since.map(|since| since.saturating_add(idle))
    }

    fn note_idleness(&mut self, now: Duration) {
        let mut engines = self.engines.iter();
        if engines.all(|engine| engine.state == EnginePowerState::F1) {
            self.idle_since.get_or_insert(now);
        }
    }
}

impl Kernel {
    /// An engine has been idle for long, or somebody wants it to have no power: disconnects all
    /// doorbells of its queues, and then takes its power.
    pub(super) fn power_down_engine(&mut self, node: u32, effects: &mut Vec<Effect>) {
        if self.power.device != DeviceState::D0 {
            return;
        }
        let connected = |(id, owner): (&HwQueueId, &QueueOwner)| {
            let state = self.callbacks.state(*id)?;
            (owner.node == node && state.is_connected()).then_some((*id, *owner))
        };
        let connected: Vec<_> = self.queues.iter().filter_map(connected).collect();
        for (id, owner) in connected {
            if let Some(mut scope) = self.scope(owner.guest, owner.process, effects) {
                scope.disconnect(id, DisconnectReason::Retry);
            }
        }
        self.power.stop_engine(node, self.miniport.as_mut());
        self.power.note_idleness(self.now);
    }

    /// D0 to D3: suspends all contexts, disconnects all doorbells, and, once engines have left the
    /// contexts, evicts the rings. `completion` happens in D3.
    pub(super) fn power_down(
        &mut self,
        guest: GuestId,
        completion: Completion,
        effects: &mut Vec<Effect>,
    ) {
        if self.power.device == DeviceState::D3 {
            return self.complete(guest, completion, Ok(()), effects);
        }
        self.power.waiting.push((guest, completion));
        if self.power.device != DeviceState::D0 {
            return;
        }
        self.each_context(effects, |scope, context| {
            scope.suspend_context(context, Suspension::POWER)
        });
        let queues: Vec<_> = self.queues.iter().map(|(id, owner)| (*id, *owner)).collect();
        for (id, owner) in queues {
            if self.callbacks.state(id).is_some_and(|state| state.is_connected())
                && let Some(mut scope) = self.scope(owner.guest, owner.process, effects)
            {
                scope.disconnect(id, DisconnectReason::Retry);
            }
        }
        self.power.set_device(DeviceState::Suspending(self.hardware.quiesce(None)));
    }

    /// Goes on with what [`Self::power_down`] began, as far as engines have come.
    pub(super) fn continue_power_down(&mut self, effects: &mut Vec<Effect>) {
        let quiesced = self.hardware.quiesced();
        if let DeviceState::Suspending(ticket) = self.power.device
            && ticket <= quiesced
        {
            self.each_ring(effects, |scope, queue| scope.evict_ring(queue));
            self.power.set_device(DeviceState::Evicting(self.hardware.quiesce(None)));
        }
        if let DeviceState::Evicting(ticket) = self.power.device
            && ticket <= self.hardware.quiesced()
            && !self.is_paging()
        {
            for (node, _) in (0..).zip(self.power.engines.clone()) {
                self.power.stop_engine(node, self.miniport.as_mut());
            }
            self.power.set_device(DeviceState::D3);
            self.power.device_transitions += 1;
            tracing::debug!("the device is in D3");
            let waiting = std::mem::take(&mut self.power.waiting);
            let was_asked_for = waiting.iter().any(|(_, c)| !matches!(c, Completion::Nothing));
            for (guest, completion) in waiting {
                self.complete(guest, completion, Ok(()), effects);
            }
            // One that went by itself did so because its engines, which know, had nothing to do.
            if was_asked_for && self.is_work_stranded() {
                tracing::debug!("the device has work and goes back to D0");
                self.ensure_power(effects);
            }
        }
    }

    /// Whether only power is missing to some work that was accepted. Its guest need not ask for power, having
    /// submitted it before that went: it waits for the progress fence, perhaps by looking at it.
    fn is_work_stranded(&self) -> bool {
        self.queues
            .iter()
            .any(|(id, owner)| self.has_work(*id, owner, |context| context.state.waits_for_power()))
    }

    /// Whether a queue whose context is as wanted was given something that it has not done: "In order for
    /// Dxgkrnl to know whether a particular hardware queue has pending work, the UMD needs to update the queued
    /// progress fence value" (user-mode work submission, "HW queue progress fence changes").
    pub(super) fn has_work(
        &self,
        id: HwQueueId,
        owner: &QueueOwner,
        is_wanted: impl Fn(&Context) -> bool,
    ) -> bool {
        let QueueOwner { guest, process, handle, progress_fence, .. } = *owner;
        let Some(state) = self.guests.get(&guest) else { return false };
        let Ok(queue) = state.handles.get::<HwQueue>(process, handle) else { return false };
        let context = state.handles.get::<Context>(process, queue.context);
        if queue.in_error || !context.is_ok_and(is_wanted) {
            return false;
        }
        let queued = self.hardware.last_queued_value(id);
        !queue.in_flight.is_empty() || queued > self.hardware.fence_value(guest, progress_fence)
    }

    /// Whether the device has power and is not about to lose it.
    pub(super) fn has_power(&self) -> bool {
        self.power.device == DeviceState::D0
    }

    /// Whether the device is in D3.
    pub(super) fn is_without_power(&self) -> bool {
        self.power.device == DeviceState::D3
    }

    /// First half of D3 to D0: power, and the rings resident again. What needs the power comes
    /// between this and [`Self::resume_after_power_up`].
    pub(super) fn power_up(&mut self, effects: &mut Vec<Effect>) {
        let was_evicted = matches!(self.power.device, DeviceState::Evicting(_) | DeviceState::D3);
        self.power.set_device(DeviceState::D0);
        for (node, _) in (0..).zip(self.power.engines.clone()) {
            self.power.wake_engine(node, self.miniport.as_mut());
        }
        if was_evicted {
            self.each_ring(effects, |scope, queue| scope.make_ring_resident(queue));
        }
        for (guest, completion) in std::mem::take(&mut self.power.waiting) {
            self.complete(guest, completion, Err(RequestError::PoweredUpAgain), effects);
        }
    }

    /// The device has power, now or already: both halves of D3 to D0.
    pub(super) fn ensure_power(&mut self, effects: &mut Vec<Effect>) {
        if !self.has_power() {
            self.power_up(effects);
            self.resume_after_power_up(effects);
        }
    }

    /// Second half of D3 to D0: all contexts go on.
    pub(super) fn resume_after_power_up(&mut self, effects: &mut Vec<Effect>) {
        self.each_context(effects, |scope, context| {
            scope.resume_context(context, Suspension::POWER)
        });
    }

    /// All engines have been in F1 for long enough.
    pub(super) fn power_down_when_idle(&mut self, effects: &mut Vec<Effect>) {
        if self.power.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.power_down(GuestId(0), Completion::Nothing, effects);
        }
    }

    /// Does something with each context of each guest.
    pub(super) fn each_context(
        &mut self,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut Scope<'_>, Handle) -> Result<(), RequestError>,
    ) {
        for guest in self.guests.keys().copied().collect::<Vec<_>>() {
            self.each_context_of_guest(guest, effects, &act);
        }
    }

    /// Does something with each context of a guest.
    pub(super) fn each_context_of_guest(
        &mut self,
        guest: GuestId,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut Scope<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let processes = self.guests.get(&guest).map(|guest| guest.processes.keys().copied());
        for process in processes.into_iter().flatten().collect::<Vec<_>>() {
            self.each_context_of(guest, process, effects, &act);
        }
    }

    /// Does something with each context of a process.
    pub(super) fn each_context_of(
        &mut self,
        guest: GuestId,
        process: u32,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut Scope<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let Some(mut scope) = self.scope(guest, process, effects) else { return };
        for context in scope.contexts() {
            if let Err(error) = act(&mut scope, context) {
                tracing::error!(guest = guest.0, process, %context, %error, "a context is missing");
            }
        }
        let given_up = scope.given_up;
        self.retire_given_up(guest, given_up);
    }

    /// Does something with the doorbell of each queue.
    fn each_ring(
        &mut self,
        effects: &mut Vec<Effect>,
        act: impl Fn(&mut Scope<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let owners: Vec<_> = self.queues.values().copied().collect();
        for owner in owners {
            let Some(mut scope) = self.scope(owner.guest, owner.process, effects) else { continue };
            if let Err(error) = act(&mut scope, owner.handle) {
                tracing::error!(guest = owner.guest.0, queue = %owner.handle, %error, "a ring is missing");
            }
        }
    }
}

impl Scope<'_> {
    /// The process's contexts.
    pub(super) fn contexts(&mut self) -> Vec<Handle> {
        let Ok(process) = self.process() else { return Vec::new() };
        let devices = process.devices.clone();
        let contexts = |device: &Handle| match self.get::<super::device::Device>(*device) {
            Ok(device) => device.contexts.iter().copied().collect(),
            Err(_) => Vec::new(),
        };
        devices.iter().flat_map(contexts).filter(|c| self.get::<Context>(*c).is_ok()).collect()
    }

    /// What state the device and an engine are in.
    pub(super) fn query_power(&mut self, request: QueryPower) -> Handled<PowerInfo> {
        zero("reserved", request.reserved)?;
        let engine = self.power.engines.get(request.node as usize);
        let engine = *engine.ok_or(RequestError::parameter("node", request.node.into()))?;
        let device = match self.power.device {
            DeviceState::D3 => DevicePowerState::D3,
            _ => DevicePowerState::D0,
        };
        let milliseconds = |time: Option<Duration>| {
            time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX))
        };
        Ok(Answer::Done(PowerInfo {
            device,
            engine: engine.state,
            device_transitions: self.power.device_transitions,
            engine_transitions: engine.transitions,
            engine_idle_ms: milliseconds(self.power.policy.engine_idle),
            device_idle_ms: milliseconds(self.power.policy.device_idle),
        }))
    }

    fn check_power_control(&self) -> Result<(), RequestError> {
        match self.guest.features.contains(Features::POWER_CONTROL) {
            true => Ok(()),
            false => Err(RequestError::NotSupported("changing power states")),
        }
    }

    /// The guest changes the device's state.
    pub(super) fn set_device_power(&mut self, request: SetDevicePower) -> Handled<()> {
        zero("reserved", request.reserved)?;
        self.check_power_control()?;
        match request.state {
            DevicePowerState::D0 | DevicePowerState::D3 => Ok(Answer::DevicePower(request.state)),
            state => Err(RequestError::parameter("state", state.0.into())),
        }
    }

    /// The guest changes an engine's state.
    pub(super) fn set_engine_power(&mut self, request: SetEnginePower) -> Handled<()> {
        self.check_power_control()?;
        self.node(request.node)?;
        match request.state {
            EnginePowerState::F0 | EnginePowerState::F1 => {
                Ok(Answer::EnginePower(request.node, request.state))
            }
            state => Err(RequestError::parameter("state", state.0.into())),
        }
    }
}
