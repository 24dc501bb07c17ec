// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the suite asks of a program, and what the program answers: a line of JSON each, on the program's pipes.

use bellhop_guest_umd::display::{Constraint, DisplayError};
use bellhop_guest_umd::transport::TransportError;
use bellhop_guest_umd::{Error, KernelError};
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::status::Status;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Something that a program can do.
pub(super) trait Command: Into<Ask> {
    /// What it answers when it has done it.
    type Answer: Serialize + DeserializeOwned;
}

/// Declares commands, and how they are told apart on the pipe.
macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty),* $(,)? } -> $answer:ty;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Serialize, Deserialize)]
            pub(super) struct $name { $($(#[$fdoc])* pub(super) $field: $type),* }

            impl Command for $name {
                type Answer = $answer;
            }

            impl From<$name> for Ask {
                fn from(command: $name) -> Self {
                    Self::$name(command)
                }
            }
        )*

        /// A line that a program reads.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        pub(super) enum Ask {
            $($name($name)),*
        }

        impl Ask {
            /// Does it; returns the answer as it goes back.
            pub(super) fn perform(
                self,
                performer: &mut super::performer::Performer,
            ) -> Result<serde_json::Value, Failure> {
                use super::performer::Perform as _;
                match self {
                    $(Self::$name(command) => answer(&command.perform(performer)?),)*
                }
            }
        }
    };
}

fn answer(answer: &impl Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(answer).map_err(|error| Failure::Other(error.to_string()))
}

commands! {
    /// Who it is, and what it begins with.
    Introduce {} -> Introduction;
    /// Sends a request as it is; answers with the reply.
    Send { request: Vec<u8> } -> Vec<u8>;
    /// Takes the events that come until one is of this kind, or for this long.
    TakeEvents { until: u32, milliseconds: u64 } -> Vec<Told>;

    /// Where, behind the header of its BAR, the first byte is that is not zero. Asked before anything else.
    FindBytes {} -> Option<u64>;
    /// Opens a file.
    OpenFile { path: String } -> bool;
    /// Fills all doorbells of its BAR with a word, and answers how many there are.
    FillDoorbells { word: u64 } -> u64;
    /// The sum of all words of its BAR's doorbells, statuses and last-queued values, but for whether an engine may sleep.
    SumDoorbells {} -> u64;
    /// Fills its whole BAR with a word.
    FillBar { word: u64 } -> ();

    /// Takes this many bytes of its memory, and answers with the pages' addresses.
    TakePages { bytes: u64 } -> Vec<(u64, u64)>;
    /// Writes into the memory that its queue writes.
    Write { offset: u64, bytes: Vec<u8> } -> ();
    /// Reads from there.
    Read { offset: u64, length: u64 } -> Vec<u8>;
    /// Creates an allocation in a GPU's local memory, has it resident and mapped.
    Allocate { size: u64, shared: bool, gpu: u8 } -> Placed;
    /// Names an allocation.
    ShareAllocation { allocation: usize } -> u64;
    /// Opens another's allocation by its name, has it resident and mapped.
    OpenAllocation { name: u64 } -> Placed;
    /// Lets go of an allocation.
    DropAllocation { allocation: usize } -> ();

    /// Shows source 0 on the first monitor, in its smallest mode.
    Show {} -> Size;
    /// Gives up all sources.
    GiveUp {} -> ();
    /// Creates a primary of this size, for engines to draw on.
    CreatePrimary { size: Size, shared: bool } -> PrimaryAt;
    /// Names a primary.
    SharePrimary { primary: usize } -> u64;
    /// Opens another's primary by its name.
    OpenPrimary { name: u64, size: Size } -> PrimaryAt;
    /// Lets go of a primary.
    DropPrimary { primary: usize } -> ();
    /// Flips source 0 to a primary at a VSYNC, and waits until it is shown; answers with that VSYNC's number.
    FlipTo { primary: usize } -> u64;
    /// The flip that two VSYNCs from now source 0 shows; 0 if it shows none.
    PassVsyncs {} -> u64;

    /// Creates a fence.
    CreateFence { kind: FenceKind, shared: bool } -> FenceAt;
    /// Names a fence.
    ShareFence { fence: usize } -> u64;
    /// Opens another's fence by its name.
    OpenFence { name: u64 } -> FenceAt;
    /// Lets go of a fence.
    DropFence { fence: usize } -> ();
    /// A fence's value as a CPU reads it.
    ReadFence { fence: usize } -> u64;
    /// A CPU signals a fence.
    Signal { fence: usize, value: u64 } -> ();
    /// A CPU waits for a fence.
    Wait { fence: usize, value: u64 } -> ();

    /// Creates another queue, in a context of its own, on a node.
    CreateQueue { node: u32 } -> QueueAt;
    /// Submits these steps so many times; answers with the value that the queue's fence then gets.
    Submit { queue: usize, steps: Vec<Step>, times: u32 } -> u64;
    /// Waits until a queue's fence has a value.
    Finish { queue: usize, value: u64 } -> ();
    /// The value of a queue's fence.
    Progress { queue: usize } -> u64;
    /// What a queue's doorbell reads.
    QueryStatus { queue: usize } -> u32;

    /// Compiles a kernel; answers with its handle and the number by which packets name it.
    CreateKernel {} -> u64;

    /// Ends as a program does.
    Leave {} -> ();
}

