// SPDX-License-Identifier: MIT OR Apache-2.0

//! What security nodes write into memory: sealed bytes, statements and status blocks. Specific to Bellhop.
//!
//! All have fixed layouts. So nothing has to be parsed before it is authenticated, and there is one way to write each.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most bytes that one `SEAL` encrypts.
pub const MAX_SEALED: u32 = 1 << 20;
/// Most bytes of associated data.
pub const MAX_ASSOCIATED: u32 = 1024;
/// Bytes of a nonce for `ATTEST`.
pub const NONCE_SIZE: usize = 32;
/// Bytes of the tag behind a ciphertext.
pub const TAG_SIZE: usize = 16;
/// Bytes that sealing adds.
pub const SEALED_OVERHEAD: usize = size_of::<SealedHeader>() + TAG_SIZE;

/// [`SealedHeader::magic`]: "BSEA".
pub const SEALED_MAGIC: u32 = u32::from_le_bytes(*b"BSEA");
/// [`SealedHeader::version`]
pub const SEALED_VERSION: u16 = 1;
/// [`SealedHeader::flags`]: the plaintext came from protected memory, and goes nowhere else.
pub const SEALED_PROTECTED: u16 = 1 << 0;

/// What sealed bytes begin with. It is authenticated: the tag covers it. The ciphertext follows, then the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SealedHeader {
    /// [`SEALED_MAGIC`]
    pub magic: u32,
    /// [`SEALED_VERSION`]
    pub version: u16,
    /// [`SEALED_PROTECTED`] or 0.
    pub flags: u16,
    /// Bytes of the plaintext.
    pub length: u64,
    /// Drawn at random each time that the process with the keys starts. The key is derived from it.
    pub salt: [u8; 32],
    /// Number of the message under this key. The nonce is made of it.
    pub number: u64,
    /// Zero.
    pub reserved: u64,
}
crate::assert_layout!(
    SealedHeader, 64,
    magic at 0, version at 4, flags at 6, length at 8, salt at 16, number at 48, reserved at 56,
);

impl SealedHeader {
    /// The length of the plaintext, if this is the header of `sealed` bytes in all.
    #[must_use]
    pub fn plaintext(&self, sealed: usize) -> Option<usize> {
        let length = usize::try_from(self.length).ok()?;
        let is_known = self.magic == SEALED_MAGIC
            && self.version == SEALED_VERSION
            && self.flags & !SEALED_PROTECTED == 0
            && self.reserved == 0;
        let fits =
            length <= MAX_SEALED as usize && sealed.checked_sub(SEALED_OVERHEAD) == Some(length);
        (is_known && fits).then_some(length)
    }

    /// Whether the plaintext goes to protected memory only.
    #[must_use]
    pub const fn is_protected(&self) -> bool {
        self.flags & SEALED_PROTECTED != 0
    }
}

open_enum! {
    /// What came of a packet of a security node.
    pub struct SecurityOutcome: u32 {
        /// It was done.
        DONE = 1;
        /// The bytes are not what this guest sealed on this adapter with this associated data, or the device's root key
        /// is another one now. Nothing was written to the destination.
        NOT_AUTHENTIC = 2;
        /// The bytes do not begin with a [`SealedHeader`] of this length. Nothing was written to the destination.
        NOT_SEALED = 3;
    }
}

/// A status block: what came of a packet. Written after the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SecurityStatus {
    /// What came of it.
    pub outcome: SecurityOutcome,
    /// Zero.
    pub reserved: u32,
    /// Bytes that were written to the destination.
    pub written: u64,
}
crate::assert_layout!(SecurityStatus, 16, outcome at 0, reserved at 4, written at 8);

/// [`Statement::magic`]
pub const STATEMENT_MAGIC: [u8; 16] = *b"bellhop attest 1";
/// [`Statement::flags`]: the root key comes from a file of the operator's. Otherwise it is drawn when the daemon starts.
pub const STATEMENT_LASTING_KEY: u32 = 1 << 0;

/// What the device says of itself, and its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Statement {
    /// [`STATEMENT_MAGIC`]: no other message begins so that the key signs.
    pub magic: [u8; 16],
    /// The packet's nonce.
    pub nonce: [u8; NONCE_SIZE],
    /// The daemon's version: UTF-8, padded with zeroes.
    pub daemon: [u8; 32],
    /// SHA-256 of the daemon's configuration, as `bellhopd --print-config` prints it.
    pub configuration: [u8; 32],
    /// SHA-256 of the adapter's name, which is empty for the one without a name.
    pub adapter: [u8; 32],
    /// SHA-256 of the guest's identity: the path of its socket, from the root on and without links.
    pub guest: [u8; 32],
    /// [`STATEMENT_LASTING_KEY`] or 0.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// The Ed25519 key that verifies the signature.
    pub public_key: [u8; 32],
    /// The Ed25519 signature of all bytes before it.
    pub signature: [u8; 64],
}
crate::assert_layout!(
    Statement, 280,
    magic at 0, nonce at 16, daemon at 48, configuration at 80, adapter at 112, guest at 144,
    flags at 176, reserved at 180, public_key at 184, signature at 216,
);

impl Statement {
    /// The bytes that the signature is for.
    #[must_use]
    pub fn signed(&self) -> &[u8] {
        let bytes = self.as_bytes();
        &bytes[..size_of::<Self>() - size_of_val(&self.signature)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_one_for_its_own_length_alone() {
        let header = SealedHeader {
            magic: SEALED_MAGIC,
            version: 1,
            flags: 0,
            length: 5,
            salt: [7; 32],
            number: 9,
            reserved: 0,
        };
        assert_eq!(header.plaintext(85), Some(5));
        for wrong in [0, 5, 80, 84, 86, usize::MAX] {
            assert_eq!(header.plaintext(wrong), None, "{wrong}");
        }
        let wrong = [
            SealedHeader { magic: 0, ..header },
            SealedHeader { version: 2, ..header },
            SealedHeader { flags: 2, ..header },
            SealedHeader { length: u64::MAX, ..header },
            SealedHeader { reserved: 1, ..header },
        ];
        assert!(wrong.iter().all(|header| header.plaintext(85).is_none()));
        let long = SealedHeader { length: (1 << 20) + 1, ..header };
        assert_eq!(long.plaintext((1 << 20) + 81), None);
        assert!(SealedHeader { flags: 1, ..header }.is_protected() && !header.is_protected());
    }

    #[test]
    fn a_statement_signs_all_that_comes_before_the_signature() {
        let statement = Statement::read_from_bytes(&[3; 280]).unwrap();
        assert_eq!(statement.signed(), [3; 216]);
    }
}
