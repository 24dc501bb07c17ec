// SPDX-License-Identifier: MIT OR Apache-2.0

//! Faults that the kernel itself assigns to queues.

use crate::hardware::Fault;
use bellhop_protocol::event::FaultReason;
use bellhop_protocol::packet::Opcode;

/// The fault of every queue when the adapter was reset.
pub(crate) const ADAPTER_RESET: Fault = Fault::new(FaultReason::ADAPTER_RESET, Opcode::NOP, 0);

/// The fault of every queue of a guest that the host's operator has put in error.
pub(crate) const FAILED_BY_OPERATOR: Fault =
    Fault::new(FaultReason::FAILED_BY_OPERATOR, Opcode::NOP, 0);

/// The fault of every queue of a guest without its GPU.
pub(crate) const GPU_REMOVED: Fault = Fault::new(FaultReason::GPU_REMOVED, Opcode::NOP, 0);

/// The fault of every queue of a guest whose agent has stopped the device.
pub(crate) const DEVICE_STOPPED: Fault = Fault::new(FaultReason::DEVICE_STOPPED, Opcode::NOP, 0);

/// The fault of a queue that the host has put in error, or that lost its memory.
pub(crate) const IN_ERROR: Fault = Fault::new(FaultReason::DEVICE_IN_ERROR, Opcode::NOP, 0);
