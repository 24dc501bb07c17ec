//! What a packet did wrong, before it is known where in the ring it stood.

use bellhop_protocol::event::FaultReason;

/// A rule that a guest's queue broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at {address:#x}")]
pub struct Violation {
    /// Which rule.
    pub reason: FaultReason,
    /// What the reason says it is.
    pub address: u64,
}

impl Violation {
    /// A broken rule and the address that its reason asks for.
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
