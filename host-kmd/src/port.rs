// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's inputs and outputs: the transport's side of the control plane.

use crate::hardware::{GpuOrdinal, GuestId, SegmentSizes};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::agent::{AgentAnswer, AskAgent};
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use bellhop_protocol::snapshot::Change;
use bellhop_protocol::trace::Record;

/// Names a request until it is answered. The transport chooses it, unique among the guest's unanswered requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

/// The target of queue spans, which name a queue and its process in log lines.
pub const QUEUE_SPANS: &str = "bellhop::queue";

/// An adapter of a host, by its index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterId(pub u32);

/// A fence that several guests of a host may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CrossFenceId(pub(crate) u32);

/// Groups of the host's policy, at most 64: guests that one group names may share fences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharingGroups(u64);

impl SharingGroups {
    /// The groups of a guest that no group names.
    pub const NONE: Self = Self(0);

    /// Adds the group with this number, from 0 to 63.
    #[must_use]
    pub const fn with(self, group: u32) -> Self {
        Self(self.0 | 1 << (group % u64::BITS))
    }

    /// The groups in both sets, if any.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let common = self.0 & other.0;
        (common != 0).then_some(Self(common))
    }
}

/// The resources that a guest gets when it attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestResources {
    /// Layout of its BAR areas, which also limits its doorbells, fences and local memory.
    pub bar: BarLayout,
    /// Sizes of its segments outside the BAR.
    pub segments: SegmentSizes,
    /// Whether the BAR is mapped into the guest.
    pub bar_mapped: bool,
    /// The features offered to it.
    pub features: Features,
    /// The groups of guests with which it may share fences.
    pub sharing: SharingGroups,
}

/// What the kernel sends to one guest. Implemented by the transport.
///
/// Calls come from the control plane's thread and must not touch the guest's memory: its VMM can make that wait.
pub trait GuestPort: Send {
    /// Answers a request; `reply` begins with a reply header.
    fn reply(&self, token: RequestToken, reply: Vec<u8>);

    /// Sends the guest an event. The transport keeps it until the guest has room, within its own bound: a guest may
    /// never take an event.
    fn event(&self, event: Event);
}

/// Names a command until it is done. The sender chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandToken(pub u64);

/// A request of the host's operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Changes the device's power state. Done when it is in that state; fails if a guest needs the device before it
    /// is in D3.
    SetDevicePower(DevicePowerState),
    /// Changes an engine's power state. An engine that has work stays in F0.
    SetEnginePower {
        /// The engine's node.
        node: u32,
        /// The state.
        state: EnginePowerState,
    },
    /// Changes what is logged of fences. All doorbells are disconnected with `DISCONNECTED_RETRY`, and a driver
    /// learns of the level when it reconnects.
    SetLoggingLevel(LoggingLevel),
    /// Suspends all contexts of the guest, and those that it creates from now on. Done when engines have left them.
    SuspendGuest(GuestId),
    /// Undoes [`Self::SuspendGuest`].
    ResumeGuest(GuestId),
    /// Disconnects all doorbells of the guest with `DISCONNECTED_RETRY`.
    DisconnectGuest(GuestId),
    /// Marks all processes of the guest in error: `DISCONNECTED_ABORT` for all its queues.
    FailGuest(GuestId),
    /// Takes a GPU away from the guest. With the master all are gone: its devices are in error, its monitors show nothing,
    /// and it gets no new ones. With a slave the contexts on that are lost, and what is in its memory moves out.
    TakeGpu(GuestId, GpuOrdinal),
    /// Undoes [`Self::TakeGpu`].
    GiveGpu(GuestId, GpuOrdinal),
    /// Changes a limit of the guest. What it uses stays, even if that is more.
    SetLimit {
        /// The guest.
        guest: GuestId,
        /// What is limited.
        limit: GuestLimit,
        /// The most that the guest may have.
        most: u32,
    },
}

/// A limit that may change while a guest is attached: a field of [`Limits`](crate::dxgkrnl::Limits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestLimit {
    /// Objects; their mappings and the entries of allocation lists are limited to this number too.
    Objects,
    /// Allocations.
    Allocations,
    /// HW queues.
    HwQueues,
    /// Waits.
    Waits,
    /// Cross-adapter fences.
    CrossAdapterFences,
    /// Kernels.
    Kernels,
}

