// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a guest could not start.

use bellhop_guest_umd::transport::TransportError;

/// Why a guest could not start.
#[derive(Debug, thiserror::Error)]
pub enum FakeGuestError {
    /// The VMM refuses the device.
    #[error("the VMM refuses the device: {0}")]
    Refused(String),
    /// The VMM does not support the operation.
    #[error("{0} does not {1}; choose another VMM profile")]
    VmmCannot(&'static str, &'static str),
    /// The operating system refused something.
    #[error("{0}: {1}")]
    Io(&'static str, std::io::Error),
    /// Guest memory, or a queue in it, could not be allocated.
    #[error(transparent)]
    Transport(#[from] TransportError),
}
