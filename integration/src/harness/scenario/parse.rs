// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a scenario; an error says in one line what is wrong with it.

use crate::harness::scenario::layout::Layout;
use crate::harness::scenario::names::is_valid;
use crate::harness::scenario::plan::Subject;
use crate::harness::scenario::{
    Action, Condition, ContextSpec, EventSpec, GuestSpec, Mode, QueueSpec, Scenario,
};
use bellhop_config::{Configuration as _, Fault, Flaw, KeyPath, read};
use bellhop_guest::fake_guest::{VMMS, VmmProfile};
use bellhop_guest_umd::UserModeQueue;
use bellhop_protocol::features::Features;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Why a scenario cannot be run: one line, which says what to change and includes the cause, so that none has a
/// source.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error(
        "cannot read scenario {path}: {reason}; `bellhop harness --list` shows the shipped ones"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: std::io::Error,
    },
    /// bellhop has no scenario of this name.
    #[error("there is no scenario {0:?}; `bellhop harness --list` shows the shipped ones")]
    Unknown(String),
    /// The text is not a scenario.
    #[error("scenario {file}, {flaw}")]
    Flaw {
        /// The file.
        file: String,
        /// What is wrong with it, and where.
        flaw: Flaw,
    },
    /// A value does not fit its key, or another value.
    #[error("scenario {file}{}: {key} is {value}; it must be {expected}", .line.map_or(String::new(), |line| format!(", line {line}")))]
    Value {
        /// The file, or the scenario's title.
        file: String,
        /// The line, from 1, if the scenario is from a file.
        line: Option<usize>,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The values that the key may have.
        expected: String,
    },
}

impl Scenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// See [`ScenarioError`].
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path)
            .map_err(|reason| ScenarioError::Read { path: path.to_owned(), reason })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads and checks a scenario; errors call it `file`.
    ///
    /// # Errors
    /// See [`ScenarioError`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        let scenario: Self =
            read(text).map_err(|flaw| ScenarioError::Flaw { file: file.into(), flaw })?;
        scenario.problem().map_or(Ok(scenario), |Problem { key, value, expected }| {
            let line = find(text, &key);
            Err(ScenarioError::Value { file: file.into(), line, key, value, expected })
        })
    }

    /// Checks a scenario that was not read from a file.
    ///
    /// # Errors
    /// When a key cannot have its value.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        self.problem().map_or(Ok(()), |Problem { key, value, expected }| {
            let file = format!("{:?}", self.title);
            Err(ScenarioError::Value { file, line: None, key, value, expected })
        })
    }

    fn problem(&self) -> Option<Problem> {
        Checker { scenario: self, layout: Layout::of(self) }.check().err()
    }
}

/// The profile of a VMM.
pub(in crate::harness) fn profile(name: &str) -> Option<&'static VmmProfile> {
    VMMS.into_iter().find(|profile| profile.name == name)
}

/// The place of a key such as `guest[0].context[1].name`; if it is absent, of the table that lacks it.
fn find(text: &str, key: &str) -> Option<usize> {
    let parts = key.split(['.', '[', ']']).filter(|part| !part.is_empty());
    let key: KeyPath = parts.collect();
    key.find_nearest(text).map(|position| position.line)
}

/// An invalid value.
struct Problem {
    key: String,
    value: String,
    expected: String,
}

fn require(
    is_met: bool,
    key: impl Into<String>,
    value: impl ToString,
    expected: impl Into<String>,
) -> Result<(), Problem> {
    if is_met {
        Ok(())
    } else {
        Err(Problem { key: key.into(), value: value.to_string(), expected: expected.into() })
    }
}

fn within(
    range: std::ops::RangeInclusive<u64>,
    key: String,
    value: impl Into<u64>,
) -> Result<(), Problem> {
    let value = value.into();
    require(range.contains(&value), key, value, format!("{} to {}", range.start(), range.end()))
}

/// A value as a file shows it.
fn shown(value: impl std::fmt::Debug) -> String {
    format!("{value:?}")
}

/// Most names that an error lists.
const NAMED: usize = 8;

/// Some of these names, and the number of others.
fn some(names: impl Iterator<Item = impl Into<String>>) -> String {
    let mut names: Vec<String> = names.map(Into::into).collect();
    match names.len().checked_sub(NAMED) {
        None | Some(0) => names.join(", "),
        Some(more) => {
            names.truncate(NAMED);
            format!("{}, and {more} more", names.join(", "))
        }
    }
}

struct Checker<'a> {
    scenario: &'a Scenario,
    layout: Layout,
}

