// SPDX-License-Identifier: MIT OR Apache-2.0

//! The times and targets of control events, derived from the scenario and the seed alone.

use crate::harness::scenario::layout::Layout;
use crate::harness::scenario::seed::Choices;
use crate::harness::scenario::{Action, DeviceState, EngineState, Scenario};
use std::fmt;
use std::time::Duration;

/// The target of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::harness) enum Target {
    /// A guest.
    Guest(usize),
    /// A queue.
    Queue(usize),
    /// A context, by its first queue.
    Context(usize),
    /// The host, or the run itself.
    Host,
}

/// What an action is about, as the scenario names it: a pattern that may match several.
#[derive(Debug, Clone, Copy)]
pub(in crate::harness) enum Subject<'a> {
    Guest(&'a str),
    Queue(&'a str),
    Context(&'a str),
    /// The host, or the run itself.
    Host,
}

/// An event with all choices made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::harness) struct Planned {
    /// The number of the scenario's event.
    pub(in crate::harness) event: usize,
    /// When, from the start; `None` on a condition.
    pub(in crate::harness) at: Option<Duration>,
    pub(in crate::harness) action: Action,
    pub(in crate::harness) target: Target,
}

/// The text of an event in a report.
pub(in crate::harness) struct Described<'a> {
    pub(in crate::harness) planned: &'a Planned,
    pub(in crate::harness) layout: &'a Layout,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Planned { action, target, .. } = self.planned;
        f.write_str(&action.name())?;
        let Layout { guests, lanes, .. } = self.layout;
        match *target {
            Target::Guest(place) => write!(f, " {}", guests[place].name)?,
            Target::Queue(place) => write!(f, " {}", lanes[place])?,
            Target::Context(place) => write!(f, " {}", lanes[place].context_name())?,
            Target::Host => {}
        }
        match action {
            Action::EndProcess { process, .. } => write!(f, " process {process}"),
            Action::QueueStorm { node, queues, .. } => write!(f, " {queues} queues on node {node}"),
            Action::ConnectStorm { connects, .. } => write!(f, " {connects} times"),
            Action::DevicePower { state, .. } => write!(f, " {state:?}"),
            Action::EnginePower { node, state, .. } => write!(f, " node {node} {state:?}"),
            Action::WriteDoorbells { r#for, .. } => write!(f, " for {for:?}"),
            _ => Ok(()),
        }
    }
}

impl Action {
    /// Its name in a scenario.
    fn name(&self) -> String {
        let table = toml::Table::try_from(self).unwrap_or_default();
        table.get("action").and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    }

