// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a scenario says. Each type is a table of the file, each field a key.

pub(in crate::harness) mod layout;
pub(in crate::harness) mod names;
pub(in crate::harness) mod parse;
pub(in crate::harness) mod plan;
pub(in crate::harness) mod seed;
pub(in crate::harness) mod shipped;

use bellhop_device::service::config::{AdapterConfig, Config, GuestConfig};
pub use bellhop_guest::client::Mode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What it shows, in one line.
    pub title: String,
    /// What all random choices come from.
    pub seed: u64,
    /// How long queues without a number of submissions go on, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The longest that the whole may take beyond its duration before it is given up.
    pub limit_ms: u64,
    /// The longest that one submission may take before its queue is given up.
    pub stuck_ms: u64,
    /// What the host is configured with.
    pub host: HostSpec,
    /// The guests.
    pub guest: Vec<GuestSpec>,
    /// What happens to them.
    pub event: Vec<EventSpec>,
    /// What must hold at the end.
    pub expect: Expect,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            title: String::new(),
            seed: 1,
            duration_ms: None,
            limit_ms: 120_000,
            stuck_ms: 30_000,
            host: HostSpec::default(),
            guest: Vec::new(),
            event: Vec::new(),
            expect: Expect::default(),
        }
    }
}

/// The host: the keys of `bellhopd`'s configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// The adapter that all guests share.
    pub adapter: AdapterConfig,
    /// What each guest gets of it.
    pub guest: GuestConfig,
}

impl HostSpec {
    /// As `bellhopd` takes it.
    #[must_use]
    pub fn config(&self) -> Config {
        Config { adapter: self.adapter.clone(), guest: self.guest.clone(), ..Config::default() }
    }
}

/// A guest, or several that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestSpec {
    /// Its name. Of several, each has a number behind it: `name.0`, `name.1`.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// The VMM that it runs under.
    #[serde(default = "qemu")]
    pub vmm: String,
    /// Its memory.
    #[serde(default = "ram")]
    pub ram_mib: u64,
    /// Where what driver and device share is.
    #[serde(default)]
    pub placement: PlacementSpec,
    /// Features that its driver does not take, by name.
    #[serde(default)]
    pub without: Vec<String>,
    /// Threads that submit, in each of its processes.
    #[serde(default = "one")]
    pub threads: u32,
    /// Most submissions on their way of one thread.
    #[serde(default = "in_flight")]
    pub in_flight: u32,
    /// How it goes at the end.
    #[serde(default)]
    pub leaves: Leaving,
    /// Its contexts.
    pub context: Vec<ContextSpec>,
}

fn one() -> u32 {
    1
}

fn qemu() -> String {
    bellhop_guest::fake_guest::QEMU.name.into()
}

fn ram() -> u64 {
    64
}

fn in_flight() -> u32 {
    256
}

impl GuestSpec {
    /// One guest of QEMU's, without contexts yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            count: one(),
            vmm: qemu(),
            ram_mib: ram(),
            placement: PlacementSpec::default(),
            without: Vec::new(),
            threads: one(),
            in_flight: in_flight(),
            leaves: Leaving::default(),
            context: Vec::new(),
        }
    }

    /// Adds a context.
    #[must_use]
    pub fn with(mut self, context: ContextSpec) -> Self {
        self.context.push(context);
        self
    }
}

/// Where what driver and device share is.
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
    /// As around a BAR that is slow.
    AroundSlowBar,
}

/// How a guest goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Leaving {
    /// Everything is destroyed first.
    #[default]
    Orderly,
    /// The connection ends with everything in use.
    Abruptly,
}

/// A context of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextSpec {
    /// Its name.
    #[serde(default = "main")]
    pub name: String,
    /// The node that executes its queues: 0 is the 3D/compute node, the others copy.
    #[serde(default)]
    pub node: u32,
    /// The process that it belongs to: a number of the scenario's choice.
    #[serde(default)]
    pub process: u32,
    /// Its queues.
    pub queue: Vec<QueueSpec>,
}

fn main() -> String {
    "main".into()
}