/// Who a program is, and what it has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Introduction {
    /// Its user.
    pub(super) user: u32,
    /// The capabilities that it has.
    pub(super) capabilities: u64,
    /// Its process of the operating system.
    pub(super) os_process: u32,
    /// Its process on the device.
    pub(super) process: u32,
    /// Handles of that process: device, context, queue, memory.
    pub(super) handles: [u64; 4],
    /// Where its queue finds its memory.
    pub(super) memory: u64,
    /// The file of its BAR and memory: device and inode.
    pub(super) file: (u64, u64),
}

impl Introduction {
    /// The handle of its device.
    pub(super) fn device(&self) -> u64 {
        self.handles[0]
    }
}

/// An allocation of a program.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Placed {
    /// By which the suite names it.
    pub(super) allocation: usize,
    pub(super) handle: u64,
    /// Where the program's engines find it.
    pub(super) gpu_va: u64,
}

/// The size of a picture of 32-bit pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A primary of a program.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct PrimaryAt {
    /// By which the suite names it.
    pub(super) primary: usize,
    pub(super) handle: u64,
    /// Where the program's engines find it.
    pub(super) gpu_va: u64,
    /// Its bytes.
    pub(super) length: u64,
}

/// A fence of a program.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct FenceAt {
    /// By which the suite names it.
    pub(super) fence: usize,
    pub(super) handle: u64,
    /// By which packets name it.
    pub(super) slot: u32,
}

/// A queue of a program.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct QueueAt {
    /// By which the suite names it.
    pub(super) queue: usize,
    pub(super) handle: u64,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) kind: u32,
    pub(super) process: u32,
    pub(super) object: u64,
    pub(super) cookie: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FenceKind {
    Native,
    Monitored,
}

/// One packet, or one thing that a program's queue does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Step {
    Nothing,
    Fill {
        to: u64,
        length: u64,
        pattern: u32,
    },
    Copy {
        from: u64,
        to: u64,
        length: u64,
    },
    Store {
        to: u64,
        word: u64,
    },
    Signal {
        fence: usize,
        value: u64,
    },
    Wait {
        fence: usize,
        value: u64,
    },
    /// A signal of a fence by its slot, whosever it is.
    SignalSlot {
        slot: u32,
        value: u64,
    },
    /// A packet that no engine knows.
    Unknown,
    /// Computes until the word at `until` is not zero.
    Spin {
        until: u64,
    },
}

/// Why a program did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(super) enum Failure {
    #[error("the device refused it with {}: {text}", Status(*.status))]
    Refused { status: u32, text: String },
    #[error("its queue is lost: {}", FaultReason(*.reason))]
    Lost { reason: u32, address: u64 },
    #[error("there is no memory left for it")]
    OutOfMemory,
    #[error("it was not over in time: {0}")]
    Late(String),
    #[error("the source is not the program's")]
    NotInTopology,
    #[error("another process shows on the source or the monitor")]
    InUse,
    #[error("{0}")]
    NotOffered(String),
    #[error("{0}")]
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Refused { status, .. } => Self::Refused { status: status.0, text },
            Error::QueueLost { fault: Some(fault), .. } => {
                Self::Lost { reason: fault.reason.0, address: fault.address }
            }
            Error::Timeout { .. } => Self::Late(text),
            Error::NotAvailable(_) => Self::NotOffered(text),
            Error::Transport(error) => error.into(),
            _ => Self::Other(text),
        }
    }
}

impl From<DisplayError> for Failure {
    fn from(error: DisplayError) -> Self {
        match error {
            DisplayError::Device(error) => error.into(),
            DisplayError::NotInTopology { .. } => Self::NotInTopology,
            DisplayError::Topology(refusal) if refusal.constraint == Constraint::IN_USE => {
                Self::InUse
            }
            DisplayError::Timeout(what) => Self::Late(what.into()),
            DisplayError::NoDisplay => Self::NotOffered("this guest has no display".into()),
            error => Self::Other(error.to_string()),
        }
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::OutOfMemory(_) => Self::OutOfMemory,
            error => Self::Other(error.to_string()),
        }
    }
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::NotOffered { missing } => Self::NotOffered(missing),
            KernelError::Device(error) => error.into(),
            error => Self::Other(error.to_string()),
        }
    }
}