    /// The action that undoes this one, and after which time.
    pub(in crate::harness) fn undoing(&self) -> Option<(Duration, Self)> {
        let (after, undoing) = match self {
            Self::SuspendContext { context, r#for } => {
                (r#for, Self::ResumeContext { context: context.clone() })
            }
            Self::SuspendGuest { guest, r#for } => {
                (r#for, Self::ResumeGuest { guest: guest.clone() })
            }
            Self::DevicePower { r#for, .. } => {
                (r#for, Self::DevicePower { state: DeviceState::D0, r#for: None })
            }
            Self::EnginePower { node, r#for, .. } => {
                (r#for, Self::EnginePower { node: *node, state: EngineState::F0, r#for: None })
            }
            _ => return None,
        };
        Some(((*after)?.get(), undoing))
    }

    /// Whether the host carries it out, not the guest.
    pub(in crate::harness) fn is_the_host_s(&self) -> bool {
        matches!(
            self,
            Self::SuspendGuest { .. }
                | Self::ResumeGuest { .. }
                | Self::DisconnectGuest { .. }
                | Self::FailGuest { .. }
        )
    }

    /// What it is about.
    pub(in crate::harness) fn subject(&self) -> Subject<'_> {
        match self {
            Self::BadPacket { queue } | Self::ConnectStorm { queue, .. } => Subject::Queue(queue),
            Self::KillGuest { guest }
            | Self::ResetGuest { guest }
            | Self::EndProcess { guest, .. }
            | Self::QueueStorm { guest, .. }
            | Self::WriteDoorbells { guest, .. }
            | Self::AnnounceMemory { guest }
            | Self::SuspendGuest { guest, .. }
            | Self::ResumeGuest { guest }
            | Self::DisconnectGuest { guest }
            | Self::FailGuest { guest } => Subject::Guest(guest),
            Self::SuspendContext { context, .. } | Self::ResumeContext { context } => {
                Subject::Context(context)
            }
            Self::DevicePower { .. } | Self::EnginePower { .. } | Self::End => Subject::Host,
        }
    }
}

impl Subject<'_> {
    /// The key that names it.
    pub(in crate::harness) fn key(self) -> &'static str {
        match self {
            Self::Guest(_) => "guest",
            Self::Queue(_) => "queue",
            Self::Context(_) => "context",
            Self::Host => "host",
        }
    }

    /// The targets that it names.
    pub(in crate::harness) fn targets(self, layout: &Layout) -> Vec<Target> {
        match self {
            Self::Guest(name) => layout.guests(name).into_iter().map(Target::Guest).collect(),
            Self::Queue(name) => layout.lanes(name).into_iter().map(Target::Queue).collect(),
            Self::Context(name) => layout.contexts(name).into_iter().map(Target::Context).collect(),
            Self::Host => vec![Target::Host],
        }
    }
}

/// The occurrences of one event.
struct Source {
    event: usize,
    choices: Choices,
    /// The next occurrence's number, and the number of occurrences.
    next: u64,
    times: u64,
    first: Duration,
    every: Duration,
    /// In milliseconds.
    jitter: u64,
}

impl Source {
    fn new(scenario: &Scenario, event: usize, seed: u64) -> Option<Self> {
        let spec = scenario.event.get(event)?;
        let (at, every) = (spec.at.map(|at| at.get()), spec.every.map(|every| every.get()));
        Some(Self {
            event,
            choices: Choices::of(&format!("event {event}"), seed),
            next: 0,
            times: every.map_or(1, |_| spec.times.unwrap_or(u64::MAX)),
            first: at.or(every).unwrap_or_default(),
            every: every.unwrap_or_default(),
            jitter: spec.jitter.get().as_millis() as u64,
        })
    }

    /// The next occurrence, with all choices drawn: its time, its action and its target.
    fn draw(&mut self, scenario: &Scenario, layout: &Layout) -> Option<Planned> {
        if self.next == self.times {
            return None;
        }
        let jitter = Duration::from_millis(self.choices.between(0, self.jitter));
        let turns = u32::try_from(self.next).unwrap_or(u32::MAX);
        let at = self.first.saturating_add(self.every.saturating_mul(turns));
        self.next += 1;
        let spec = scenario.event.get(self.event)?;
        let actions: Vec<_> = spec.actions().collect();
        let action = (*self.choices.pick(&actions)?).clone();
        let target = *self.choices.pick(&action.subject().targets(layout))?;
        let at = spec.when.is_none().then(|| at.saturating_add(jitter));
        Some(Planned { event: self.event, at, action, target })
    }
}

/// All events of a run.
pub(in crate::harness) struct Plan<'a> {
    scenario: &'a Scenario,
    layout: &'a Layout,
    seed: u64,
    /// Events with times, each with its next occurrence.
    timed: Vec<(Planned, Source)>,
    /// Actions that undo earlier ones.
    undoing: Vec<Planned>,
}

impl<'a> Plan<'a> {
    pub(in crate::harness) fn new(scenario: &'a Scenario, layout: &'a Layout, seed: u64) -> Self {
        let timed = (0..scenario.event.len())
            .filter(|event| scenario.event[*event].when.is_none())
            .filter_map(|event| {
                let mut source = Source::new(scenario, event, seed)?;
                Some((source.draw(scenario, layout)?, source))
            })
            .collect();
        Self { scenario, layout, seed, timed, undoing: Vec::new() }
    }

