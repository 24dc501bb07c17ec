// SPDX-License-Identifier: MIT OR Apache-2.0

//! Snapshots of objects, for tools.
//!
//! The kernel makes each list from its state at one time and sends it as JSON: within a guest through the request
//! [`Escape`](crate::control::escape::Escape), on the host through the daemon's control socket. An object is sent
//! with empty lists of children; the reader assembles the tree.
//!
//! Names of fields and values are stable. Fields may be added: readers skip unknown fields and take the default for
//! missing ones.

use crate::control::Handle;
use crate::control::adapter::Statistics;
use crate::control::escape::ObjectList;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the format. These types cannot read another version.
pub const SNAPSHOT_VERSION: u32 = 1;

/// The part of one adapter's state that the client may see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`]
    pub version: u32,
    /// The adapter.
    pub adapter: Adapter,
    /// The adapter's nodes, by ordinal.
    pub nodes: Vec<Node>,
    /// The processes that run and compile guests' kernels.
    pub workers: Vec<Worker>,
    /// The attached guests, by id.
    pub guests: Vec<Guest>,
}

/// The adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adapter {
    /// Index among the host's adapters; 0 within a guest, which sees one.
    pub ordinal: u32,
    /// The adapter's name in the host's configuration; empty within a guest.
    pub name: String,
    /// Version of the protocol, `MAJOR.MINOR`.
    pub protocol: String,
    /// `dedicated` or `global`.
    pub doorbell_model: String,
    /// Number of physical doorbells, in the dedicated model.
    pub physical_doorbells: u32,
    /// Number of physical doorbells that watch a queue's doorbell. All guests share them, so no guest is told.
    pub physical_doorbells_used: Option<u32>,
    /// The device's power state: `D0`, `D3`, or `D0 to D3` during the transition.
    pub power: String,
    /// Number of transitions to D3.
    pub power_transitions: u64,
    /// The GPUs of a chain, the master first; empty without a chain.
    pub gpus: Vec<Gpu>,
    /// The adapter's clock, in nanoseconds. Busy times grow no faster.
    pub time: u64,
    /// Whether a tool traces the adapter, so that engines log everything. No guest is told which tool.
    pub traced: bool,
    /// What the host's operator has changed, the newest of each kind. No guest is told.
    pub changes: Vec<Change>,
    /// Whether the workers of each guest have a cgroup, if there are workers. No guest is told.
    pub cgroups: Option<Cgroups>,
}

/// Whether there are cgroups that bound what processes take together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroups {
    /// The controllers that they have, of `memory`, `pids` and `cpu`; empty if there are none.
    pub controllers: Vec<String>,
    /// Why there are none, if that is known.
    pub missing: Option<String>,
}

/// The cgroup of a guest's workers. A number is missing where its controller is, or where there is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// The path of its folder, where the daemon sees it.
    pub path: String,
    /// Bytes that are charged to it.
    pub memory: Option<u64>,
    /// Most bytes.
    pub memory_limit: Option<u64>,
    /// Its threads.
    pub threads: Option<u64>,
    /// Most threads.
    pub threads_limit: Option<u64>,
    /// Its weight beside other groups when processors are short.
    pub weight: Option<u64>,
    /// Processes that Linux has ended because they took more memory together, since the guest has the group.
    pub killed: Option<u64>,
}

/// Power of a GPU of a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// Its ordinal in the chain.
    pub ordinal: u8,
    /// `D0` or `D3`.
    pub power: String,
    /// Whether it has power only while something needs it.
    pub when_needed: bool,
    /// Number of transitions to D3.
    pub power_transitions: u64,
    /// Nanoseconds in D0.
    pub powered_time: u64,
}

