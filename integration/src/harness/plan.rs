//! When control events happen, and to whom: worked out from the scenario and the seed alone.

use super::layout::Layout;
use super::scenario::{Action, Scenario};
use super::seed::Choices;
use std::fmt;
use std::time::Duration;

/// Whom an event concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A guest.
    Guest(usize),
    /// A queue.
    Queue(usize),
    /// The host, or the run itself.
    Nobody,
}

/// An event with all choices made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    /// Which of the scenario's events.
    pub(super) event: usize,
    /// When, from the start; none on a condition.
    pub(super) at: Option<Duration>,
    pub(super) action: Action,
    pub(super) target: Target,
}

/// What an event is called where it is reported.
pub(super) struct Described<'a> {
    pub(super) planned: &'a Planned,
    pub(super) layout: &'a Layout,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Planned { action, target, .. } = self.planned;
        write!(f, "{}", action.name())?;
        let guest = |guest: &usize| self.layout.guests.get(*guest).map(|guest| &guest.name);
        let lane = |lane: &usize| self.layout.lanes.get(*lane);
        match target {
            Target::Guest(place) => guest(place).map_or(Ok(()), |guest| write!(f, " {guest}"))?,
            Target::Queue(place) => lane(place).map_or(Ok(()), |lane| write!(f, " {lane}"))?,
            Target::Nobody => {}
        }
        match action {
            Action::EndProcess { process, .. } => write!(f, " process {process}"),
            Action::QueueStorm { node, queues, .. } => write!(f, " {queues} queues on node {node}"),
            Action::ConnectStorm { connects, .. } => write!(f, " {connects} times"),
            Action::WriteDoorbells { for_ms, .. } => write!(f, " for {for_ms} ms"),
            _ => Ok(()),
        }
    }
}

impl Action {
    /// Its name in a scenario.
    fn name(&self) -> &'static str {
        match self {
            Self::BadPacket { .. } => "bad-packet",
            Self::KillGuest { .. } => "kill-guest",
            Self::ResetGuest { .. } => "reset-guest",
            Self::EndProcess { .. } => "end-process",
            Self::ConnectStorm { .. } => "connect-storm",
            Self::QueueStorm { .. } => "queue-storm",
            Self::WriteDoorbells { .. } => "write-doorbells",
            Self::AnnounceMemory { .. } => "announce-memory",
            Self::End => "end",
        }
    }

    /// Whom it names.
    fn candidates(&self, layout: &Layout) -> Vec<Target> {
        match self {
            Self::BadPacket { queue } | Self::ConnectStorm { queue, .. } => {
                layout.lanes(queue).into_iter().map(Target::Queue).collect()
            }
            Self::KillGuest { guest }
            | Self::ResetGuest { guest }
            | Self::EndProcess { guest, .. }
            | Self::QueueStorm { guest, .. }
            | Self::WriteDoorbells { guest, .. }
            | Self::AnnounceMemory { guest } => {
                layout.guests(guest).into_iter().map(Target::Guest).collect()
            }
            Self::End => vec![Target::Nobody],
        }
    }
}

/// The occurrences of one event.
struct Source {
    event: usize,
    choices: Choices,
    /// The next occurrence's number, and how many there are.
    next: u64,
    times: u64,
    first: u64,
    every: u64,
    jitter: u64,
}

impl Source {
    fn new(scenario: &Scenario, event: usize, seed: u64) -> Option<Self> {
        let spec = scenario.event.get(event)?;
        let is_repeated = spec.every_ms.is_some();
        Some(Self {
            event,
            choices: Choices::of(&format!("event {event}"), seed),
            next: 0,
            times: if is_repeated { spec.times.unwrap_or(u64::MAX) } else { 1 },
            first: spec.at_ms.or(spec.every_ms).unwrap_or_default(),
            every: spec.every_ms.unwrap_or_default(),
            jitter: spec.jitter_ms,
        })
    }

    /// The next occurrence with everything drawn that is left open: its time, what of several
    /// actions, and whom of several.
    fn draw(&mut self, scenario: &Scenario, layout: &Layout) -> Option<Planned> {
        if self.next == self.times {
            return None;
        }
        let jitter = self.choices.between(0, self.jitter);
        let at = self.first.saturating_add(self.every.saturating_mul(self.next));
        self.next += 1;
        let spec = scenario.event.get(self.event)?;
        let actions: Vec<_> = spec.actions().collect();
        let action = (*self.choices.pick(&actions)?).clone();
        let target = *self.choices.pick(&action.candidates(layout))?;
        let at = spec.when.is_none().then(|| Duration::from_millis(at.saturating_add(jitter)));
        Some(Planned { event: self.event, at, action, target })
    }
}

/// All events of a run.
pub(super) struct Plan<'a> {
    scenario: &'a Scenario,
    layout: &'a Layout,
    seed: u64,
    /// Events with times, each with its next occurrence.
    timed: Vec<(Planned, Source)>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(scenario: &'a Scenario, layout: &'a Layout, seed: u64) -> Self {
        let timed = (0..scenario.event.len())
            .filter(|event| scenario.event[*event].when.is_none())
            .filter_map(|event| {
                let mut source = Source::new(scenario, event, seed)?;
                Some((source.draw(scenario, layout)?, source))
            })
            .collect();
        Self { scenario, layout, seed, timed }
    }

    /// When the next event with a time happens.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.timed.iter().filter_map(|(planned, _)| planned.at).min()
    }

    /// Takes that event: the earliest, and of several at one time the first in the file.
    pub(super) fn take(&mut self) -> Option<Planned> {
        let at = self.next_at()?;
        let place = self.timed.iter().position(|(planned, _)| planned.at == Some(at))?;
        let (planned, source) = &mut self.timed[place];
        match source.draw(self.scenario, self.layout) {
            Some(next) => Some(std::mem::replace(planned, next)),
            None => Some(self.timed.remove(place).0),
        }
    }

    /// An event whose condition is met.
    pub(super) fn on_condition(&self, event: usize) -> Option<Planned> {
        Source::new(self.scenario, event, self.seed)?.draw(self.scenario, self.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        duration_ms = 1000
        [[guest]]
        name = "vm"
        count = 3
        [[guest.context]]
        queue = [{ name = "q", count = 4 }]
        [[event]]
        every_ms = 10
        jitter_ms = 15
        choose = [
            { action = "reset-guest", guest = "vm" },
            { action = "bad-packet", queue = "vm/main/q" },
        ]
        [[event]]
        at_ms = 25
        do = { action = "announce-memory", guest = "vm.1" }
    "#;

    fn first(seed: u64) -> Vec<Planned> {
        let scenario = Scenario::parse(SCENARIO, "test").unwrap();
        let layout = Layout::of(&scenario);
        let mut plan = Plan::new(&scenario, &layout, seed);
        std::iter::from_fn(|| plan.take()).take(100).collect()
    }

    #[test]
    fn the_same_seed_plans_the_same_and_another_does_not() {
        assert_eq!(first(5), first(5));
        assert_ne!(first(5), first(6));
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
