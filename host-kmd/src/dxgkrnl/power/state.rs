// SPDX-License-Identifier: MIT OR Apache-2.0

//! Power of the device and its engines: the state of each, and the next transition.
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
    /// Idle time after which an engine asks for F1; only reported to the guest, because the engine decides. `None` is
    /// never; the kernel then detects idleness by itself.
    pub engine_idle: Option<Duration>,
    /// How long all engines are in F1 before the device goes to D3. `None` is never.
    pub device_idle: Option<Duration>,
}

/// The transitions of the device between D0 and D3.
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
    /// Engines have not left the suspended contexts yet.
    Suspending(Ticket),
    /// Engines have not forgotten the addresses of the rings yet.
    Evicting(Ticket),
    /// It has no power.
    D3,
}

/// One engine's component.
#[derive(Debug, Clone, Copy)]
struct Engine {
    state: EnginePowerState,
    /// Number of transitions to F1.
    transitions: u64,
    /// Number of transitions requested, to either state; numbers each request.
    asked: u64,
}

impl Engine {
    /// Requests a state that the engine is not in.
    fn ask(&mut self, node: u32, state: EnginePowerState, miniport: &mut dyn Miniport) {
        self.state = state;
        self.asked += 1;
        miniport.set_power_component_f_state(node, state, self.asked);
    }
}

/// A step that takes the device closer to D3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PowerDownStep {
    /// Engines have left the suspended contexts: evict the rings.
    EvictRings,
    /// Engines have forgotten the addresses of the rings: power down.
    PowerOff,
}

/// Power of the device and its engines.
#[derive(Debug)]
pub(crate) struct Power {
    /// When power states change by themselves.
    policy: PowerPolicy,
    device: DeviceState,
    device_transitions: u64,
    engines: Vec<Engine>,
    /// Since when all engines are in F1.
    idle_since: Option<Duration>,
    /// Completions to report in D3.
    waiting: Vec<(GuestId, Completion)>,
    recorder: Recorder,
}

impl Power {
    /// Creates the state in which everything has power.
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

    /// Gives an engine its power back, because one of its queues is about to have work.
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

    /// Powers an engine down. The doorbells of its queues are disconnected already.
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

    /// An engine had work when it was asked for F1, and kept its power. Ignored for any transition but the last: the
    /// engine has been asked for another since.
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

    /// Adds a completion to report in D3, to which the device is on its way.
    pub(crate) fn await_d3(&mut self, guest: GuestId, completion: Completion) {
        self.waiting.push((guest, completion));
    }

    /// All contexts are suspended; engines have left them when the ticket has passed.
    pub(crate) fn begin_suspending(&mut self, ticket: Ticket) {
        self.set_device(DeviceState::Suspending(ticket));
    }

    /// All rings are evicted; engines have forgotten their addresses when the ticket has passed.
    pub(crate) fn begin_evicting(&mut self, ticket: Ticket) {
        self.set_device(DeviceState::Evicting(ticket));
    }

    /// The step that takes the device closer to D3, if engines have passed its ticket.
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

    /// Powers down the device and its engines. Returns the completions to report.
    pub(crate) fn power_off(&mut self, miniport: &mut dyn Miniport) -> Vec<(GuestId, Completion)> {
        for (node, _) in (0..).zip(self.engines.clone()) {
            self.stop_engine(node, miniport);
        }
        self.set_device(DeviceState::D3);
        self.device_transitions += 1;
        std::mem::take(&mut self.waiting)
    }

    /// Powers up the device and those of its engines that wake with it. Returns whether rings were evicted, and the completions that waited for
    /// D3 in vain.
    pub(crate) fn power_on(
        &mut self,
        wakes: impl Fn(u32) -> bool,
        miniport: &mut dyn Miniport,
    ) -> (bool, Vec<(GuestId, Completion)>) {
        let was_evicted = matches!(self.device, DeviceState::Evicting(_) | DeviceState::D3);
        self.set_device(DeviceState::D0);
        for (node, _) in (0..).zip(self.engines.clone()).filter(|(node, _)| wakes(*node)) {
            self.wake_engine(node, miniport);
        }
        (was_evicted, std::mem::take(&mut self.waiting))
    }

    /// The power information for a guest about the device and an engine.
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

