// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contents of a scenario. Each type is a table of the file, each field a key.

pub(in crate::harness) mod layout;
pub(in crate::harness) mod names;
pub(in crate::harness) mod parse;
pub(in crate::harness) mod plan;
pub(in crate::harness) mod seed;
pub(in crate::harness) mod shipped;

use bellhop_config::{Bytes, Count, Key, Kib, Kind, Mib, Micros, Millis, Setting, at, section};
use bellhop_device::service::config::{AdapterConfig, Config, GuestConfig};
pub use bellhop_guest::client::Mode;
use bellhop_guest::fake_guest::QEMU;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A time in a scenario: up to 31 days.
pub type Time = Millis<0, 2_678_400_000>;

section! {
    /// A scenario.
    pub struct Scenario {
        /// What it shows, in one line.
        title: String;
        /// The seed of all random choices.
        seed: u64 as plain = 1;
        /// How long queues without a number of submissions work.
        duration: Option<Time>;
        /// The longest that a run may take beyond its duration before it is given up.
        limit: Time = at(120_000);
        /// The longest that one submission may take before its queue is given up.
        stuck: Time = at(30_000);
        /// The host's configuration.
        host: HostSpec;
        /// The guests.
        guest: Vec<GuestSpec>;
        /// The events of the run.
        event: Vec<EventSpec>;
        /// What must hold at the end.
        expect: Expect;
    }
}

section! {
    /// The host: the keys of `bellhopd`'s configuration.
    pub struct HostSpec {
        /// The adapter that all guests share.
        adapter: AdapterConfig;
        /// The share of each guest.
        guest: GuestConfig;
    }
}

impl HostSpec {
    /// The configuration as `bellhopd` takes it.
    #[must_use]
    pub fn config(&self) -> Config {
        Config { adapter: self.adapter.clone(), guest: self.guest.clone(), ..Config::default() }
    }
}

section! {
    /// A guest, or several of one kind.
    pub struct GuestSpec {
        /// Its name. Several have numbers behind it: `name.0`, `name.1`.
        name: String;
        /// The number of guests.
        count: Count<1, 1000> = at(1);
        /// The VMM that it runs under.
        vmm: String = QEMU.name.into();
        /// Its memory.
        ram: Mib<1, 65_536> = at(64);
        /// Where the memory is that driver and device share.
        placement: PlacementSpec as plain;
        /// Features that its driver declines, by name.
        without: Vec<String>;
        /// Threads that submit, in each of its processes.
        threads: Count<1, 64> = at(1);
        /// Most submissions of one thread in flight.
        in_flight: Count<1, 4096> = at(256);
        /// How it ends.
        leaves: Leaving as plain;
        /// Its contexts.
        context: Vec<ContextSpec>;
    }
}

impl GuestSpec {
    /// One guest under QEMU, without contexts yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Adds a context.
    #[must_use]
    pub fn with(mut self, context: ContextSpec) -> Self {
        self.context.push(context);
        self
    }
}

/// Where memory is that driver and device share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementSpec {
    /// Where accesses are fast, as the driver measures.
    #[default]
    Measured,
    /// In the BAR.
    Bar,
    /// In the guest's own memory.
    GuestMemory,
    /// As the driver places it around a slow BAR.
    AroundSlowBar,
}

/// How a guest ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leaving {
    /// Everything is destroyed first.
    #[default]
    Orderly,
    /// The connection ends with everything in use.
    Abruptly,
}

section! {
    /// A context of a guest.
    pub struct ContextSpec {
        /// Its name.
        name: String = "main".into();
        /// The node that executes its queues: first come the 3D nodes, then those that copy, then those that compute.
        node: Count<0, 15> = at(0);
        /// The process that it belongs to: a number of the scenario's choice.
        process: u32 as plain;
        /// Its queues.
        queue: Vec<QueueSpec>;
    }
}

impl ContextSpec {
    /// A context called `main` on a node, without queues yet.
    ///
    /// # Panics
    /// When no GPU has this node.
    #[must_use]
    pub fn new(node: u32) -> Self {
        Self { node: at(node.into()), ..Self::default() }
    }

    /// Adds a queue.
    #[must_use]
    pub fn with(mut self, queue: QueueSpec) -> Self {
        self.queue.push(queue);
        self
    }
}

