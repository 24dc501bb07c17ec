//! What can go wrong, and what to do about it.

use crate::transport::TransportError;
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::event::{Event, FaultReason};
use bellhop_protocol::features::Version;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;

/// What a HW queue did wrong, as the device told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFault {
    /// What it is.
    pub reason: FaultReason,
    /// The packet that was being executed.
    pub opcode: Opcode,
    /// What [`FaultReason`] says it is.
    pub address: u64,
    /// Where in the ring, in bytes since its creation.
    pub read_pointer: u64,
}

impl From<&Event> for QueueFault {
    fn from(event: &Event) -> Self {
        Self {
            reason: event.reason,
            opcode: event.opcode,
            address: event.value,
            read_pointer: event.cookie,
        }
    }
}

impl std::fmt::Display for QueueFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reason, opcode, address, read_pointer } = self;
        write!(f, "{reason} at {address:#x} in packet {opcode}, ring position {read_pointer}")
    }
}

/// Why the driver could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device cannot be reached.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The device is not a Bellhop GPU.
    #[error("this is no Bellhop device: its configuration begins with {magic:#018x}")]
    NotBellhop {
        /// What it begins with.
        magic: u64,
    },
    /// Driver and device speak different versions of the protocol.
    #[error(
        "the device speaks protocol {device}, this driver {driver}; update the older of the two"
    )]
    Version {
        /// The device's.
        device: Version,
        /// This driver's.
        driver: Version,
    },
    /// The device did not offer what the driver needs.
    #[error("{0} is not available: the VMM or the device does not offer it")]
    NotAvailable(&'static str),
    /// The device refused a request.
    #[error("{request} was refused: {status}, about {detail:#x}")]
    Refused {
        /// What was asked for.
        request: RequestCode,
        /// How it ended.
        status: Status,
        /// What the status is about.
        detail: u64,
    },
    /// The device answered what the protocol does not allow.
    #[error("the device's answer to {0} is not one that the protocol allows")]
    BadReply(RequestCode),
    /// The BAR is not what the protocol says it is.
    #[error("the BAR is malformed: {0}")]
    BadBar(&'static str),
    /// The HW queue executes nothing more.
    #[error("HW queue {queue} is lost{}; destroy it and create another", .fault.map_or(String::new(), |fault| format!(": {fault}")))]
    QueueLost {
        /// The queue.
        queue: Handle,
        /// Why, when the device has told by now.
        fault: Option<QueueFault>,
    },
    /// A submission was accepted, and the doorbell could not be rung for it.
    #[error(
        "submission {value} is in the ring, and runs when the doorbell is rung, which failed: \
         {reason}; ring again, or destroy the queue, and do not count it as not submitted"
    )]
    NotRung {
        /// The value that the progress fence gets when it is done.
        value: u64,
        /// Why the doorbell could not be rung.
        reason: Box<Error>,
    },
    /// The device does not read its ring.
    #[error(
        "the ring is full and the device read nothing of it for {waited:?}; is the queue waiting for a fence?"
    )]
    RingFull {
        /// How long.
        waited: std::time::Duration,
    },
    /// A command buffer has no room for a packet.
    #[error(
        "a packet of {needed} bytes does not fit into the {free} that the command buffer has left; submit and reset it, or make it larger"
    )]
    CommandBufferFull {
        /// What the packet takes.
        needed: usize,
        /// What is left.
        free: usize,
    },
    /// A packet that no packet can be.
    #[error("{0}")]
    BadPacket(&'static str),
    /// An access outside an allocation.
    #[error("bytes {offset} to {end} are outside an allocation of {size}")]
    OutOfRange {
        /// Where it begins.
        offset: usize,
        /// Where it ends.
        end: usize,
        /// How large the allocation is.
        size: usize,
    },
    /// The time was over before the fence reached its value.
    #[error("the fence did not reach {value} in time; it is at {current}")]
    Timeout {
        /// What was waited for.
        value: u64,
        /// Where it is.
        current: u64,
    },
}

impl Error {
    /// Whether the device itself is gone, or another is in its place: everything that the program had
    /// of it is lost, and opening it and its adapter again is all that helps.
    #[must_use]
    pub fn is_device_gone(&self) -> bool {
        match self {
            Self::Transport(TransportError::Disconnected(_) | TransportError::Replaced) => true,
            Self::NotRung { reason, .. } => reason.is_device_gone(),
            _ => false,
        }
    }
}
