// SPDX-License-Identifier: MIT OR Apache-2.0

//! A packet's violation, without its position in the ring, which the command processor adds.

use bellhop_protocol::event::FaultReason;

/// A rule that a guest's queue broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at {address:#x}")]
pub struct Violation {
    /// The rule.
    pub reason: FaultReason,
    /// The address or value that the reason calls for.
    pub address: u64,
}

impl Violation {
    /// A broken rule, and the address or value that its reason calls for.
    pub const fn new(reason: FaultReason, address: u64) -> Self {
        Self { reason, address }
    }
}

/// Checks that an address or a length is a multiple of `unit`.
///
/// # Errors
/// `MISALIGNED`.
pub fn aligned(value: u64, unit: u64) -> Result<(), Violation> {
    if !value.is_multiple_of(unit) {
        return Err(Violation::new(FaultReason::MISALIGNED, value));
    }
    Ok(())
}
