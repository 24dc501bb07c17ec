// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets of security nodes: sealing, opening and attestation. Specific to Bellhop.
//!
//! The result of a packet that breaks no rule is written to its status block:
//! [`SecurityStatus`](crate::security::SecurityStatus). Addresses have any alignment unless a field says otherwise.

use super::header::{Opcode, PacketHeader};
use crate::security::NONCE_SIZE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The memory that `SEAL` and `OPEN` work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    /// First byte to read.
    pub source: u64,
    /// Bytes to read.
    pub length: u32,
    /// First byte to write. `SEAL` writes [`SEALED_OVERHEAD`](crate::security::SEALED_OVERHEAD) bytes more than it
    /// reads, `OPEN` as many fewer.
    pub destination: u64,
    /// First byte of the associated data, and how many there are.
    pub associated: (u64, u32),
    /// Address of the status block, a multiple of 8.
    pub status: u64,
}

macro_rules! packet {
    ($(#[$what:meta])* $name:ident, $opcode:ident) => {
        $(#[$what])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C)]
        pub struct $name {
            /// `argument` is 0.
            pub header: PacketHeader,
            /// First byte to read.
            pub source: u64,
            /// First byte to write. The ranges may overlap: all is read before anything is written.
            pub destination: u64,
            /// Address of the status block, a multiple of 8.
            pub status: u64,
            /// Address of the associated data, which is authenticated and not encrypted; ignored if there is none.
            pub associated: u64,
            /// Bytes to read.
            pub length: u32,
            /// Bytes of associated data, at most [`MAX_ASSOCIATED`](crate::security::MAX_ASSOCIATED).
            pub associated_length: u32,
        }
        crate::assert_layout!(
            $name, 48,
            header at 0, source at 8, destination at 16, status at 24, associated at 32,
            length at 40, associated_length at 44,
        );

        impl $name {
            /// The packet for this memory.
            #[must_use]
            pub const fn new(ranges: Ranges) -> Self {
                let Ranges { source, length, destination, associated, status } = ranges;
                let header = PacketHeader::new(Opcode::$opcode, size_of::<Self>(), 0);
                let (associated, associated_length) = associated;
                Self { header, source, destination, status, associated, length, associated_length }
            }

            /// The memory that it works on.
            #[must_use]
            pub const fn ranges(&self) -> Ranges {
                Ranges {
                    source: self.source,
                    length: self.length,
                    destination: self.destination,
                    associated: (self.associated, self.associated_length),
                    status: self.status,
                }
            }
        }
    };
}

packet! {
    /// `SEAL`: encrypts a range for this guest on this adapter. The destination gets a
    /// [`SealedHeader`](crate::security::SealedHeader), the ciphertext and the tag. If a byte of the source is
    /// protected, what is sealed opens into protected memory only.
    ///
    /// `length` is at most [`MAX_SEALED`](crate::security::MAX_SEALED).
    Seal, SEAL
}

packet! {
    /// `OPEN`: decrypts what [`Seal`] made. Writes nothing to the destination unless it is all authentic.
    ///
    /// `length` is that of the sealed bytes: at most
    /// [`SEALED_OVERHEAD`](crate::security::SEALED_OVERHEAD) more than
    /// [`MAX_SEALED`](crate::security::MAX_SEALED).
    Open, OPEN
}

/// `ATTEST`: writes a signed [`Statement`](crate::security::Statement) about the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Attest {
    /// `argument` is 0.
    pub header: PacketHeader,
    /// First byte to write.
    pub destination: u64,
    /// Address of the status block, a multiple of 8.
    pub status: u64,
    /// What shows that the statement is fresh: chosen by whom it is for.
    pub nonce: [u8; NONCE_SIZE],
}
crate::assert_layout!(Attest, 56, header at 0, destination at 8, status at 16, nonce at 24);

impl Attest {
    /// Writes a statement to `destination`.
    #[must_use]
    pub const fn new(destination: u64, status: u64, nonce: [u8; NONCE_SIZE]) -> Self {
        let header = PacketHeader::new(Opcode::ATTEST, size_of::<Self>(), 0);
        Self { header, destination, status, nonce }
    }
}