impl Command {
    /// The guest that the command is about.
    pub(crate) fn guest(self) -> Option<GuestId> {
        match self {
            Self::SetDevicePower(_) | Self::SetEnginePower { .. } | Self::SetLoggingLevel(_) => {
                None
            }
            Self::SuspendGuest(guest)
            | Self::ResumeGuest(guest)
            | Self::DisconnectGuest(guest)
            | Self::FailGuest(guest)
            | Self::TakeGpu(guest, _)
            | Self::GiveGpu(guest, _)
            | Self::SetLimit { guest, .. } => Some(guest),
        }
    }
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CommandError(
    /// The reason.
    pub String,
);

/// A request of a tool that traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceAction {
    /// Begins to record.
    Begin {
        /// Entries of each engine's trace log.
        entries: u32,
    },
    /// Fetches what was recorded since the last request.
    Fetch,
    /// Fetches what was recorded since the last request, and stops recording.
    End,
}

/// A part of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracePage {
    /// The records.
    pub records: Vec<Record>,
    /// Whether more records are available already.
    pub more: bool,
}

/// Why nothing is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Another tool traces: one tool at a time.
    #[error("another tool traces this adapter; try again when it has ended")]
    Busy,
    /// There is no adapter with that number.
    #[error("there is no such adapter")]
    NoAdapter,
    /// The hardware cannot create trace logs.
    #[error("the host has no {0} for engines' trace logs; ask for less with --buffer")]
    Full(&'static str),
    /// The control plane has ended.
    #[error("the kernel has stopped")]
    Stopped,
}

/// A request of a host tool for a list of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListObjects {
    /// The list.
    pub list: ObjectList,
    /// The guest that owns the objects; 0 for lists of the adapter.
    pub guest: GuestId,
    /// The process; 0 for lists above processes.
    pub process: u32,
    /// The device or context that owns them; 0 for lists above those.
    pub parent: Handle,
    /// 0 for the first page, or [`ObjectPage::next`].
    pub after: u64,
}

/// A page of a list's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPage {
    /// Where the next page begins, or 0 if this is the last.
    pub next: u64,
    /// The objects, of types of [`bellhop_protocol::snapshot`]: an array in JSON.
    pub objects: Vec<u8>,
}

/// Why a list is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ListError {
    /// Whether the guest, process or object that would own the objects does not exist (any more).
    pub gone: bool,
    /// The reason.
    pub why: String,
}

/// An input of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A guest attaches.
    Attach {
        /// The guest, never attached before.
        guest: GuestId,
        /// Its resources.
        resources: GuestResources,
    },
    /// A guest detaches, or was reset. [`Effect::Detached`] follows when nothing of it remains; requests unanswered
    /// by then are never answered.
    Detach {
        /// The guest.
        guest: GuestId,
    },
    /// A guest sends a request.
    Request {
        /// The guest.
        guest: GuestId,
        /// Names the request.
        token: RequestToken,
        /// The request's bytes, copied out of the guest's memory.
        request: Vec<u8>,
        /// Maximum bytes of its reply.
        room: usize,
    },
    /// The hardware has interrupts.
    Interrupt,
    /// The host's operator sends a command.
    Command {
        /// Names the command.
        token: CommandToken,
        /// The command.
        command: Command,
    },
    /// The host's operator asks a guest's agent.
    AskAgent {
        /// Names the request.
        token: CommandToken,
        /// The guest.
        guest: GuestId,
        /// The request.
        request: AskAgent,
    },
    /// The host's operator has changed something, for tools.
    Note {
        /// The guest; `None` for the adapter.
        guest: Option<GuestId>,
        /// The change.
        change: Change,
    },
    /// Another guest's view of a fence was signaled. This guest has a view, too.
    CrossAdapterSignal {
        /// This guest.
        guest: GuestId,
        /// The fence.
        fence: CrossFenceId,
        /// Whether the fence is permanently signaled.
        always: bool,
    },
    /// A tool that traces sends a request.
    Trace {
        /// Names the request.
        token: CommandToken,
        /// The request.
        action: TraceAction,
    },
    /// Time has passed, so something may be due. The caller sets the time before.
    Timeout,
}

/// An effect for the kernel's owner to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// See [`GuestPort::reply`].
    Reply {
        /// The guest.
        guest: GuestId,
        /// The request.
        token: RequestToken,
        /// Header and reply.
        reply: Vec<u8>,
    },
    /// See [`GuestPort::event`].
    Event {
        /// The guest.
        guest: GuestId,
        /// The event.
        event: Event,
    },
    /// A command is done, or failed.
    CommandDone {
        /// The command.
        token: CommandToken,
        /// Its result.
        result: Result<(), CommandError>,
    },
    /// What an agent answers the host's operator, or the kernel in its place.
    AgentAnswered {
        /// The request.
        token: CommandToken,
        /// The answer. Its text is a guest's.
        answer: AgentAnswer,
    },
    /// The answer to a tool that traces.
    Traced {
        /// The request.
        token: CommandToken,
        /// The recording.
        result: Result<TracePage, TraceError>,
    },
    /// Nothing of the guest remains: no engine touches its memory any more.
    Detached {
        /// The guest.
        guest: GuestId,
    },
}
