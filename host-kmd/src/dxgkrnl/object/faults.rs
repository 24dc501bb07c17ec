// SPDX-License-Identifier: MIT OR Apache-2.0

//! Faults that the kernel itself gives queues.

use crate::hardware::Fault;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;

/// The fault of every queue when the adapter was reset.
pub(crate) const ADAPTER_RESET: Fault =
    Fault { reason: FaultReason::ADAPTER_RESET, opcode: Opcode::NOP, address: 0, read_pointer: 0 };

/// The fault of a queue that the host has put in error, or that lost its memory.
pub(crate) const IN_ERROR: Fault = Fault {
    reason: FaultReason::DEVICE_IN_ERROR,
    opcode: Opcode::NOP,
    address: 0,
    read_pointer: 0,
};

/// A fault at no particular place in a ring.
pub(crate) fn fault(reason: FaultReason, opcode: Opcode, address: u64) -> Fault {
    Fault { reason, opcode, address, read_pointer: 0 }
}
