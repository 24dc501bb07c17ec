// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records of a trace: what engines and queues do, as it happens, for the host's operator.
//!
//! They cross a control socket in lines of JSON: a [`TraceRequest`], then a [`TraceReply`], as often as the
//! client likes. It is recorded from the connection's first request until its last, or until it ends.

use crate::snapshot::Name;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A line that is sent to a control socket: for what was recorded since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    /// [`SNAPSHOT_VERSION`](crate::snapshot::SNAPSHOT_VERSION)
    pub version: u32,
    /// The adapter. All requests of a connection name one adapter.
    #[serde(default)]
    pub adapter: u32,
    /// Whether to continue recording; false ends the trace.
    pub trace: bool,
    /// MiB that each engine's trace log has, for the first request of a connection; 0 for
    /// [`DEFAULT_TRACE_BUFFER_MIB`].
    #[serde(default)]
    pub buffer_mib: u32,
}

/// What an engine's trace log has if nothing else is wanted: about 350,000 entries.
pub const DEFAULT_TRACE_BUFFER_MIB: u32 = 16;
/// Most that it can have.
pub const MAX_TRACE_BUFFER_MIB: u32 = 4096;

/// A line that a control socket answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceReply {
    /// What was recorded, as it came: records of different queues are not in the order of their times.
    Records {
        /// The records.
        records: Vec<Record>,
        /// Whether there are more already.
        more: bool,
    },
    /// The request cannot be answered; one line says why.
    Error(String),
}

/// Most records in a reply.
pub const MAX_TRACE_RECORDS: usize = 4096;
/// Most bytes in a reply's line.
pub const MAX_TRACE_REPLY: usize = 2 << 20;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When, on the adapter's clock: nanoseconds.
    pub time: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// There is a HW queue, which later records name by its number.
    Queue {
        /// Its number, among all of the adapter.
        queue: u64,
        /// The node that executes it.
        node: u32,
        /// Its guest.
        guest: u64,
        /// Its process.
        process: u32,
        /// Its handle there.
        handle: Name,
        /// Its progress fence, as entries of its logs name it.
        progress_fence: u32,
    },
    /// A queue signaled a fence.
    Signal {
        /// The queue.
        queue: u64,
        /// The fence, as the queue's process names it.
        fence: u32,
        /// The value.
        value: u64,
        /// `FENCE_SIGNAL_QUEUED`: when the driver queued it, on the same clock; 0 when it did not say. What
        /// the guest says.
        queued: u64,
        /// Which of the adapter's fences it is, whatever processes call it; 0 when that is not known.
        object: u64,
    },
    /// A wait of a queue's was over.
    Wait {
        /// The queue.
        queue: u64,
        /// The fence, as the queue's process names it.
        fence: u32,
        /// The value.
        value: u64,
        /// `FENCE_WAIT_QUEUED`: when the driver queued it, on the same clock; 0 when it did not say. What
        /// the guest says.
        queued: u64,
        /// Since when the queue was held, on that clock; 0 when it was not.
        held: u64,
        /// As in [`What::Signal`].
        object: u64,
    },
    /// A CPU signaled a fence.
    CpuSignal {
        /// Its guest.
        guest: u64,
        /// Its process.
        process: u32,
        /// The fence, by its handle there.
        fence: Name,
        /// The value.
        value: u64,
        /// As in [`What::Signal`].
        object: u64,
    },
    /// A CPU's wait was over.
    CpuWait {
        /// Its guest.
        guest: u64,
        /// Its process.
        process: u32,
        /// The fence that ended it, by its handle there.
        fence: Name,
        /// The value that it needed.
        value: u64,
        /// When it began, on that clock.
        since: u64,
        /// As in [`What::Signal`].
        object: u64,
    },
    /// An engine executed a queue until now, in turns that came upon each other.
    Executed {
        /// The node.
        node: u32,
        /// The queue.
        queue: u64,
        /// Since when.
        since: u64,
        /// How many turns.
        turns: u64,
    },
    /// How long an engine was busy so far.
    Busy {
        /// The node.
        node: u32,
        /// [`Node::busy_time`](crate::snapshot::Node::busy_time)
        busy_time: u64,
    },
    /// The host's clocks, in nanoseconds, at this time on the adapter's.
    Clock {
        /// `CLOCK_MONOTONIC`
        monotonic: u64,
        /// `CLOCK_BOOTTIME`
        boottime: u64,
        /// `CLOCK_REALTIME`
        realtime: u64,
    },
    /// Entries of an engine's trace log were overwritten before they were recorded.
    Lost {
        /// The node.
        node: u32,
        /// How many.
        entries: u64,
    },
    /// More happened than is kept for a client: this number of records is missing.
    Dropped {
        /// How many.
        records: u64,
    },
    /// An engine is in this state: `F0` or `F1`.
    Engine {
        /// Its node.
        node: u32,
        /// The state.
        state: String,
    },
    /// The device is in this state: `D0`, `D0 to D3` or `D3`.
    Device {
        /// The state.
        state: String,
    },
    /// A queue's doorbell is in this state: `disconnected`, `connecting`, `settling`, `connected` or
    /// `aborted`.
    Doorbell {
        /// The queue.
        queue: u64,
        /// The state.
        state: String,
    },
}
