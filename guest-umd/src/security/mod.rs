// SPDX-License-Identifier: MIT OR Apache-2.0

//! The security node: memory that no CPU reads, data that only this guest opens again, and signed statements.
//!
//! [`SecureSession`] does all of it. Where the host has no such node, it says so ([`SecurityError::NotOffered`]). What a
//! program may rely on, and against whom: `docs/security-node.md`.
//!
//! ```no_run
#![doc = include_str!("../../examples/secret.rs")]
//! ```

mod error;
mod packets;
mod protected;
mod session;

pub use error::SecurityError;
pub use protected::Protected;
pub use session::SecureSession;

use crate::adapter::Adapter;
use crate::error::Error;
use bellhop_protocol::control::security::{QuerySecurityCaps, SecurityCaps};

impl Adapter {
    /// What the security node offers: whether there is one, its ordinal, its limits in bytes, and the key that verifies its
    /// statements.
    ///
    /// # Errors
    /// Only the common errors.
    pub fn security_caps(&self) -> Result<SecurityCaps, Error> {
        self.adapter_call(&QuerySecurityCaps { reserved: 0 })
    }
}
