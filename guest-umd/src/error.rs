// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors, and what a program does about them.

use crate::transport::TransportError;
use crate::transport::find::NoDevice;
use bellhop_protocol::control::{Handle, RequestCode};
use bellhop_protocol::event::{Event, FaultReason};
use bellhop_protocol::features::Version;
use bellhop_protocol::packet::Opcode;
use bellhop_protocol::status::Status;

/// Why the device took a HW queue away: the queue's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFault {
    /// The kind of fault.
    pub reason: FaultReason,
    /// The packet in execution.
    pub opcode: Opcode,
    /// The fault's address or value, as [`FaultReason`] defines.
    pub address: u64,
    /// Position of the packet in the ring, in bytes since the ring's creation.
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
        write!(f, "{reason}")?;
        match *reason {
            // The host took the queue, whichever packet was in execution.
            FaultReason::DEVICE_IN_ERROR
            | FaultReason::ADAPTER_RESET
            | FaultReason::FAILED_BY_OPERATOR
            | FaultReason::GPU_REMOVED
            | FaultReason::DEVICE_STOPPED => return Ok(()),
            FaultReason::ENGINE_TIMEOUT => write!(f, " after {address} ms")?,
            FaultReason::FENCE_NOT_OWNED | FaultReason::FENCE_NOT_NATIVE => {
                write!(f, " of fence slot {address}")?;
            }
            FaultReason::NO_SUCH_KERNEL | FaultReason::KERNEL_FAILED | FaultReason::KERNEL_LOST => {
                write!(f, " of kernel {address}")?
            }
            FaultReason::BAD_PACKET_LENGTH | FaultReason::BAD_INDIRECT_BUFFER => {
                write!(f, " of {address} bytes")?;
            }
            FaultReason::PROTECTED_MEMORY => write!(f, " at {address:#x}")?,
            FaultReason::SECURITY_LOST => {}
            FaultReason::BAD_SECURITY_ARGUMENTS => write!(f, ": {address} bytes")?,
            reason if reason.is_page_fault() => write!(f, " at {address:#x}")?,
            FaultReason::INDIRECT_BUFFER_TOO_DEEP | FaultReason::ADDRESS_OUT_OF_RANGE => {
                write!(f, " at {address:#x}")?;
            }
            _ => write!(f, ", value {address:#x}")?,
        }
        write!(f, " in packet {opcode}, ring position {read_pointer}")
    }
}

