// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the worker of a security node and its owner say to each other: packets of a Unix socket.
//!
//! The owner sends `Begin` with the root key's descriptor and `Buffer` with the buffer's, and then one `Work` at a time. The
//! worker answers `Ready`, and `Done` to each. Each side checks what it receives.

use crate::messages::{Malformed, Message, VERSION};
use bellhop_protocol::security::NONCE_SIZE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// SHA-256 of an adapter's or a guest's name.
pub type Identity = [u8; 32];

/// What statements say of the daemon, and what keys depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct About {
    /// The adapter.
    pub adapter: Identity,
    /// The daemon's version: UTF-8, padded with zeroes.
    pub daemon: [u8; 32],
    /// SHA-256 of its configuration.
    pub configuration: [u8; 32],
    /// 1 if the root key comes from a file of the operator's.
    pub lasting: u32,
    /// Zero.
    pub reserved: u32,
}

macro_rules! packets {
    ($($(#[$what:meta])* $kind:literal $name:ident { $($(#[$field_about:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$what])*
            #[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub(super) struct $name { $($(#[$field_about])* pub(super) $field: $type,)* }
            impl Message for $name { const KIND: u32 = $kind; }
        )*
    };
}

packets! {
    /// The first message; with the root key's descriptor.
    0x200 Begin {
        /// What statements say.
        about: About,
    }
    /// The second message; with the buffer's descriptor.
    0x201 Buffer {
        /// Bytes of the buffer.
        length: u64,
    }
    /// Something to do with what is in the buffer.
    0x202 Work {
        /// A number that the answer has too.
        sequence: u64,
        /// `SEAL`, `OPEN` or `ATTEST`.
        operation: u32,
        /// For `SEAL`, 1 if the data was protected.
        protected: u32,
        /// Bytes of data.
        length: u32,
        /// Bytes of associated data.
        associated: u32,
        /// Whose it is.
        guest: Identity,
        /// For `ATTEST`.
        nonce: [u8; NONCE_SIZE],
    }
    /// The worker has its keys, and can do nothing else any more.
    0x280 Ready {
        /// The key that verifies its statements.
        public_key: [u8; 32],
    }
    /// It was done. What came of it is in the buffer.
    0x281 Done {
        /// The work's number.
        sequence: u64,
        /// `DONE`, `NOT_AUTHENTIC` or `NOT_SEALED`: the numbers of `SecurityOutcome`.
        outcome: u32,
        /// Bytes of data.
        length: u32,
    }
}

/// [`Work::operation`]
pub(super) const SEAL: u32 = 1;
/// [`Work::operation`]
pub(super) const OPEN: u32 = 2;
/// [`Work::operation`]
pub(super) const ATTEST: u32 = 3;

/// Reads a packet that must be this message.
///
/// # Errors
/// When its number, version or length is another.
pub(super) fn read<M: Message>(packet: &[u8]) -> Result<M, Malformed> {
    let Ok(([kind, version], message)) = <[u32; 2]>::read_from_prefix(packet) else {
        return Err(Malformed::Length(packet.len()));
    };
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    if kind != M::KIND {
        return Err(Malformed::Kind(kind));
    }
    M::read_from_bytes(message).map_err(|_| Malformed::Length(packet.len()))
}

/// The longest message.
pub(super) const MAX_MESSAGE: usize = 256;
const _: () =
    assert!(8 + size_of::<Begin>() <= MAX_MESSAGE && 8 + size_of::<Work>() <= MAX_MESSAGE);