/// What an operator has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// What was changed: a key of the configuration, or `suspended`, `failed`, `gpu`, `gpu ORDINAL`, `display NAME`,
    /// `power`, `engine NODE`, `agent`.
    pub what: String,
    /// What it is now, in words.
    pub now: String,
    /// The user who asked.
    pub uid: u32,
    /// The process that asked; 0 if it is in another PID namespace.
    pub pid: u32,
    /// The process's name, which it chooses; empty if the daemon may not read it.
    pub command: String,
    /// When, on the adapter's clock, in nanoseconds.
    pub time: u64,
}

/// A node and its engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its ordinal.
    pub ordinal: u32,
    /// The ordinal of the GPU that has it: 0 for the master of a chain, and for an adapter that is none.
    pub gpu: u32,
    /// `THREE_D`, `COPY`, `VIDEO_DECODE`, `VIDEO_ENCODE` or `CRYPTO`.
    pub engine_type: String,
    /// Its name.
    pub name: String,
    /// Whether the node's queues may use user-mode submission.
    pub user_mode_submission: bool,
    /// The engine's power state: `F0` or `F1`.
    pub power: String,
    /// Number of transitions to F1.
    pub power_transitions: u64,
    /// Nanoseconds that the engine spent executing queues. All guests share it, so no guest is told.
    pub busy_time: Option<u64>,
    /// The only processor that the engine runs on, if the operator chose one. No guest is told.
    pub processor: Option<u32>,
    /// The HW queues that the engine may execute, ordered by guest, process and handle.
    pub run_list: Vec<Listed>,
}

/// A HW queue on a run list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listed {
    /// The guest.
    pub guest: u64,
    /// The process.
    pub process: u32,
    /// The context.
    pub context: Name,
    /// The queue.
    pub hw_queue: Name,
    /// [`HwQueue::queued`]
    pub queued: u64,
    /// [`HwQueue::completed`]
    pub completed: u64,
    /// [`HwQueue::busy_time`]
    pub busy_time: u64,
}

/// An attached guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guest {
    /// Its id.
    pub id: u64,
    /// The path of the socket that the guest connected to, if there is one. No guest is told.
    pub socket: Option<String>,
    /// The number of its connection among those of the socket, from 0 on, if the socket has more than one at a time. No
    /// guest is told.
    pub connection: Option<u32>,
    /// The process id of the guest's front end, unless that process is in another PID namespace. No guest is told.
    pub pid: Option<u32>,
    /// The name that the front-end process has chosen, if the daemon may read it. No guest is told.
    pub command: Option<String>,
    /// `attached`, `open` once the guest has opened the adapter, or `leaving`.
    pub state: String,
    /// Whether the guest's BAR is mapped.
    pub bar_mapped: bool,
    /// The names of the features that the guest took.
    pub features: String,
    /// The weight of the guest's socket: the share of engine time of the socket's guests together, relative to others.
    pub weight: u32,
    /// Whether the host's operator has suspended the guest.
    pub suspended: bool,
    /// `started`; `stopped` by its agent; or `removed`: the operator has taken its GPU away.
    pub gpu: String,
    /// The ordinals of the other GPUs of its chain that the operator has taken away.
    pub gpus_removed: Vec<u32>,
    /// What the host's operator has changed, the newest of each kind. No guest is told.
    pub changes: Vec<Change>,
    /// The cgroups of the guest's workers: one for each GPU whose workers it has had. No guest is told.
    pub cgroups: Vec<Cgroup>,
    /// The guest's agent.
    pub agent: Agent,
    /// The guest's counters.
    pub statistics: Counts,
    /// The guest's limits and what it uses of them.
    pub quotas: Vec<Quota>,
    /// The guest's memory, by segment.
    pub memory: Vec<SegmentUse>,
    /// The guest's displays, by connector.
    pub displays: Vec<Display>,
    /// The guest's processes, by id.
    pub processes: Vec<Process>,
}

