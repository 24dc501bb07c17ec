// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the hardware tells tools: times, and what engines do.

use super::{GuestId, HardwareFull, HwQueueId, UnknownId};
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::handoff::fence_log::FenceLog;

/// The operation of an entry of a trace log that says what an engine executed: `reserved` is the queue,
/// `observed_timestamp` since when, `fence_value` in how many turns.
pub const EXECUTED: u32 = u32::MAX;

/// The host's clocks at one time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostClocks {
    /// `CLOCK_MONOTONIC`
    pub monotonic: u64,
    /// `CLOCK_BOOTTIME`
    pub boottime: u64,
    /// `CLOCK_REALTIME`
    pub realtime: u64,
}

/// The front end that brought a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontEnd {
    /// The path of the socket that it came by.
    pub socket: String,
    /// Its process when it connected; `None` when that is in another PID namespace.
    pub pid: Option<u32>,
    /// That process's name, which the process chooses. None where the host keeps it from this one.
    pub command: Option<String>,
}

/// What can be busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusyOf {
    /// The engine of this node.
    Engine(u32),
    /// A HW queue.
    Queue(HwQueueId),
}

/// The hardware as tools see it.
pub trait Observe {
    /// The adapter's clock, which entries of logs have: nanoseconds that never go back.
    fn gpu_clock(&self) -> u64;

    /// The host's clocks, now.
    fn host_clocks(&self) -> HostClocks;

    /// Has each engine write a trace log of `entries` entries while everything is logged, beside the logs of
    /// its queues. An entry is as in those, with the queue's id where they have zero; or it is an
    /// [`EXECUTED`] one.
    ///
    /// # Errors
    /// When there is no memory for them.
    fn begin_trace(&self, entries: u32) -> Result<(), HardwareFull>;

    /// Does something with the trace log of an engine, if it has one. Entries are read behind
    /// [`FenceLogs::flush_fence_logs`](super::FenceLogs::flush_fence_logs).
    fn with_trace_log(&self, node: u32, act: &mut dyn FnMut(FenceLog<'_>));

    /// Takes the trace logs away.
    fn end_trace(&self);

    /// The front end that brought a guest, if it is known.
    fn front_end(&self, guest: GuestId) -> Option<FrontEnd>;

    /// Nanoseconds on the adapter's clock that an engine or a queue was busy: that an engine executed it,
    /// until now.
    ///
    /// # Errors
    /// For a node or a queue that does not exist.
    fn busy_time(&self, of: BusyOf) -> Result<u64, UnknownId>;

    /// The weight by which engines share their time with this guest, for tools.
    ///
    /// # Errors
    /// For a guest that does not exist.
    fn guest_weight(&self, guest: GuestId) -> Result<u32, UnknownId>;

    /// The hardware's part of a guest's statistics: packets, bytes, doorbells, interrupts, wake-ups and
    /// engines' time. The rest is zero.
    ///
    /// # Errors
    /// For a guest that does not exist.
    fn statistics(&self, guest: GuestId) -> Result<Statistics, UnknownId>;
}