impl ContextSpec {
    /// A context on a node, called `main`, without queues yet.
    #[must_use]
    pub fn new(node: u32) -> Self {
        Self { name: main(), node, process: 0, queue: Vec::new() }
    }

    /// Adds a queue.
    #[must_use]
    pub fn with(mut self, queue: QueueSpec) -> Self {
        self.queue.push(queue);
        self
    }
}

/// A HW queue, or several that are alike, and what is submitted to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Its name. Of several, each has a number behind it: `name.0`, `name.1`.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// How work gets to it.
    #[serde(default)]
    pub mode: Mode,
    /// Its ring, for user-mode submission.
    #[serde(default = "ring")]
    pub ring_kib: u64,
    /// How many submissions must be completed; without it the queue goes on until the scenario's
    /// duration is over, or the event `until`.
    pub submissions: Option<u64>,
    /// What each submission does, beside proving that it was executed.
    #[serde(default)]
    pub work: Work,
    /// How many bytes `fill` and `copy` write.
    #[serde(default = "bytes")]
    pub bytes: u64,
    /// Submissions for each ring of the doorbell.
    #[serde(default = "one")]
    pub batch: u32,
    /// Most submissions on their way.
    #[serde(default = "depth")]
    pub depth: u32,
    /// A time between batches, drawn between these two, in microseconds.
    #[serde(default)]
    pub think_us: [u64; 2],
    /// A queue of the same process: submission `n` of this one waits, on the GPU, for submission
    /// `n` of that one. `context/queue`, or `queue` of the same context.
    pub after: Option<String>,
    /// The event that it waits for before the first submission.
    pub start: Option<String>,
    /// The event that ends it.
    pub until: Option<String>,
    /// How the driver learns of completions.
    #[serde(default)]
    pub completion: Completion,
    /// Whether a queue that is lost is destroyed and another created, to go on with.
    #[serde(default)]
    pub recover: bool,
}

fn ring() -> u64 {
    4
}

fn bytes() -> u64 {
    4096
}

fn depth() -> u32 {
    8
}

impl QueueSpec {
    /// A queue for user-mode submission to which nothing is submitted yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            count: one(),
            mode: Mode::default(),
            ring_kib: ring(),
            submissions: None,
            work: Work::default(),
            bytes: bytes(),
            batch: one(),
            depth: depth(),
            think_us: [0; 2],
            after: None,
            start: None,
            until: None,
            completion: Completion::default(),
            recover: false,
        }
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

/// What a submission does beside its proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Nothing.
    #[default]
    Nop,
    /// Fills memory with its number.
    Fill,
    /// Copies one of two sources, in turn.
    Copy,
    /// Writes its number.
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

/// Something that happens, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// Its name, for `start` and `until` of queues and `when` of events.
    pub name: Option<String>,
    /// When, in milliseconds from the start.
    pub at_ms: Option<u64>,
    /// The time from one occurrence to the next, in milliseconds; `at_ms` is the first's then.
    pub every_ms: Option<u64>,
    /// How many occurrences; without it until the end.
    pub times: Option<u64>,
    /// Up to so much is added to each of those times, from the seed.
    #[serde(default)]
    pub jitter_ms: u64,
    /// Something else that it follows.
    pub when: Option<Condition>,
    /// What happens.
    pub r#do: Option<Action>,
    /// One of these happens, from the seed.
    #[serde(default)]
    pub choose: Vec<Action>,
    /// Whether it may be refused, and may not happen at all.
    #[serde(default)]
    pub optional: bool,
}

impl EventSpec {
    /// Something that happens at a time.
    #[must_use]
    pub fn at(at_ms: u64, action: Action) -> Self {
        Self { at_ms: Some(at_ms), ..Self::doing(action) }
    }

    /// Something that happens on a condition.
    #[must_use]
    pub fn when(condition: Condition, action: Action) -> Self {
        Self { when: Some(condition), ..Self::doing(action) }
    }

    fn doing(action: Action) -> Self {
        Self {
            name: None,
            at_ms: None,
            every_ms: None,
            times: None,
            jitter_ms: 0,
            when: None,
            r#do: Some(action),
            choose: Vec::new(),
            optional: false,
        }
    }

