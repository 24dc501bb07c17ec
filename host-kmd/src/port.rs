// SPDX-License-Identifier: MIT OR Apache-2.0

//! What goes in and out of the kernel: the transport's side of the control plane.

use crate::hardware::{GuestId, SegmentSizes};
use bellhop_protocol::bar::BarLayout;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::control::power::{DevicePowerState, EnginePowerState};
use bellhop_protocol::doorbell::LoggingLevel;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use bellhop_protocol::trace::Record;

/// Names a request until it is answered; the transport's to choose, unique among the guest's
/// unanswered requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

/// The target of the spans of queues, which name a queue and its process in lines of the log.
pub const QUEUE_SPANS: &str = "bellhop::queue";

/// An adapter of a host, by its place among all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterId(pub u32);

/// A fence that several guests of a host may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CrossFenceId(pub(crate) u32);

/// Groups of the host's policy, at most 64: guests that one group names may have fences together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharingGroups(u64);

impl SharingGroups {
    /// A guest that no group names.
    pub const NONE: Self = Self(0);

    /// These and the group with this number, from 0 to 63.
    #[must_use]
    pub const fn with(self, group: u32) -> Self {
        Self(self.0 | 1 << (group % u64::BITS))
    }

    /// Those that are in both, if there are any.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let common = self.0 & other.0;
        (common != 0).then_some(Self(common))
    }
}

/// What a guest gets when it attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestResources {
    /// Where the areas of its BAR are, and with that how many doorbells and fences and how much
    /// local memory it may have.
    pub bar: BarLayout,
    /// How much it may have in the segments that are not in the BAR.
    pub segments: SegmentSizes,
    /// Whether the BAR is mapped into the guest.
    pub bar_mapped: bool,
    /// The features that it is offered.
    pub features: Features,
    /// The groups of guests that it may have fences with.
    pub sharing: SharingGroups,
}

/// What the kernel sends to one guest. Implemented by the transport.
///
/// Calls come from the control plane's thread and must not block on the guest.
pub trait GuestPort: Send {
    /// Answers a request; `reply` begins with a reply header.
    fn reply(&self, token: RequestToken, reply: &[u8]);

    /// Tells the guest something. The transport keeps it until the guest has room, within a bound
    /// of its own: a guest may wait forever without taking an event.
    fn event(&self, event: Event);
}

/// Names a command until it is done; the sender's to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandToken(pub u64);

/// What the host's operator can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Changes the device's power state. Done when it is in that state; fails when a guest needs
    /// the device before it is in D3.
    SetDevicePower(DevicePowerState),
    /// Changes an engine's power state. An engine that has work stays in F0.
    SetEnginePower {
        /// Its node.
        node: u32,
        /// The state.
        state: EnginePowerState,
    },
    /// Changes what is logged of fences. All doorbells are disconnected with `DISCONNECTED_RETRY`, and a driver
    /// learns of the level when it connects again.
    SetLoggingLevel(LoggingLevel),
    /// Suspends all contexts that the guest has now. Done when engines have left them.
    SuspendGuest(GuestId),
    /// Resumes what [`Self::SuspendGuest`] suspended.
    ResumeGuest(GuestId),
    /// Disconnects all doorbells of the guest with `DISCONNECTED_RETRY`.
    DisconnectGuest(GuestId),
    /// Marks all processes of the guest in error: `DISCONNECTED_ABORT` for all its queues.
    FailGuest(GuestId),
}

impl Command {
    /// The guest that it concerns.
    pub(crate) fn guest(self) -> Option<GuestId> {
        match self {
            Self::SetDevicePower(_) | Self::SetEnginePower { .. } | Self::SetLoggingLevel(_) => {
                None
            }
            Self::SuspendGuest(guest)
            | Self::ResumeGuest(guest)
            | Self::DisconnectGuest(guest)
            | Self::FailGuest(guest) => Some(guest),
        }
    }
}