/// A connector of a guest's, and what it shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Display {
    /// The connector's number.
    pub connector: u32,
    /// Its name in the host's configuration. No guest is told.
    pub name: Option<String>,
    /// `virtual`, `hdmi` or `displayport`.
    pub kind: String,
    /// Whether a monitor is plugged in.
    pub plugged: bool,
    /// How often a monitor was plugged in or unplugged.
    pub plugs: u32,
    /// Number of viewers. No guest is told.
    pub viewers: Option<u64>,
    /// How often the guest's displays were reset.
    pub resets: u64,
    /// The committed path to it.
    pub path: Option<DisplayPath>,
}

/// A path from a source to a connector. Connectors that show one source have the same of what is about the source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DisplayPath {
    /// The process that committed it.
    pub process: u32,
    /// Another process that may flip the source.
    pub lent_to: Option<u32>,
    /// The source.
    pub source: u32,
    /// Pixels of a row of the source's picture.
    pub width: u32,
    /// Rows of the source's picture.
    pub height: u32,
    /// Its pixel format, as [`PixelFormat`](crate::pixel_format::PixelFormat) names it.
    pub format: String,
    /// Pixels of a row of the monitor.
    pub monitor_width: u32,
    /// Rows of the monitor.
    pub monitor_height: u32,
    /// VSYNCs in `refresh_denominator` seconds.
    pub refresh_numerator: u32,
    /// See `refresh_numerator`.
    pub refresh_denominator: u32,
    /// `identity`, `centered`, `stretched` or `aspect-ratio-centered-max`.
    pub scaling: String,
    /// How far the picture is turned, counter-clockwise: 0, 90, 180 or 270 degrees.
    pub rotation: u32,
    /// Whether the source is visible.
    pub visible: bool,
    /// The flip that is shown, by the driver's number; 0 for none.
    pub flip: u64,
    /// The flips that wait, by the driver's numbers, in order.
    pub pending: Vec<u64>,
    /// VSYNCs of the source up to the last at which a flip happened.
    pub vsyncs: u64,
    /// Flips of the source that were shown since the guest was attached.
    pub shown: u64,
    /// VSYNCs between them at which the picture before was shown once more.
    pub missed: u64,
    /// Flips that were dropped for newer ones.
    pub dropped: u64,
    /// Flips that were lost.
    pub lost: u64,
}

/// A guest's agent, and what it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agent {
    /// The process that is the agent, if there is one.
    pub process: Option<u32>,
    /// `balanced`, `performance` or `saving`.
    pub power_policy: String,
    /// Requests that it has not answered.
    pub pending: u32,
    /// Requests to it so far.
    pub asked: u64,
    /// Requests that it answered in time.
    pub answered: u64,
    /// Escapes of the agents' namespace that were refused.
    pub refused: u64,
}

/// Counters of a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Packets that engines executed.
    pub packets: u64,
    /// Bytes that those packets read or wrote in bulk.
    pub bytes: u64,
    /// Rings that engines saw.
    pub doorbells: u64,
    /// Fence interrupts.
    pub interrupts: u64,
    /// Requests.
    pub control_messages: u64,
    /// `NOTIFY_WORK_SUBMISSION` requests among them.
    pub notifies: u64,
    /// Doorbells that lost their physical doorbell to another queue.
    pub victims: u64,
    /// Nanoseconds that engines spent executing the guest's queues, as in `QUERY_STATISTICS`.
    pub engine_time: u64,
}

impl From<Statistics> for Counts {
    fn from(statistics: Statistics) -> Self {
        let Statistics { packets, bytes, doorbells, interrupts, .. } = statistics;
        let Statistics { control_messages, notifies, victims, engine_time, .. } = statistics;
        Self {
            packets,
            bytes,
            doorbells,
            interrupts,
            control_messages,
            notifies,
            victims,
            engine_time,
        }
    }
}