    /// When the device goes to D3 if no engine wakes.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let idle = self.policy.device_idle.filter(|_| self.device == DeviceState::D0)?;
        self.idle_since.map(|since| since.saturating_add(idle))
    }

    /// Since when all engines are in F1, of a device that goes to D3 by itself.
    pub(crate) fn idle_since(&self) -> Option<Duration> {
        self.idle_since.filter(|_| self.deadline().is_some())
    }

    fn note_idleness(&mut self, now: Duration) {
        let mut engines = self.engines.iter();
        if engines.all(|engine| engine.state == EnginePowerState::F1) {
            self.idle_since.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dxgkrnl::object::promises::Promise;
    use crate::miniport::BellhopMiniport;
    use crate::model::{Call, Model};
    use std::sync::Arc;

    const F0: EnginePowerState = EnginePowerState::F0;
    const F1: EnginePowerState = EnginePowerState::F1;
    const SECOND: Duration = Duration::from_secs(1);
    const GUEST: GuestId = GuestId(1);

    /// The power of two engines, with the driver that changes it.
    struct Rig {
        model: Arc<Model>,
        miniport: BellhopMiniport,
        power: Power,
    }

    impl Rig {
        fn new() -> Self {
            let model = Arc::new(Model::new(1));
            let miniport = BellhopMiniport::new(Arc::clone(&model) as _);
            let power = Power::new(2, Recorder::new(Arc::clone(&model) as _));
            Self { model, miniport, power }
        }

        fn power_down(&mut self, node: u32, now: Duration) {
            self.power.power_down_engine(node, now, &mut self.miniport);
        }

        fn wake(&mut self, node: u32) {
            self.power.wake_engine(node, &mut self.miniport);
        }

        /// An engine refuses to give up its power.
        fn refuse(&mut self, node: u32, transition: u64) {
            self.model.state().without_power.remove(&node);
            self.power.refused(node, transition);
        }

        fn engine(&self, node: u32) -> (EnginePowerState, u64) {
            self.power.describe_engine(node).unwrap()
        }

        /// The states requested of engines since the last call.
        fn asked(&self) -> Vec<(u32, EnginePowerState)> {
            let log = self.model.take_log().into_iter();
            log.filter_map(|call| match call {
                Call::EnginePower(node, state) => Some((node, state)),
                _ => None,
            })
            .collect()
        }
    }

    #[test]
    fn the_driver_is_asked_only_for_a_state_that_an_engine_is_not_in() {
        let mut rig = Rig::new();
        rig.wake(0);
        assert_eq!(rig.asked(), []);
        rig.power_down(0, SECOND);
        rig.power_down(0, SECOND);
        assert_eq!(rig.asked(), [(0, F1)]);
        assert!(!rig.power.is_in_f0(0) && rig.power.is_in_f0(1));
        rig.wake(0);
        rig.wake(0);
        assert_eq!(rig.asked(), [(0, F0)]);
        // There is no engine 2.
        rig.wake(2);
        rig.power_down(2, SECOND);
        assert_eq!(rig.asked(), []);
    }

    #[test]
    fn an_engine_that_refuses_f1_stays_in_f0_unless_it_was_asked_again_since() {
        let mut rig = Rig::new();
        rig.power_down(0, SECOND);
        rig.wake(0);
        rig.power_down(0, SECOND);
        // The first transition to F1 was number 1, the second is number 3.
        rig.power.refused(0, 1);
        assert_eq!(rig.engine(0), (F1, 2));
        rig.refuse(0, 3);
        assert_eq!(rig.engine(0), (F0, 1));
    }

    #[test]
    fn d3_waits_for_engines_to_leave_contexts_then_to_forget_rings_and_for_paging() {
        let mut rig = Rig::new();
        let power = &mut rig.power;
        assert_eq!(power.next_step(Ticket(9), false), None);
        power.await_d3(GUEST, Completion::Reply(Promise::numbered(7)));
        power.begin_suspending(Ticket(3));
        assert!(!power.has_power() && !power.is_off());
        assert_eq!(power.next_step(Ticket(2), false), None);
        assert_eq!(power.next_step(Ticket(3), true), Some(PowerDownStep::EvictRings));
        power.begin_evicting(Ticket(5));
        assert_eq!(power.next_step(Ticket(4), false), None);
        assert_eq!(power.next_step(Ticket(5), true), None);
        assert_eq!(power.next_step(Ticket(5), false), Some(PowerDownStep::PowerOff));
        let waited = power.power_off(&mut rig.miniport);
        assert!(
            matches!(&waited[..], [(GUEST, Completion::Reply(promise))] if promise.number() == 7)
        );
        assert!(rig.power.is_off());
        assert_eq!(rig.asked(), [(0, F1), (1, F1)]);
        assert_eq!(rig.power.describe_device(), ("D3", 1));
        let (was_evicted, waiting) = rig.power.power_on(|_| true, &mut rig.miniport);
        assert!(was_evicted && waiting.is_empty() && rig.power.has_power());
        assert_eq!(rig.asked(), [(0, F0), (1, F0)]);
    }

    #[test]
    fn a_device_that_is_woken_on_its_way_to_d3_hands_back_what_waited() {
        for (evicts, rings_were_evicted) in [(false, false), (true, true)] {
            let mut rig = Rig::new();
            rig.power.await_d3(GUEST, Completion::Nothing);
            rig.power.begin_suspending(Ticket(3));
            if evicts {
                rig.power.begin_evicting(Ticket(5));
            }
            let (was_evicted, waiting) = rig.power.power_on(|_| true, &mut rig.miniport);
            assert_eq!(was_evicted, rings_were_evicted);
            assert!(matches!(waiting[..], [(GUEST, Completion::Nothing)]));
            assert_eq!(rig.power.describe_device(), ("D0", 0));
            // No engine had lost its power.
            assert_eq!(rig.asked(), []);
        }
    }

    #[test]
    fn idleness_counts_from_when_the_last_engine_went_to_f1() {
        let mut rig = Rig::new();
        let device_idle = Some(10 * SECOND);
        rig.power.set_policy(PowerPolicy { engine_idle: None, device_idle });
        rig.power_down(0, SECOND);
        assert_eq!(rig.power.deadline(), None);
        rig.power_down(1, 3 * SECOND);
        assert_eq!(rig.power.deadline(), Some(13 * SECOND));
        rig.power_down(1, 7 * SECOND);
        assert_eq!(rig.power.deadline(), Some(13 * SECOND));
        rig.wake(0);
        assert_eq!(rig.power.deadline(), None);
        rig.power_down(0, 20 * SECOND);
        assert_eq!(rig.power.deadline(), Some(30 * SECOND));
        // An engine that refused F1 is not idle either.
        rig.refuse(0, 3);
        assert_eq!(rig.power.deadline(), None);
        rig.power_down(0, 40 * SECOND);
        rig.power.begin_suspending(Ticket(1));
        assert_eq!(rig.power.deadline(), None);
    }
}