/// Why a command was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CommandError(
    /// What is wrong.
    pub String,
);

/// What a tool that traces wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceAction {
    /// To record from now on.
    Begin {
        /// Room of each engine's trace log.
        entries: u32,
    },
    /// What was recorded since.
    Fetch,
    /// What was recorded since, and to record no more.
    End,
}

/// Some of what was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracePage {
    /// The records.
    pub records: Vec<Record>,
    /// Whether there are more already.
    pub more: bool,
}

/// Why nothing is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// One tool at a time.
    #[error("another tool traces this adapter; try again when it has ended")]
    Busy,
    /// There is none with that number.
    #[error("there is no such adapter")]
    NoAdapter,
    /// No trace log can be made.
    #[error("the host has no {0} for engines' trace logs; ask for less with --buffer")]
    Full(&'static str),
    /// The control plane has ended.
    #[error("the kernel has stopped")]
    Stopped,
}

/// Objects that a tool of the host wants listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListObjects {
    /// The list.
    pub list: ObjectList,
    /// The guest that has the objects; 0 for lists of the adapter.
    pub guest: GuestId,
    /// The process; 0 for lists above processes.
    pub process: u32,
    /// The device or context that they belong to; 0 for lists above those.
    pub parent: Handle,
    /// 0 for the first of them, or [`ObjectPage::next`].
    pub after: u64,
}

/// Some of a list's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPage {
    /// What to ask for next, or 0 when that was all.
    pub next: u64,
    /// The objects, of types of [`bellhop_protocol::snapshot`]: an array in JSON.
    pub objects: Vec<u8>,
}

/// Why a list cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ListError {
    /// The guest, process or object that would have them does not exist, or not any more.
    pub gone: bool,
    /// What is wrong.
    pub why: String,
}

/// What the kernel is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A guest came.
    Attach {
        /// The guest. Not attached before.
        guest: GuestId,
        /// What it gets.
        resources: GuestResources,
    },
    /// A guest went, or was reset. [`Effect::Detached`] follows when nothing of it is left;
    /// requests that are not answered by then are not answered at all.
    Detach {
        /// The guest.
        guest: GuestId,
    },
    /// A guest asks for something.
    Request {
        /// The guest.
        guest: GuestId,
        /// Names the request.
        token: RequestToken,
        /// The request as the guest wrote it, copied out of its memory.
        request: Vec<u8>,
        /// Bytes that its reply may have.
        room: usize,
    },
    /// The hardware has interrupts.
    Interrupt,
    /// The host's operator asks for something.
    Command {
        /// Names the command.
        token: CommandToken,
        /// What.
        command: Command,
    },
    /// Another guest's view of a fence was signaled, and this guest has a view, too.
    CrossAdapterSignal {
        /// The guest that has the view.
        guest: GuestId,
        /// The fence.
        fence: CrossFenceId,
        /// Whether it is signaled for good.
        always: bool,
    },
    /// A tool that traces wants something.
    Trace {
        /// Names what it wants.
        token: CommandToken,
        /// What.
        action: TraceAction,
    },
    /// The time is what was last set, and something may be due.
    Timeout,
}

/// What the kernel wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// See [`GuestPort::reply`].
    Reply {
        /// To whom.
        guest: GuestId,
        /// To which request.
        token: RequestToken,
        /// Header and reply.
        reply: Vec<u8>,
    },
    /// See [`GuestPort::event`].
    Event {
        /// To whom.
        guest: GuestId,
        /// What.
        event: Event,
    },
    /// A command is done, or was refused.
    CommandDone {
        /// Which.
        token: CommandToken,
        /// What came of it.
        result: Result<(), CommandError>,
    },
    /// What a tool that traces wanted.
    Traced {
        /// Which.
        token: CommandToken,
        /// What was recorded.
        result: Result<TracePage, TraceError>,
    },
    /// Nothing of the guest is left: no engine touches its memory any more.
    Detached {
        /// The guest.
        guest: GuestId,
    },
}
