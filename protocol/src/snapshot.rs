// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tools are told of the objects that there are.
//!
//! The kernel makes each of these from what it knows at one time and sends it as JSON: within a
//! guest through the request [`Escape`](crate::control::escape::Escape), on the host through the
//! daemon's control socket. A list of children is empty when the object is sent; who reads puts
//! the tree together.
//!
//! Names of fields and values stay. Fields may be added: readers skip what they do not know, and
//! take the default for what is not there.

use crate::control::Handle;
use crate::control::adapter::Statistics;
use crate::control::escape::ObjectList;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the format: another one is not to be read with these types.
pub const SNAPSHOT_VERSION: u32 = 1;

/// Everything of one adapter that one asker may see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`]
    pub version: u32,
    /// The adapter.
    pub adapter: Adapter,
    /// Its nodes, by ordinal.
    pub nodes: Vec<Node>,
    /// The guests that are attached, by id.
    pub guests: Vec<Guest>,
}

/// The adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adapter {
    /// Its place among the host's adapters; 0 within a guest, which has one.
    pub ordinal: u32,
    /// Its name in the host's configuration; empty within a guest.
    pub name: String,
    /// Version of the protocol, `MAJOR.MINOR`.
    pub protocol: String,
    /// `dedicated` or `global`.
    pub doorbell_model: String,
    /// Physical doorbells, in the dedicated model.
    pub physical_doorbells: u32,
    /// How many of them watch a queue's doorbell. All guests share them, so no guest is told.
    pub physical_doorbells_used: Option<u32>,
    /// The device's power: `D0`, `D3`, or `D0 to D3` while it is on its way.
    pub power: String,
    /// How often it has gone to D3.
    pub power_transitions: u64,
    /// Its clock: nanoseconds. Busy times grow no faster than this.
    pub time: u64,
    /// Whether a tool traces it, so that everything is logged. No guest is told who.
    pub traced: bool,
}

/// A node and its engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its ordinal.
    pub ordinal: u32,
    /// `THREE_D` or `COPY`.
    pub engine_type: String,
    /// Its name.
    pub name: String,
    /// Whether its queues may be for user-mode submission.
    pub user_mode_submission: bool,
    /// The engine's power: `F0` or `F1`.
    pub power: String,
    /// How often it has gone to F1.
    pub power_transitions: u64,
    /// Nanoseconds that its engine executed queues. All guests share it, so no guest is told.
    pub busy_time: Option<u64>,
    /// The only processor that its engine runs on, if the operator chose one. No guest is told.
    pub processor: Option<u32>,
    /// The HW queues that it may execute, in the order of their guests, processes and handles.
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

/// A guest that is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guest {
    /// Its id.
    pub id: u64,
    /// The path of the socket that it came by, if there is one. No guest is told.
    pub socket: Option<String>,
    /// The process that connected to it, its front end, unless that is of another PID namespace. No guest is
    /// told.
    pub pid: Option<u32>,
    /// That process's name, which it has chosen, where the daemon may read it. No guest is told.
    pub command: Option<String>,
    /// `attached`, `open` once it has opened the adapter, or `leaving`.
    pub state: String,
    /// Whether its BAR is mapped.
    pub bar_mapped: bool,
    /// The features that it took, by name.
    pub features: String,
    /// Its weight: engines share their time among guests by it.
    pub weight: u32,
    /// What it did so far.
    pub statistics: Counts,
    /// What it has used of what it may have.
    pub quotas: Vec<Quota>,
    /// Its memory, by segment.
    pub memory: Vec<SegmentUse>,
    /// Its processes, by id.
    pub processes: Vec<Process>,
}

/// What was counted for a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Packets that engines executed.
    pub packets: u64,
    /// Bytes that they read or wrote in bulk.
    pub bytes: u64,
    /// Rings that they saw.
    pub doorbells: u64,
    /// Fence interrupts.
    pub interrupts: u64,
    /// Requests.
    pub control_messages: u64,
    /// `NOTIFY_WORK_SUBMISSION` requests among them.
    pub notifies: u64,
    /// Doorbells that lost their physical one to another.
    pub victims: u64,
    /// Nanoseconds that engines executed its queues, as `QUERY_STATISTICS` counts them.
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

