//! Records of a trace: what whoever runs the host is told of engines and queues as it happens.
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
    /// The adapter. All requests of a connection are about the same one.
    #[serde(default)]
    pub adapter: u32,
    /// Whether to go on recording; false ends the trace.
    pub trace: bool,
}

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
pub const MAX_TRACE_RECORDS: usize = 1024;
/// Most bytes in a reply's line.
pub const MAX_TRACE_REPLY: usize = 512 << 10;

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
        /// When the driver queued it, on the same clock; 0 when it did not say. What the guest says.
        queued: u64,
    },
    /// A wait of a queue's was over.
    Wait {
        /// The queue.
        queue: u64,
        /// The fence, as the queue's process names it.
        fence: u32,
        /// The value.
        value: u64,
        /// Since when the queue was held, on the same clock; 0 when it was not.
        held: u64,
    },
    /// Entries of a queue's logs were overwritten before they were recorded.
    Lost {
        /// The queue.
        queue: u64,
        /// How many.
        entries: u64,
    },
    /// More happened than is kept for a client: so many records are missing.
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
