// SPDX-License-Identifier: MIT OR Apache-2.0

//! Power of the device and its engines: which state each is in, and what it does next.
//!
//! Source: user-mode work submission, "Engine F-state transitions" and "Engine D-state transitions".

use crate::ddi::Miniport;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::recorder::Recorder;
use crate::hardware::{GuestId, Ticket};
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState, PowerInfo};
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

/// What brings the device nearer to D3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerDownStep {
    /// Engines have left the suspended contexts: the rings are evicted.
    EvictRings,
    /// Engines have forgotten where the rings were: the power goes.
    PowerOff,
}

/// Power of the device and its engines.
#[derive(Debug)]
pub(crate) struct Power {
    /// When it changes by itself.
    policy: PowerPolicy,
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
    pub(crate) fn new(engines: u32, recorder: Recorder) -> Self {
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
    pub(crate) fn describe_device(&self) -> (&'static str, u64) {
        let state = match self.device {
            DeviceState::D0 => "D0",
            DeviceState::Suspending(_) | DeviceState::Evicting(_) => "D0 to D3",
            DeviceState::D3 => "D3",
        };
        (state, self.device_transitions)
    }

    /// An engine's state and how often it has gone to F1, for tools.
    pub(crate) fn describe_engine(&self, node: u32) -> Option<(EnginePowerState, u64)> {
        let engine = self.engines.get(node as usize)?;
        Some((engine.state, engine.transitions))
    }

    /// Gives an engine its power back, for a queue of its that is about to have work.
    pub(crate) fn wake_engine(&mut self, node: u32, miniport: &mut dyn Miniport) {
        let Some(engine) = self.engines.get_mut(node as usize) else { return };
        if engine.state != EnginePowerState::F0 {
            self.idle_since = None;
            engine.ask(node, EnginePowerState::F0, miniport);
            self.recorder.engine(node, EnginePowerState::F0);
        }
    }

    /// Whether an engine has power.
    pub(crate) fn is_in_f0(&self, node: u32) -> bool {
        self.engines.get(node as usize).is_some_and(|e| e.state == EnginePowerState::F0)
    }

    /// Takes an engine's power, which its queues' doorbells do not need any more.
    pub(crate) fn power_down_engine(
        &mut self,
        node: u32,
        now: Duration,
        miniport: &mut dyn Miniport,
    ) {
        self.stop_engine(node, miniport);
        self.note_idleness(now);
    }

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
    pub(crate) fn refused(&mut self, node: u32, transition: u64) {
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

    /// Whether the device has power and is not about to lose it.
    pub(crate) fn has_power(&self) -> bool {
        self.device == DeviceState::D0
    }

    /// Whether the device is in D3.
    pub(crate) fn is_off(&self) -> bool {
        self.device == DeviceState::D3
    }

    /// What happens in D3, which the device is on its way to.
    pub(crate) fn await_d3(&mut self, guest: GuestId, completion: Completion) {
        self.waiting.push((guest, completion));
    }

    /// All contexts were suspended, and engines have left them when the ticket has passed.
    pub(crate) fn begin_suspending(&mut self, ticket: Ticket) {
        self.set_device(DeviceState::Suspending(ticket));
    }

    /// All rings were evicted, and engines have forgotten where they were when the ticket has passed.
    pub(crate) fn begin_evicting(&mut self, ticket: Ticket) {
        self.set_device(DeviceState::Evicting(ticket));
    }

    /// What the device can do to come nearer to D3, now that engines have passed a ticket.
    pub(crate) fn next_step(&self, quiesced: Ticket, is_paging: bool) -> Option<PowerDownStep> {
        match self.device {
            DeviceState::Suspending(ticket) if ticket <= quiesced => {
                Some(PowerDownStep::EvictRings)
            }
            DeviceState::Evicting(ticket) if ticket <= quiesced && !is_paging => {
                Some(PowerDownStep::PowerOff)
            }
            _ => None,
        }
    }

    /// Takes the device's power, and that of its engines. Returns what waited for that.
    pub(crate) fn power_off(&mut self, miniport: &mut dyn Miniport) -> Vec<(GuestId, Completion)> {
        for (node, _) in (0..).zip(self.engines.clone()) {
            self.stop_engine(node, miniport);
        }
        self.set_device(DeviceState::D3);
        self.device_transitions += 1;
        std::mem::take(&mut self.waiting)
    }

    /// Gives the device and its engines their power back. Returns whether rings were evicted, and what
    /// waited for D3 in vain.
    pub(crate) fn power_on(
        &mut self,
        miniport: &mut dyn Miniport,
    ) -> (bool, Vec<(GuestId, Completion)>) {
        let was_evicted = matches!(self.device, DeviceState::Evicting(_) | DeviceState::D3);
        self.set_device(DeviceState::D0);
        for (node, _) in (0..).zip(self.engines.clone()) {
            self.wake_engine(node, miniport);
        }
        (was_evicted, std::mem::take(&mut self.waiting))
    }

    /// What a guest is told of the device and an engine.
    pub(crate) fn info(&self, node: u32) -> Option<PowerInfo> {
        let engine = *self.engines.get(node as usize)?;
        let milliseconds = |time: Option<Duration>| {
            time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX))
        };
        Some(PowerInfo {
            device: if self.is_off() { DevicePowerState::D3 } else { DevicePowerState::D0 },
            engine: engine.state,
            device_transitions: self.device_transitions,
            engine_transitions: engine.transitions,
            engine_idle_ms: milliseconds(self.policy.engine_idle),
            device_idle_ms: milliseconds(self.policy.device_idle),
        })
    }

    /// Sets when power states change by themselves.
    pub(crate) fn set_policy(&mut self, policy: PowerPolicy) {
        self.policy = policy;
    }

    /// When the device goes to D3 if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Duration> {
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