section! {
    /// A HW queue, or several of one kind, and its submissions.
    pub struct QueueSpec {
        /// Its name. Several have numbers behind it: `name.0`, `name.1`.
        name: String;
        /// The number of queues.
        count: Count<1, 16_384> = at(1);
        /// Its submission mode.
        mode: Mode as plain;
        /// Its ring, for user-mode submission.
        ring: Kib<4, 16_384> = at(4);
        /// The number of submissions that must complete; without it the queue works until the scenario's duration is
        /// over, or the event `until`.
        submissions: Option<u64> as plain;
        /// The work of each submission, beside its proof.
        work: Work as plain;
        /// Bytes that `fill` and `copy` write.
        size: Bytes<8, 1_048_576> = at(4096);
        /// Submissions for each ring of the doorbell.
        batch: Count<1, 1024> = at(1);
        /// Most submissions in flight.
        depth: Count<1, 1024> = at(8);
        /// A time between batches, drawn between these two.
        think: [Micros<0, 3_600_000_000>; 2] = [at(0); 2];
        /// A queue of the same process: submission `n` of this one waits, on the GPU, for submission
        /// `n` of that one. `context/queue`, or `queue` of the same context.
        after: Option<String>;
        /// The event that it waits for before the first submission.
        start: Option<String>;
        /// The event that ends it.
        until: Option<String>;
        /// How the driver learns of completions.
        completion: Completion as plain;
        /// Whether a queue that is lost is destroyed and another created, to continue with.
        recover: bool;
    }
}

impl QueueSpec {
    /// A queue for user-mode submission to which nothing is submitted yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the number of submissions.
    #[must_use]
    pub fn submissions(mut self, submissions: u64) -> Self {
        self.submissions = Some(submissions);
        self
    }

    /// Sets the kind of work.
    #[must_use]
    pub fn work(mut self, work: Work) -> Self {
        self.work = work;
        self
    }
}

/// The work of a submission, beside its proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Nothing.
    #[default]
    Nop,
    /// Fills memory with the submission's number.
    Fill,
    /// Copies one of two sources, in turn.
    Copy,
    /// Writes the submission's number.
    Write,
    /// One of the others, from the seed.
    Mixed,
}

/// How the driver learns of completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// It looks at the fence, and is woken after it has looked for a millisecond in vain.
    #[default]
    Poll,
    /// It is woken.
    Wait,
}

section! {
    /// An action, and when it happens.
    pub struct EventSpec {
        /// Its name, for `start` and `until` of queues and `when` of events.
        name: Option<String>;
        /// When, from the start.
        at: Option<Time>;
        /// The time from one occurrence to the next; `at` is then the time of the first.
        every: Option<Millis<1, 86_400_000>>;
        /// The number of occurrences; without it, they continue until the end.
        times: Option<u64> as plain;
        /// The most that the seed adds to each of those times.
        jitter: Time = at(0);
        /// The condition that it follows.
        when: Option<Condition> as plain;
        /// The action.
        r#do: Option<Action>;
        /// Actions from which the seed chooses one.
        choose: Vec<Action>;
        /// Whether it may be refused, or never happen.
        optional: bool;
    }
}

impl EventSpec {
    /// An action on a condition.
    #[must_use]
    pub fn when(condition: Condition, action: Action) -> Self {
        Self { when: Some(condition), r#do: Some(action), ..Self::default() }
    }

    /// The actions that may happen.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.r#do.iter().chain(&self.choose)
    }
}

/// The condition of an event: one of `completed`, `status` and `event`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The queue that `completed` or `status` is about: the first that matches.
    pub queue: Option<String>,
    /// This number of its submissions is completed.
    pub completed: Option<u64>,
    /// Its doorbell was seen to read this.
    pub status: Option<Status>,
    /// Another event has happened.
    pub event: Option<String>,
}

/// The status of a doorbell, as rings and looks read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// `CONNECTED`
    Connected,
    /// `CONNECTED_NOTIFY`
    ConnectedNotify,
    /// `DISCONNECTED_RETRY`
    DisconnectedRetry,
    /// `DISCONNECTED_ABORT`
    DisconnectedAbort,
}

fn one() -> u32 {
    1
}

