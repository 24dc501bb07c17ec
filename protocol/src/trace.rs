// SPDX-License-Identifier: MIT OR Apache-2.0

//! Records of a trace: what engines and queues do, as it happens, for the host's operator.
//!
//! They cross a control socket as lines of JSON. The client sends a [`TraceRequest`] and gets a [`TraceReply`], as
//! often as it likes. The daemon records from the connection's first request until its last, or until the
//! connection ends.

use crate::snapshot::Name;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A line from a client to a control socket that asks for the records since the last request.
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
    /// Size of each engine's trace log in MiB, in the first request of a connection; 0 for
    /// [`DEFAULT_TRACE_BUFFER_MIB`].
    #[serde(default)]
    pub buffer_mib: u32,
}

/// Default size of an engine's trace log: about 350,000 entries.
pub const DEFAULT_TRACE_BUFFER_MIB: u32 = 16;
/// Maximum size of an engine's trace log.
pub const MAX_TRACE_BUFFER_MIB: u32 = 4096;

/// The control socket's reply line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceReply {
    /// Records in the order of their arrival; records of different queues are not ordered by time.
    Records {
        /// The records.
        records: Vec<Record>,
        /// Whether more records are ready.
        more: bool,
    },
    /// The request cannot be answered; one line says why.
    Error(String),
}

/// Maximum number of records in a reply.
pub const MAX_TRACE_RECORDS: usize = 4096;
/// Maximum length of a reply line in bytes.
pub const MAX_TRACE_REPLY: usize = 2 << 20;

/// A traced event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Time on the adapter's clock, in nanoseconds.
    pub time: u64,
    /// The event.
    pub what: What,
}

/// The kinds of traced event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A HW queue exists. Later records name it by its number.
    Queue {
        /// Number of the queue, unique in the adapter.
        queue: u64,
        /// The node that executes it.
        node: u32,
        /// Its guest.
        guest: u64,
        /// Its process.
        process: u32,
        /// The queue's handle in that process.
        handle: Name,
        /// The handle of its context there.
        context: Name,
        /// The handle of its device there.
        device: Name,
        /// The queue's progress fence, as its log entries name it.
        progress_fence: u32,
    },
    /// A process calls a device, context, HW queue or fence something from now on, or has given it up.
    Called {
        /// Its guest.
        guest: u64,
        /// The process.
        process: u32,
        /// The object's handle in that process.
        handle: Name,
        /// As in [`What::Signal`] for a fence; 0 for another object.
        object: u64,
        /// The name, by the guest's word; `None` from when the object has none, or the process has no such object.
        name: Option<String>,
    },
    /// A queue signaled a fence.
    Signal {
        /// The queue.
        queue: u64,
        /// The fence, as the queue's process names it.
        fence: u32,
        /// The value.
        value: u64,
        /// `FENCE_SIGNAL_QUEUED`: when the driver queued it, on that clock; 0 if it did not say. The guest chooses
        /// this value.
        queued: u64,
        /// The adapter-wide number of the fence, common to all processes; 0 if unknown.
        object: u64,
    },
    /// A wait of a queue ended.
    Wait {
        /// The queue.
        queue: u64,
        /// The fence, as the queue's process names it.
        fence: u32,
        /// The value.
        value: u64,
        /// `FENCE_WAIT_QUEUED`: when the driver queued it, on that clock; 0 if it did not say. The guest chooses
        /// this value.
        queued: u64,
        /// When the wait began to hold the queue, on that clock; 0 if it did not.
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
        /// The fence's handle in that process.
        fence: Name,
        /// The value.
        value: u64,
        /// As in [`What::Signal`].
        object: u64,
    },
    /// A CPU's wait ended.
    CpuWait {
        /// Its guest.
        guest: u64,
        /// Its process.
        process: u32,
        /// The fence that ended the wait, by its handle in that process.
        fence: Name,
        /// The awaited value.
        value: u64,
        /// When the wait began, on that clock.
        since: u64,
        /// As in [`What::Signal`].
        object: u64,
    },
    /// An engine executed a queue until the record's time, in consecutive turns.
    Executed {
        /// The node.
        node: u32,
        /// The queue.
        queue: u64,
        /// Start of the first turn.
        since: u64,
        /// Number of turns.
        turns: u64,
    },
    /// Total busy time of an engine.
    Busy {
        /// The node.
        node: u32,
        /// [`Node::busy_time`](crate::snapshot::Node::busy_time)
        busy_time: u64,
    },
    /// The host's clocks, in nanoseconds, at the record's time.
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
        /// Number of lost entries.
        entries: u64,
    },
    /// The client's buffer was full, and records were dropped.
    Dropped {
        /// Number of dropped records.
        records: u64,
    },
    /// An engine entered a power state: `F0` or `F1`.
    Engine {
        /// Its node.
        node: u32,
        /// The state.
        state: String,
    },
    /// The device entered a power state: `D0`, `D0 to D3` or `D3`.
    Device {
        /// The state.
        state: String,
    },
    /// A queue's doorbell entered a state: `disconnected`, `connecting`, `settling`, `connected` or `aborted`.
    Doorbell {
        /// The queue.
        queue: u64,
        /// The state.
        state: String,
    },
}
