// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the hardware reports to tools: times, and what engines do.

use super::{AddressSpaceId, ConnectorUse, GuestId, HardwareFull, HwQueueId, UnknownId};
use bellhop_protocol::control::adapter::Statistics;
use bellhop_protocol::handoff::fence_log::FenceLog;
use bellhop_protocol::snapshot::{Cgroup, Cgroups};

/// The operation of a trace-log entry for an engine's execution: `reserved` is the queue, `observed_timestamp` the
/// start, `fence_value` the number of turns.
pub const EXECUTED: u32 = u32::MAX;

/// The host's clocks at one moment, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostClocks {
    /// `CLOCK_MONOTONIC`
    pub monotonic: u64,
    /// `CLOCK_BOOTTIME`
    pub boottime: u64,
    /// `CLOCK_REALTIME`
    pub realtime: u64,
}

/// The front end that attached a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontEnd {
    /// The path of the socket on which it connected.
    pub socket: String,
    /// The number of its connection among those of the socket, from 0 on; `None` where the socket has one at a time.
    pub connection: Option<u32>,
    /// Its process when it connected; `None` if that is in another PID namespace.
    pub pid: Option<u32>,
    /// That process's name, which the process chooses. `None` if the host hides it from this process.
    pub command: Option<String>,
}

/// A part of the GPU that can be busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusyOf {
    /// The engine of this node.
    Engine(u32),
    /// A HW queue.
    Queue(HwQueueId),
}

/// A kernel that the hardware has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDescription {
    /// Its number.
    pub number: u32,
    /// Its entry point.
    pub entry_point: String,
    /// Whether it is compiled.
    pub is_compiled: bool,
    /// Bytes of its SPIR-V.
    pub spirv: u64,
}

/// A process that runs or compiles kernels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerDescription {
    /// Its process id.
    pub pid: u32,
    /// [`Worker::role`](bellhop_protocol::snapshot::Worker::role)
    pub role: &'static str,
    /// [`Worker::state`](bellhop_protocol::snapshot::Worker::state)
    pub state: &'static str,
    /// Its guest.
    pub guest: Option<GuestId>,
    /// The address space that it has.
    pub space: Option<AddressSpaceId>,
    /// The node whose engine has it.
    pub node: Option<u32>,
    /// Bytes of its own memory.
    pub memory: Option<u64>,
    /// Bytes of memory that it shares.
    pub shared: Option<u64>,
}

/// The hardware as tools see it.
pub trait Observe {
    /// The adapter's clock, which log entries use: monotonic nanoseconds.
    fn gpu_clock(&self) -> u64;

    /// The host's clocks, now.
    fn host_clocks(&self) -> HostClocks;

    /// Makes each engine write a trace log of `entries` entries, beside the logs of its queues, while everything is
    /// logged. Its entries are those of the queues' logs, with the queue's id in place of zero, and [`EXECUTED`]
    /// ones.
    ///
    /// # Errors
    /// Fails if there is no memory for the logs.
    fn begin_trace(&self, entries: u32) -> Result<(), HardwareFull>;

    /// Calls `act` with the trace log of an engine, if it has one. Entries may be read after [`FenceLog::flush`].
    fn with_trace_log(&self, node: u32, act: &mut dyn FnMut(FenceLog<'_>));

    /// Removes the trace logs.
    fn end_trace(&self);

    /// The front end that attached a guest, if known.
    fn front_end(&self, guest: GuestId) -> Option<FrontEnd>;

    /// Nanoseconds on the adapter's clock for which an engine was busy, or a queue was executed, until now.
    ///
    /// # Errors
    /// Fails for a node or a queue that does not exist.
    fn busy_time(&self, of: BusyOf) -> Result<u64, UnknownId>;

    /// The guest's weight when engines share their time among guests, for tools.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn guest_weight(&self, guest: GuestId) -> Result<u32, UnknownId>;

    /// The hardware's part of a guest's statistics: packets, bytes, doorbells, interrupts, wake-ups and engine time.
    /// The rest is zero.
    ///
    /// # Errors
    /// Fails for a guest that does not exist.
    fn statistics(&self, guest: GuestId) -> Result<Statistics, UnknownId>;

    /// The kernels of an address space, by number.
    fn kernels(&self, space: AddressSpaceId) -> Vec<KernelDescription>;

    /// The processes that run and compile kernels, by process id. Engines are not asked.
    fn workers(&self) -> Vec<WorkerDescription>;

    /// Whether the workers of each guest have a cgroup; `None` where there are no workers.
    fn cgroups(&self) -> Option<Cgroups>;

    /// The cgroups of a guest's workers: one for each GPU whose workers it has had.
    fn guest_cgroups(&self, guest: GuestId) -> Vec<Cgroup>;

    /// What people made of a guest's connector.
    fn connector_use(&self, guest: GuestId, child: u32) -> Result<ConnectorUse, UnknownId>;
}
