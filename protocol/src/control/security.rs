// SPDX-License-Identifier: MIT OR Apache-2.0

//! The request about the security node. Specific to Bellhop.

use super::request;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the device's security node offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QuerySecurityCaps {
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(QuerySecurityCaps, 8, reserved at 0);
request!(QuerySecurityCaps, QUERY_SECURITY_CAPS -> SecurityCaps);

/// [`SecurityCaps::flags`]: there is a security node, and allocations may be protected. Without it, all else is 0.
pub const SECURITY_SUPPORTED: u32 = 1 << 0;
/// [`SecurityCaps::flags`]: the root key comes from a file of the operator's, so that what is sealed outlives the
/// daemon. Otherwise the key is drawn when the daemon starts.
pub const SECURITY_LASTING_KEY: u32 = 1 << 1;

/// Properties of the security node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct SecurityCaps {
    /// [`SECURITY_SUPPORTED`] and [`SECURITY_LASTING_KEY`].
    pub flags: u32,
    /// Ordinal of the node.
    pub node: u32,
    /// Most bytes that one `SEAL` encrypts.
    pub max_sealed: u32,
    /// Most bytes of associated data.
    pub max_associated: u32,
    /// The Ed25519 key that verifies the adapter's statements.
    pub public_key: [u8; 32],
}
crate::assert_layout!(
    SecurityCaps, 48,
    flags at 0, node at 4, max_sealed at 8, max_associated at 12, public_key at 16,
);

impl SecurityCaps {
    /// Whether there is a security node.
    #[must_use]
    pub const fn is_supported(&self) -> bool {
        self.flags & SECURITY_SUPPORTED != 0
    }

    /// Whether what is sealed outlives the daemon.
    #[must_use]
    pub const fn has_lasting_key(&self) -> bool {
        self.flags & SECURITY_LASTING_KEY != 0
    }
}