impl Checker<'_> {
    fn check(&self) -> Result<(), Problem> {
        let scenario = self.scenario;
        self.host()?;
        require(!scenario.guest.is_empty(), "guest", "empty", "at least one [[guest]]")?;
        let mut names = HashSet::new();
        for (place, guest) in scenario.guest.iter().enumerate() {
            let key = format!("guest[{place}]");
            self.name(&key, &guest.name, &mut names)?;
            self.guest(&key, guest)?;
        }
        let mut names = HashSet::new();
        for (place, event) in scenario.event.iter().enumerate() {
            let key = format!("event[{place}]");
            if let Some(name) = &event.name {
                self.name(&key, name, &mut names)?;
            }
            self.event(&key, event)?;
        }
        for (place, pattern) in scenario.expect.lost.iter().enumerate() {
            self.names(Subject::Queue(pattern), format!("expect.lost[{place}]"))?;
        }
        for (place, pattern) in scenario.expect.may_lose.iter().enumerate() {
            self.names(Subject::Queue(pattern), format!("expect.may_lose[{place}]"))?;
        }
        for (place, queue) in scenario.expect.queue.iter().enumerate() {
            self.names(Subject::Queue(&queue.queue), format!("expect.queue[{place}].queue"))?;
        }
        Ok(())
    }

    fn host(&self) -> Result<(), Problem> {
        match self.scenario.host.config().validate() {
            Ok(()) => Ok(()),
            Err(Fault { key, value, expected, .. }) => {
                require(false, format!("host.{key}"), value, expected)
            }
        }
    }

    fn name<'n>(
        &self,
        key: &str,
        name: &'n str,
        names: &mut HashSet<&'n str>,
    ) -> Result<(), Problem> {
        let key = format!("{key}.name");
        let expected = "letters, digits, - and _";
        require(is_valid(name), &key, format!("{name:?}"), expected)?;
        require(names.insert(name), &key, format!("{name:?}"), "a name that no earlier one has")
    }

    fn guest(&self, key: &str, guest: &GuestSpec) -> Result<(), Problem> {
        let vmms = VMMS.map(|profile| profile.name).join(", ");
        let vmm = &guest.vmm;
        require(
            profile(vmm).is_some(),
            format!("{key}.vmm"),
            format!("{vmm:?}"),
            format!("one of {vmms}"),
        )?;
        for (place, name) in guest.without.iter().enumerate() {
            let names: Vec<_> = Features::all().iter_names().map(|(name, _)| name).collect();
            let key = format!("{key}.without[{place}]");
            let expected = format!("one of {}", names.join(", "));
            require(names.contains(&name.as_str()), key, format!("{name:?}"), expected)?;
        }
        let has_contexts = !guest.context.is_empty();
        require(has_contexts, format!("{key}.context"), "empty", "at least one")?;
        let mut names = HashSet::new();
        for (place, context) in guest.context.iter().enumerate() {
            let key = format!("{key}.context[{place}]");
            self.name(&key, &context.name, &mut names)?;
            self.node(&key, context.node.get())?;
            let has_queues = !context.queue.is_empty();
            require(has_queues, format!("{key}.queue"), "empty", "at least one")?;
            let mut names = HashSet::new();
            for (place, queue) in context.queue.iter().enumerate() {
                let key = format!("{key}.queue[{place}]");
                self.name(&key, &queue.name, &mut names)?;
                self.queue(&key, guest, queue)?;
            }
        }
        let queues = guest.context.iter().flat_map(|context| &context.queue);
        let doorbells: u32 =
            queues.filter(|queue| queue.mode == Mode::User).map(|queue| queue.count.get()).sum();
        let offered = self.scenario.host.guest.doorbells.get();
        let expected = format!(
            "at least {doorbells}: guest {:?} has that many queues for user-mode submission",
            guest.name
        );
        require(doorbells <= offered, "host.guest.doorbells", offered, expected)
    }

    fn queue(&self, key: &str, guest: &GuestSpec, queue: &QueueSpec) -> Result<(), Problem> {
        let (batch, depth) = (queue.batch.get(), queue.depth.get());
        let most = depth.min(guest.in_flight.get());
        within(1..=most.into(), format!("{key}.batch"), batch)?;
        let ring = queue.ring.get();
        let expected = "a power of two from 4KiB to 16MiB";
        require(ring.is_power_of_two(), format!("{key}.ring"), shown(queue.ring), expected)?;
        // A batch that does not fit would wait for room with the doorbell not rung.
        let fit = ring / UserModeQueue::SUBMISSION_SIZE - 1;
        within(1..=fit, format!("{key}.depth"), depth)?;
        let is_aligned = queue.size.get().is_multiple_of(8);
        require(is_aligned, format!("{key}.size"), shown(queue.size), "a multiple of 8 bytes")?;
        let [low, high] = queue.think;
        let expected = "two times, the first not above the second";
        let is_range = low.get() <= high.get();
        require(is_range, format!("{key}.think"), shown(queue.think), expected)?;
        let ends = queue.submissions.is_some()
            || queue.until.is_some()
            || self.scenario.duration.is_some();
        let expected = "given, or `until`, or the scenario's `duration`";
        require(ends, format!("{key}.submissions"), "missing", expected)?;
        self.event_name(format!("{key}.start"), queue.start.as_deref())?;
        self.event_name(format!("{key}.until"), queue.until.as_deref())?;
        self.after(key, queue)
    }

    /// Checks that the queue that another waits for exists and submits enough.
    fn after(&self, key: &str, queue: &QueueSpec) -> Result<(), Problem> {
        let Some(after) = &queue.after else { return Ok(()) };
        let key = format!("{key}.after");
        let shown = format!("{after:?}");
        let own = self.layout.lanes.iter().filter(|lane| *lane.spec == *queue);
        for lane in own {
            let other = lane.after.and_then(|after| self.layout.lanes.get(after));
            let expected = "another queue of its process: `context/queue`, or `queue`";
            require(other.is_some(), &key, &shown, expected)?;
            let Some(other) = other else { continue };
            let enough = match (queue.submissions, other.spec.submissions) {
                (Some(own), Some(others)) => others >= own,
                (None, Some(_)) => false,
                (_, None) => true,
            };
            require(enough, &key, &shown, "a queue with at least as many submissions")?;
        }
        Ok(())
    }

    fn event_name(&self, key: String, name: Option<&str>) -> Result<(), Problem> {
        let Some(shown) = name.map(shown) else { return Ok(()) };
        let is_there = self.scenario.event.iter().any(|event| event.name.as_deref() == name);
        require(is_there, key, shown, "the name of an [[event]]")
    }

    fn event(&self, key: &str, event: &EventSpec) -> Result<(), Problem> {
        let is_timed = event.at.is_some() || event.every.is_some();
        let expected = "one of at, every and when";
        require(is_timed != event.when.is_some(), key, "without a time, or with two", expected)?;
        let does = [event.r#do.is_some(), !event.choose.is_empty()];
        let expected = "one of do and choose";
        require(does[0] != does[1], key, "without an action, or with two kinds", expected)?;
        let is_repeated = event.every.is_some() || event.times.is_none();
        require(is_repeated, format!("{key}.times"), "given", "together with every")?;
        if let Some(condition) = &event.when {
            self.condition(&format!("{key}.when"), condition)?;
        }
        match &event.r#do {
            Some(action) => self.action(&format!("{key}.do"), action),
            None => event.choose.iter().enumerate().try_for_each(|(place, action)| {
                self.action(&format!("{key}.choose[{place}]"), action)
            }),
        }
    }

    fn condition(&self, key: &str, condition: &Condition) -> Result<(), Problem> {
        let Condition { queue, completed, status, event } = condition;
        let kinds = [completed.is_some(), status.is_some(), event.is_some()];
        let is_one = kinds.iter().filter(|kind| **kind).count() == 1;
        let expected = "one of completed, status and event";
        require(is_one, key, "without a condition, or with two", expected)?;
        self.event_name(format!("{key}.event"), event.as_deref())?;
        let expected = "given with completed or status, and only there";
        require(queue.is_some() != event.is_some(), format!("{key}.queue"), "not right", expected)?;
        let key = format!("{key}.queue");
        queue.iter().try_for_each(|queue| self.names(Subject::Queue(queue), key.clone()))
    }

    fn action(&self, key: &str, action: &Action) -> Result<(), Problem> {
        let subject = action.subject();
        let of = |name: &str| format!("{key}.{name}");
        self.names(subject, of(subject.key()))?;
        match action {
            Action::ConnectStorm { queue, .. } => {
                let lanes = self.layout.lanes(queue);
                let is_user = |lane: &usize| self.layout.lanes[*lane].spec.mode == Mode::User;
                let expected = "queues for user-mode submission";
                require(lanes.iter().all(is_user), of("queue"), shown(queue), expected)
            }
            Action::EnginePower { node, .. } => self.node(key, *node),
            Action::EndProcess { guest, process } => {
                let has_process = |guest: &usize| {
                    let contexts = &self.layout.guests[*guest].spec.context;
                    contexts.iter().any(|context| context.process == *process)
                };
                let all = self.layout.guests(guest).iter().all(has_process);
                require(all, of("process"), process, "a process of that guest")
            }
            Action::QueueStorm { node, queues, rounds, .. } => {
                self.node(key, *node)?;
                within(1..=16_384, of("queues"), *queues)?;
                within(1..=1_000_000, of("rounds"), *rounds)
            }
            _ => Ok(()),
        }
    }

    fn node(&self, key: &str, node: u32) -> Result<(), Problem> {
        let last = (self.scenario.host.adapter.nodes() - 1).into();
        within(0..=last, format!("{key}.node"), node)
    }

    /// Checks that a pattern matches something in this scenario.
    fn names(&self, subject: Subject<'_>, key: String) -> Result<(), Problem> {
        let guests = &self.scenario.guest;
        let (pattern, known) = match subject {
            Subject::Guest(pattern) => {
                (pattern, some(guests.iter().map(|guest| guest.name.as_str())))
            }
            Subject::Queue(pattern) => {
                (pattern, some(self.layout.rows.iter().map(|row| row.name.as_str())))
            }
            Subject::Context(pattern) => {
                let contexts = guests.iter().flat_map(|guest| {
                    let name = |context: &ContextSpec| format!("{}/{}", guest.name, context.name);
                    guest.context.iter().map(name)
                });
                (pattern, some(contexts))
            }
            Subject::Host => return Ok(()),
        };
        let is_one = !subject.targets(&self.layout).is_empty();
        let expected = format!("a {} of this scenario: {known}", subject.key());
        require(is_one, key, shown(pattern), expected)
    }
}