/// Use of one limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// The limited resource.
    pub what: String,
    /// The amount in use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// A guest's part of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentUse {
    /// The segment's name, as [`Allocation::segment`] has it.
    pub segment: String,
    /// The ordinal of the GPU whose memory it is, of a chain.
    pub gpu: Option<u32>,
    /// The segment's bytes, if it is bounded.
    pub size: Option<u64>,
    /// Allocated bytes, including allocations that were destroyed a moment ago.
    pub used: u64,
    /// Number of allocations in the segment.
    pub allocations: u64,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// The program that it is for, by the guest's word.
    pub program: Option<Program>,
    /// Its weight among its guest's processes.
    pub weight: u32,
    /// The number of the group with which it uses one part of its guest's engine time.
    pub group: u32,
    /// Number of mappings in the process's GPU virtual address space.
    pub mappings: u64,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Its kernels, by number.
    pub kernels: Vec<Kernel>,
}

/// A program of a guest's operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Its user.
    pub user: u32,
    /// Its process id.
    pub pid: u32,
    /// Its name, in printable ASCII.
    pub command: String,
}

/// A kernel that a guest brought. The host forgets one that its compiler refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// The number by which packets name it.
    pub number: u32,
    /// The name of its entry point.
    pub entry_point: String,
    /// `compiling` or `compiled`.
    pub state: String,
    /// Bytes of its SPIR-V.
    pub spirv: u64,
}

/// A process of the host's that does for engines what it must not do in its own: see [`Self::role`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// Its process id. No guest is told.
    pub pid: Option<u32>,
    /// What it is for: `kernels`: runs or compiles guests' kernels, or `video`: decodes or encodes for a session.
    pub role: String,
    /// `starting`, `spare`: ready for the next process, `compiling`, `compiler`: has compiled, and waits for more,
    /// `loading`: gets kernels that an engine wants to run, `running`, `stopped`: an engine lets another queue run,
    /// `idle`, or `ending`.
    pub state: String,
    /// The guest for which it works.
    pub guest: Option<u64>,
    /// The guest's process whose address space it has.
    pub process: Option<u32>,
    /// The node whose engine has it.
    pub node: Option<u32>,
    /// Bytes of its own memory, if the host lets the daemon know.
    pub memory: Option<u64>,
    /// Bytes of memory that it shares: what it has accessed of the guest's, and what its driver allocates in a file.
    pub shared: Option<u64>,
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its handle.
    pub handle: Name,
    /// Its name for people, by the guest's word.
    pub name: Option<String>,
    /// Whether the host has marked it in error.
    pub in_error: bool,
    /// Its contexts.
    pub contexts: Vec<Context>,
    /// Its allocations.
    pub allocations: Vec<Allocation>,
    /// The device's fences, without progress fences.
    pub fences: Vec<Fence>,
}

/// A context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Its handle.
    pub handle: Name,
    /// Its name for people, by the guest's word.
    pub name: Option<String>,
    /// The node that executes it.
    pub node: u32,
    /// The ordinal of the GPU that has the node.
    pub gpu: u32,
    /// Its scheduling priority, -7 to 7.
    pub priority: i8,
    /// `running`, `suspended` or `lost`.
    pub state: String,
    /// How the context submits to its node in kernel mode: `basic`, `basic++` or `virtual`. `null` if it has HW
    /// queues of its process's instead.
    pub model: Option<String>,
    /// What keeps the context off the run list: `owner`, `host`, `power`, `error`.
    pub suspended_by: Vec<String>,
    /// Its HW queues.
    pub hw_queues: Vec<HwQueue>,
}

/// A HW queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HwQueue {
    /// Its handle.
    pub handle: Name,
    /// Its name for people, by the guest's word.
    pub name: Option<String>,
    /// `user-mode` or `kernel-mode`.
    pub submission: String,
    /// `listed` if the queue is on its engine's run list, else `suspended`, `ending` or `error`.
    pub state: String,
    /// Its progress fence.
    pub progress_fence: Name,
    /// The last progress-fence value that was queued. It lies in guest memory, so the guest chooses it.
    pub queued: u64,
    /// The current value of the progress fence.
    pub completed: u64,
    /// Number of log entries read. The kernel reads them when a fence with a CPU waiter is signaled.
    pub logged: u64,
    /// Number of entries overwritten before they were read.
    pub log_entries_lost: u64,
    /// Nanoseconds that the engine spent executing the queue.
    pub busy_time: u64,
    /// Its doorbell, if it has one.
    pub doorbell: Option<Doorbell>,
}