/// Why the driver failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device cannot be reached.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// No device was found.
    #[error(transparent)]
    NoDevice(#[from] NoDevice),
    /// The device is not a Bellhop GPU.
    #[error("the device is not a Bellhop GPU: its configuration begins with {magic:#018x}")]
    NotBellhop {
        /// The first eight bytes of the device's configuration.
        magic: u64,
    },
    /// Driver and device use different versions of the protocol.
    #[error(
        "the device speaks protocol {device}, this driver {driver}; update the older of the two"
    )]
    Version {
        /// The device's version.
        device: Version,
        /// This driver's version.
        driver: Version,
    },
    /// The device does not offer what the driver needs.
    #[error("{0} is not available: the VMM or the device does not offer it")]
    NotAvailable(&'static str),
    /// The device refused a request.
    #[error("the device refused {request}: {status}, detail {detail:#x}")]
    Refused {
        /// The request.
        request: RequestCode,
        /// The reply's status.
        status: Status,
        /// Detail of the status: a field's value, a limit, a handle.
        detail: u64,
    },
    /// The device's reply breaks the protocol.
    #[error("the device's reply to {0} breaks the protocol")]
    BadReply(RequestCode),
    /// The BAR's header, or an offset that the device gave, breaks the protocol.
    #[error("the BAR is malformed: {0}")]
    BadBar(&'static str),
    /// The HW queue executes nothing more.
    #[error("HW queue {queue} is lost{}; destroy it and create another", .fault.map_or(String::new(), |fault| format!(": {fault}")))]
    QueueLost {
        /// The queue.
        queue: Handle,
        /// The fault, if the device has reported it.
        fault: Option<QueueFault>,
    },
    /// A HW queue was lost while it ran kernels: [`QueueLost`](Self::QueueLost), with the kernels that its command
    /// buffer dispatches. See [`CommandBuffer::blame`](crate::CommandBuffer::blame).
    #[error("{} failed: {fault}; HW queue {queue} is lost: destroy it and create another", suspects(.kernels))]
    KernelFault {
        /// The queue.
        queue: Handle,
        /// The names of the kernels, one of which failed.
        kernels: Vec<String>,
        /// The fault. Its address is what the kernel accessed, or as [`FaultReason`] defines.
        fault: QueueFault,
    },
    /// The arguments of a dispatch are not those of its kernel.
    #[error("kernel {kernel} takes {takes}, but the dispatch passes {passed}")]
    KernelArguments {
        /// The kernel's name.
        kernel: String,
        /// What the kernel was created with.
        takes: String,
        /// What it was to get.
        passed: String,
    },
    /// A submission is in the ring, but the doorbell could not be rung for it.
    #[error(
        "submission {value} is in the ring, but ringing the doorbell failed: {reason}; ring again or \
         destroy the queue, and do not submit it elsewhere: it may still run"
    )]
    NotRung {
        /// The value that the progress fence gets when the submission is done.
        value: u64,
        /// Why the doorbell could not be rung.
        reason: Box<Error>,
    },
    /// The ring is full, and the device does not read it.
    #[error(
        "the ring is full, and the device has read none of it for {waited:?}; check whether the queue waits for a fence"
    )]
    RingFull {
        /// How long the driver waited.
        waited: std::time::Duration,
    },
    /// A command buffer has no room for a packet.
    #[error(
        "a packet of {needed} bytes does not fit: the command buffer has {free} left; submit and reset it, or create a larger one"
    )]
    CommandBufferFull {
        /// Size of the packet in bytes.
        needed: usize,
        /// Free bytes.
        free: usize,
    },
    /// A packet, ring or buffer with a size or content that the protocol does not allow.
    #[error("{0}")]
    BadPacket(&'static str),
    /// An access outside an allocation.
    #[error("bytes {offset} to {end} are outside an allocation of {size} bytes")]
    OutOfRange {
        /// First byte of the access.
        offset: usize,
        /// First byte after the access.
        end: usize,
        /// Size of the allocation in bytes.
        size: usize,
    },
    /// The time-out expired before the fence reached its value.
    #[error("the fence did not reach {value} in time: its value is {current}")]
    Timeout {
        /// The awaited value.
        value: u64,
        /// The fence's present value.
        current: u64,
    },
}

/// One kernel by its name, or several of which one failed.
fn suspects(kernels: &[String]) -> String {
    match kernels {
        [only] => format!("kernel {only}"),
        several => format!("one of the kernels {}", several.join(", ")),
    }
}

impl Error {
    /// Returns whether the device is gone or was replaced. Everything that the program created is then lost, and it
    /// must open its transport and its adapter again.
    #[must_use]
    pub fn is_device_gone(&self) -> bool {
        match self {
            Self::Transport(TransportError::Disconnected(_) | TransportError::Replaced) => true,
            Self::NotRung { reason, .. } => reason.is_device_gone(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_what_its_reason_says_of_the_address() {
        let shown = |reason, address| {
            let opcode = Opcode::DISPATCH;
            QueueFault { reason, opcode, address, read_pointer: 64 }.to_string()
        };
        let place = " in packet DISPATCH, ring position 64";
        for (reason, address, expected) in [
            (FaultReason::ENGINE_TIMEOUT, 2000, "ENGINE_TIMEOUT after 2000 ms"),
            (FaultReason::WRITE_PAGE_FAULT, 0x7d000, "WRITE_PAGE_FAULT at 0x7d000"),
            (FaultReason::FENCE_NOT_OWNED, 12, "FENCE_NOT_OWNED of fence slot 12"),
            (FaultReason::KERNEL_LOST, 3, "KERNEL_LOST of kernel 3"),
            (FaultReason::BAD_PACKET_LENGTH, 24, "BAD_PACKET_LENGTH of 24 bytes"),
            (FaultReason::MISALIGNED, 0x1001, "MISALIGNED, value 0x1001"),
        ] {
            assert_eq!(shown(reason, address), format!("{expected}{place}"));
        }
    }

    #[test]
    fn a_fault_that_no_packet_caused_names_none() {
        for reason in [
            FaultReason::ADAPTER_RESET,
            FaultReason::DEVICE_IN_ERROR,
            FaultReason::DEVICE_STOPPED,
            FaultReason::FAILED_BY_OPERATOR,
            FaultReason::GPU_REMOVED,
        ] {
            let fault = QueueFault { reason, opcode: Opcode::NOP, address: 0, read_pointer: 0 };
            assert_eq!(fault.to_string(), reason.to_string());
        }
    }
}