    /// When the next event with a time happens; once the duration is over, the next that undoes another.
    pub(in crate::harness) fn next_at(&self, is_over: bool) -> Option<Duration> {
        let timed = self.timed.iter().map(|(planned, _)| planned).filter(|_| !is_over);
        timed.chain(&self.undoing).filter_map(|planned| planned.at).min()
    }

    /// Takes that event: the earliest; of several at one time, one that undoes another, else the first in the file.
    pub(in crate::harness) fn take(&mut self, is_over: bool) -> Option<Planned> {
        let at = self.next_at(is_over);
        if let Some(place) = self.undoing.iter().position(|planned| planned.at == at) {
            return Some(self.undoing.remove(place));
        }
        let place = self.timed.iter().position(|(planned, _)| planned.at == at)?;
        let (planned, source) = &mut self.timed[place];
        match source.draw(self.scenario, self.layout) {
            Some(next) => Some(std::mem::replace(planned, next)),
            None => Some(self.timed.remove(place).0),
        }
    }

    /// Plans the action that undoes an event that happened, if there is one. An event on a condition counts from
    /// `now`.
    pub(in crate::harness) fn happened(&mut self, planned: &Planned, now: Duration) {
        if let Some((after, action)) = planned.action.undoing() {
            let at = planned.at.unwrap_or(now) + after;
            let &Planned { event, target, .. } = planned;
            self.undoing.push(Planned { event, at: Some(at), action, target });
        }
    }

    /// Draws an event whose condition is met.
    pub(in crate::harness) fn on_condition(&self, event: usize) -> Option<Planned> {
        Source::new(self.scenario, event, self.seed)?.draw(self.scenario, self.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        duration = "1s"
        [[guest]]
        name = "vm"
        count = 3
        [[guest.context]]
        queue = [{ name = "q", count = 4 }]
        [[event]]
        every = "10ms"
        jitter = "15ms"
        choose = [
            { action = "reset-guest", guest = "vm" },
            { action = "bad-packet", queue = "vm/main/q" },
        ]
        [[event]]
        at = "25ms"
        do = { action = "announce-memory", guest = "vm.1" }
    "#;

    fn first(seed: u64) -> Vec<Planned> {
        let scenario = Scenario::parse(SCENARIO, "test").unwrap();
        let layout = Layout::of(&scenario);
        let mut plan = Plan::new(&scenario, &layout, seed);
        std::iter::from_fn(|| plan.take(false)).take(100).collect()
    }

    #[test]
    fn the_same_seed_plans_the_same_and_another_does_not() {
        assert_eq!(first(5), first(5));
        assert_ne!(first(5), first(6));
    }

    #[test]
    fn what_is_for_a_time_is_taken_back_even_after_the_end() {
        let text = r#"
            duration = "10ms"
            guest = [{ name = "vm", context = [{ queue = [{ name = "q" }] }] }]
            [[event]]
            at = "5ms"
            do = { action = "device-power", state = "d3", for = "20ms" }
            [[event]]
            at = "30ms"
            do = { action = "reset-guest", guest = "vm" }
        "#;
        let scenario = Scenario::parse(text, "test").unwrap();
        let layout = Layout::of(&scenario);
        let mut plan = Plan::new(&scenario, &layout, 1);
        let planned = plan.take(false).unwrap();
        plan.happened(&planned, Duration::ZERO);
        let planned = plan.take(true).unwrap();
        assert_eq!(planned.at, Some(Duration::from_millis(25)));
        assert_eq!(planned.action, Action::DevicePower { state: DeviceState::D0, r#for: None });
        assert_eq!(plan.take(true), None);
    }

    #[test]
    fn every_choice_is_made_sometimes() {
        let planned = first(5);
        let targets = |action: &str| -> Vec<String> {
            let is = |planned: &&Planned| planned.action.name() == action;
            planned.iter().filter(is).map(|planned| format!("{:?}", planned.target)).collect()
        };
        assert_eq!(targets("announce-memory").len(), 1);
        assert!(targets("reset-guest").len() > 20 && targets("bad-packet").len() > 20);
        let queues: std::collections::HashSet<_> = targets("bad-packet").into_iter().collect();
        assert_eq!(queues.len(), 12);
    }
}