    /// What may happen.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.r#do.iter().chain(&self.choose)
    }
}

/// What an event follows. One of the three.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The queue whose `completed` or `status` it is; the first of those that match.
    pub queue: Option<String>,
    /// So many of its submissions are completed.
    pub completed: Option<u64>,
    /// Its doorbell was seen to read this.
    pub status: Option<Status>,
    /// Another event has happened.
    pub event: Option<String>,
}

/// What a doorbell's status word says, as rings and looks see it.
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

/// What can happen. Of several guests or queues that a name matches one is taken, from the seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// A packet that no packet can be is submitted to a queue.
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
        /// How often.
        connects: u64,
    },
    /// A further process of a guest rings so many more doorbells in turn, which takes them from
    /// others.
    QueueStorm {
        /// The guest.
        guest: String,
        /// On which node.
        #[serde(default)]
        node: u32,
        /// How many queues.
        queues: u32,
        /// How often each is rung.
        #[serde(default = "one")]
        rounds: u32,
    },
    /// A guest writes all doorbells that it has, connected or not, as fast as it can.
    WriteDoorbells {
        /// The guest.
        guest: String,
        /// For how long.
        for_ms: u64,
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
        /// Resumes it after so long.
        for_ms: Option<u64>,
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
        /// Goes to D0 after so long.
        for_ms: Option<u64>,
    },
    /// The host changes an engine's power state.
    EnginePower {
        /// Its node.
        node: u32,
        /// The state.
        state: EngineState,
        /// Goes to F0 after so long.
        for_ms: Option<u64>,
    },
    /// The host suspends all contexts that a guest has.
    SuspendGuest {
        /// The guest.
        guest: String,
        /// Resumes them after so long.
        for_ms: Option<u64>,
    },
    /// The host resumes them.
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

/// What must hold at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Every submission is executed exactly once and in the order of its queue, and all that a
    /// queue must complete is completed; what its own fault, or its guest's end, took away is not
    /// counted.
    pub complete: bool,
    /// Every event that is not optional happened and was not refused.
    pub events: bool,
    /// The queues that are lost: these and no others.
    pub lost: Vec<String>,
    /// Queues that may be lost too.
    pub may_lose: Vec<String>,
    /// Most violations of the VMMs' rules.
    pub violations: u64,
    /// How many doorbells were taken from a queue for another.
    pub victims: Bounds,
    /// What must hold for some queues.
    pub queue: Vec<QueueExpect>,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            complete: true,
            events: true,
            lost: Vec::new(),
            may_lose: Vec::new(),
            violations: 0,
            victims: Bounds::default(),
            queue: Vec::new(),
        }
    }
}

/// What must hold for all queues that a name matches, together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueExpect {
    /// The queues.
    pub queue: String,
    /// Submissions that were completed.
    pub completed: Bounds,
    /// Submissions that went with a lost queue or a guest's end.
    pub dropped: Bounds,
    /// Stores to doorbells.
    pub rings: Bounds,
    /// Requests to connect a doorbell.
    pub connects: Bounds,
    /// Requests that wake an engine.
    pub notifies: Bounds,
    /// Times that a queue was lost.
    pub losses: Bounds,
    /// What rings and looks found the doorbell's status to be, how often each.
    pub seen: BTreeMap<Status, Bounds>,
    /// From a submission to its completion.
    pub latency_ms: WaitBounds,
    /// What a ring took that had to connect the doorbell first.
    pub connect_ms: WaitBounds,
}

/// What a number must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// At least.
    pub min: Option<u64>,
    /// At most.
    pub max: Option<u64>,
}

impl Bounds {
    /// Whether there are any.
    #[must_use]
    pub fn are_set(self) -> bool {
        self != Self::default()
    }

    /// Whether a number keeps to them.
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

/// What waits may take at most, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitBounds {
    /// Half of them.
    pub p50: Option<u64>,
    /// 99 of 100.
    pub p99: Option<u64>,
    /// All.
    pub max: Option<u64>,
}