/// An action. Of several guests or queues that a name matches, the seed chooses one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// A guest submits a malformed packet to a queue.
    BadPacket {
        /// The queue.
        queue: String,
    },
    /// A guest's VMM is killed, whatever the guest is doing, and started again.
    KillGuest {
        /// The guest.
        guest: String,
    },
    /// A guest reboots with everything in use.
    ResetGuest {
        /// The guest.
        guest: String,
    },
    /// A process of a guest ends with everything in use, and begins anew.
    EndProcess {
        /// The guest.
        guest: String,
        /// The process.
        #[serde(default)]
        process: u32,
    },
    /// A queue's doorbell is connected again and again, beside what is submitted.
    ConnectStorm {
        /// The queue.
        queue: String,
        /// The number of connects.
        connects: u64,
    },
    /// Another process of a guest rings this number of doorbells in turn, which takes physical doorbells from
    /// others.
    QueueStorm {
        /// The guest.
        guest: String,
        /// The node of the queues.
        #[serde(default)]
        node: u32,
        /// The number of queues.
        queues: u32,
        /// The number of rings of each queue.
        #[serde(default = "one")]
        rounds: u32,
    },
    /// A guest writes all doorbells that it has, connected or not, as fast as it can.
    WriteDoorbells {
        /// The guest.
        guest: String,
        /// The duration.
        r#for: Time,
    },
    /// A guest's VMM announces its memory again.
    AnnounceMemory {
        /// The guest.
        guest: String,
    },
    /// A guest suspends a context, which executes nothing until it resumes it.
    SuspendContext {
        /// The context: `guest/context`.
        context: String,
        /// Resumes it after this time.
        r#for: Option<Time>,
    },
    /// A guest resumes a context.
    ResumeContext {
        /// The context: `guest/context`.
        context: String,
    },
    /// The host changes the device's power state. Refused when a guest needs the device.
    DevicePower {
        /// The state.
        state: DeviceState,
        /// Returns to D0 after this time.
        r#for: Option<Time>,
    },
    /// The host changes an engine's power state.
    EnginePower {
        /// Its node.
        node: u32,
        /// The state.
        state: EngineState,
        /// Returns to F0 after this time.
        r#for: Option<Time>,
    },
    /// The host suspends all contexts that a guest has.
    SuspendGuest {
        /// The guest.
        guest: String,
        /// Resumes them after this time.
        r#for: Option<Time>,
    },
    /// The host resumes all contexts of a guest.
    ResumeGuest {
        /// The guest.
        guest: String,
    },
    /// The host takes all doorbells of a guest: `DISCONNECTED_RETRY`.
    DisconnectGuest {
        /// The guest.
        guest: String,
    },
    /// The host marks all processes of a guest in error: `DISCONNECTED_ABORT`.
    FailGuest {
        /// The guest.
        guest: String,
    },
    /// The scenario ends as if its duration were over.
    End,
}

/// A power state of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// It has power.
    D0,
    /// It has none.
    D3,
}

/// A power state of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineState {
    /// It has power.
    F0,
    /// It has none, until it gets work.
    F1,
}

impl Setting for Action {
    const KIND: Kind = Kind::Section(&[Key { name: "for", about: &[], kind: Time::KIND }]);
}

section! {
    /// What must hold at the end.
    pub struct Expect {
        /// Every submission is executed exactly once and in the order of its queue, and every queue completes
        /// what it must. Submissions that went with a lost queue, or with their guest, do not count.
        complete: bool = true;
        /// Every event that is not optional happened and was not refused.
        events: bool = true;
        /// The queues that are lost: these and no others.
        lost: Vec<String>;
        /// Queues that may be lost too.
        may_lose: Vec<String>;
        /// Most violations of the VMMs' rules.
        violations: u64 as plain;
        /// The number of doorbells that were taken from a queue for another.
        victims: Bounds as plain;
        /// What must hold for some queues.
        queue: Vec<QueueExpect>;
    }
}

section! {
    /// What must hold for all queues that a name matches, together.
    pub struct QueueExpect {
        /// The queues.
        queue: String;
        /// Submissions that were completed.
        completed: Bounds as plain;
        /// Submissions that went with a lost queue or a guest's end.
        dropped: Bounds as plain;
        /// Stores to doorbells.
        rings: Bounds as plain;
        /// Requests to connect a doorbell.
        connects: Bounds as plain;
        /// Requests that wake an engine.
        notifies: Bounds as plain;
        /// Times that a queue was lost.
        losses: Bounds as plain;
        /// Counts of the statuses that rings and looks read.
        seen: BTreeMap<Status, Bounds> as plain;
        /// From a submission to its completion.
        latency: WaitBounds;
        /// The duration of a ring that had to connect the doorbell first.
        connect: WaitBounds;
    }
}

section! {
    /// The most that times may be.
    pub struct WaitBounds {
        /// The median.
        p50: Option<Time>;
        /// The 99th percentile.
        p99: Option<Time>;
        /// The maximum.
        max: Option<Time>;
    }
}

/// The bounds of a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// At least.
    pub min: Option<u64>,
    /// At most.
    pub max: Option<u64>,
}

impl Bounds {
    /// Whether there is a bound.
    #[must_use]
    pub fn are_set(self) -> bool {
        self != Self::default()
    }

    /// Whether a number is within the bounds.
    #[must_use]
    pub fn contain(self, number: u64) -> bool {
        self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => write!(f, "{min}"),
            (Some(min), Some(max)) => write!(f, "{min} to {max}"),
            (Some(min), None) => write!(f, "at least {min}"),
            (None, Some(max)) => write!(f, "at most {max}"),
            (None, None) => f.write_str("anything"),
        }
    }
}