/// How much of one limit is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Of what.
    pub what: String,
    /// How much is used.
    pub used: u64,
    /// How much may be.
    pub limit: u64,
}

/// A guest's part of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentUse {
    /// The segment's name, as [`Allocation::segment`] has it.
    pub segment: String,
    /// How many bytes it has, where that is bounded.
    pub size: Option<u64>,
    /// How many of them are given out, to allocations that were destroyed a moment ago too.
    pub used: u64,
    /// How many allocations are in it.
    pub allocations: u64,
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// How many mappings its GPU virtual addresses have.
    pub mappings: u64,
    /// Its devices.
    pub devices: Vec<Device>,
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its handle.
    pub handle: Name,
    /// Whether the host has marked it in error.
    pub in_error: bool,
    /// Its contexts.
    pub contexts: Vec<Context>,
    /// Its allocations.
    pub allocations: Vec<Allocation>,
    /// Its fences, without progress fences.
    pub fences: Vec<Fence>,
}

/// A context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Its handle.
    pub handle: Name,
    /// The node that executes it.
    pub node: u32,
    /// Its scheduling priority, -7 to 7.
    pub priority: i8,
    /// `running`, `suspended` or `lost`.
    pub state: String,
    /// How it submits to its node in kernel mode: `basic`, `basic++` or `virtual`. `null` when it
    /// has HW queues of its process's instead.
    pub model: Option<String>,
    /// Who keeps it off the run list: `owner`, `host`, `power`, `error`.
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
    /// `user-mode` or `kernel-mode`.
    pub submission: String,
    /// `listed` when it is on its engine's run list, else `suspended`, `ending` or `error`.
    pub state: String,
    /// Its progress fence.
    pub progress_fence: Name,
    /// The last value that it was given to reach. In a guest's memory, and so what the guest says.
    pub queued: u64,
    /// The value that its progress fence has.
    pub completed: u64,
    /// Entries of its logs that were read. They are when fences were signaled that a CPU waits for.
    pub logged: u64,
    /// Entries that were overwritten before they were read.
    pub log_entries_lost: u64,
    /// Nanoseconds that its engine executed it.
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
    /// What the kernel published last. An engine that falls asleep makes `CONNECTED_NOTIFY` of
    /// `CONNECTED` by itself.
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
    /// Its bytes.
    pub size: u64,
    /// `system`, `local`, `private` or `backing`.
    pub segment: String,
    /// Whether the GPU reaches it.
    pub resident: bool,
    /// In how many pieces it is.
    pub extents: u64,
    /// How often it is mapped, for rings too.
    pub mappings: u64,
    /// How many doorbells' rings use it.
    pub doorbells: u32,
    /// How many processes have it, if it was created for sharing; otherwise 0.
    pub processes: u64,
}

/// A native fence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fence {
    /// Its handle.
    pub handle: Name,
    /// CurrentValue.
    pub value: u64,
    /// MonitoredValue, while a CPU waits.
    pub monitored: Option<u64>,
    /// How many CPU waits are pending.
    pub waits: u64,
    /// Whether other guests may have it.
    pub cross_adapter: bool,
}

/// A handle: in JSON a string such as `"0x100000001"`, because many readers of JSON have no
/// integers of 64 bits.
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

/// A line that is sent to a control socket: which objects are wanted. An
/// [`Escape`](crate::control::escape::Escape) with a guest, so to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// [`SNAPSHOT_VERSION`]
    pub version: u32,
    /// The number of the [`ObjectList`].
    pub list: u32,
    /// The adapter, for its nodes and its guests.
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

/// A line that a control socket answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListReply<T> {
    /// Some of the objects.
    Objects {
        /// What to ask for next, or 0 when that was all.
        next: Name,
        /// The objects.
        objects: Vec<T>,
    },
    /// The owner of the objects does not exist, or no longer exists.
    Gone(String),
    /// The request cannot be answered; one line says why.
    Error(String),
}

/// Most bytes in a [`ListRequest`]'s line.
pub const MAX_LIST_REQUEST: usize = 1024;
/// Most bytes of objects in a [`ListReply`]'s line.
pub const MAX_LIST_REPLY: usize = 64 << 10;