/// A doorbell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Doorbell {
    /// Its handle.
    pub handle: Name,
    /// `disconnected`, `connecting`, `settling`, `connected` or `aborted`.
    pub state: String,
    /// The status that the kernel published last. An engine that falls asleep turns `CONNECTED` into
    /// `CONNECTED_NOTIFY` by itself.
    pub status: String,
    /// The physical doorbell that watches it, in the dedicated model.
    pub physical: Option<u32>,
    /// Bytes in its ring buffer.
    pub ring_size: u64,
}

/// An allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocation {
    /// Its handle.
    pub handle: Name,
    /// Its name for people, by the guest's word.
    pub name: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// `system`, `local`, `private` or `backing`.
    pub segment: String,
    /// The ordinal of the GPU whose private memory it is in, of a chain.
    pub gpu: Option<u32>,
    /// Whether the GPU can access the allocation.
    pub resident: bool,
    /// Number of its extents.
    pub extents: u64,
    /// Number of its mappings, including those for rings.
    pub mappings: u64,
    /// Number of doorbells with rings in it.
    pub doorbells: u32,
    /// Number of processes that have it open, if it was created for sharing; otherwise 0.
    pub processes: u64,
}

/// A native fence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fence {
    /// Its handle.
    pub handle: Name,
    /// Its name for people, by the guest's word.
    pub name: Option<String>,
    /// CurrentValue.
    pub value: u64,
    /// MonitoredValue, while a CPU waits.
    pub monitored: Option<u64>,
    /// Number of pending CPU waits.
    pub waits: u64,
    /// Whether other guests may open the fence.
    pub cross_adapter: bool,
}

/// A handle. In JSON a string such as `"0x100000001"`, because many JSON readers have no 64-bit integers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u64);

impl From<Handle> for Name {
    fn from(handle: Handle) -> Self {
        Self(handle.0)
    }
}

impl From<Name> for Handle {
    fn from(name: Name) -> Self {
        Self(name.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string of 0x and hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Name, E> {
                let number = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
                match number {
                    Some(Ok(number)) => Ok(Name(number)),
                    _ => Err(E::custom("a handle is 0x and hexadecimal digits")),
                }
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// A line from a client to a control socket that asks for a list of objects; the host-side counterpart of
/// [`Escape`](crate::control::escape::Escape).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// [`SNAPSHOT_VERSION`]
    pub version: u32,
    /// The number of the [`ObjectList`].
    pub list: u32,
    /// The adapter, for lists of its nodes and guests.
    #[serde(default)]
    pub adapter: u32,
    /// The guest; 0 for lists of the adapter.
    #[serde(default)]
    pub guest: u64,
    /// The process; 0 for lists above processes.
    #[serde(default)]
    pub process: u32,
    /// The device or context; 0 for lists above those.
    #[serde(default)]
    pub parent: Name,
    /// 0 for the first objects, or `next` of a [`ListReply`].
    #[serde(default)]
    pub after: Name,
}

impl ListRequest {
    /// The list.
    #[must_use]
    pub const fn list(&self) -> ObjectList {
        ObjectList(self.list)
    }
}

/// The control socket's reply line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListReply<T> {
    /// Some of the objects.
    Objects {
        /// The `after` of the next request, or 0 at the end of the list.
        next: Name,
        /// The objects.
        objects: Vec<T>,
    },
    /// The owner of the objects does not exist, or no longer exists.
    Gone(String),
    /// The request cannot be answered; one line says why.
    Error(String),
}

/// Maximum length of a [`ListRequest`] line in bytes.
pub const MAX_LIST_REQUEST: usize = 1024;
/// Maximum length of the objects in a [`ListReply`] line, in bytes.
pub const MAX_LIST_REPLY: usize = 64 << 10;
