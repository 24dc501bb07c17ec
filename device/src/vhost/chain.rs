// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a request from a descriptor chain and writes its reply back.
//!
//! The guest owns the descriptors and may change them at any time. The device reads each descriptor once, copies
//! the bytes that it names, and reads neither again.

use bellhop_protocol::control::{MAX_REPLY_SIZE, MAX_REQUEST_SIZE, ReplyHeader};
use bellhop_protocol::status::Status;
use std::ops::Deref;
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use zerocopy::IntoBytes;

/// Maximum number of descriptors in the chain of a request or an event buffer.
const MAX_DESCRIPTORS: usize = 256;

/// Why a descriptor chain carries no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChainError {
    #[error(
        "descriptor chain {head} does not end: it loops, or names a descriptor outside the table"
    )]
    Endless { head: u16 },
    #[error("descriptor chain {head} has a readable descriptor after a writable one")]
    OutOfOrder { head: u16 },
    #[error("the request is longer than {MAX_REQUEST_SIZE} bytes")]
    TooLong,
    #[error("the guest has no memory at {address:#x}")]
    NoMemory { address: u64 },
}

impl ChainError {
    /// The reply that reports the error to the guest.
    pub(super) fn reply(self) -> ReplyHeader {
        let (status, detail) = match self {
            Self::Endless { head } | Self::OutOfOrder { head } => {
                (Status::INVALID_PARAMETER, u64::from(head))
            }
            Self::TooLong => (Status::INVALID_BUFFER_SIZE, MAX_REQUEST_SIZE as u64),
            Self::NoMemory { address } => (Status::ACCESS_VIOLATION, address),
        };
        ReplyHeader { status, length: size_of::<ReplyHeader>() as u32, detail }
    }
}

/// The writable part of a chain, with the head that returns the chain to the guest.
#[derive(Debug, Default)]
pub(super) struct WritablePart {
    pub(super) head: u16,
    /// Bytes that fit, at most the length of the longest reply.
    pub(super) room: usize,
    buffers: Vec<(GuestAddress, usize)>,
}

impl WritablePart {
    /// Writes as many of `bytes` as fit; returns how many the guest can read.
    #[expect(clippy::disallowed_methods, reason = "the guest's own thread, in the guest's memory")]
    pub(super) fn write(&self, memory: &GuestMemoryMmap, bytes: &[u8]) -> u32 {
        let mut rest = bytes;
        for &(address, length) in &self.buffers {
            let (now, later) = rest.split_at(length.min(rest.len()));
            if memory.write_slice(now, address).is_err() {
                break;
            }
            rest = later;
        }
        (bytes.len() - rest.len()) as u32
    }
}

/// Splits a chain into its writable part, as far as that lies in guest memory, and the bytes of its readable part.
/// A chain that names memory outside the guest is refused before the request is executed, since its reply could not
/// be written afterwards.
pub(super) fn read<M>(
    memory: &GuestMemoryMmap,
    mut chain: DescriptorChain<M>,
) -> (WritablePart, Result<Vec<u8>, ChainError>)
where
    M: Deref<Target = GuestMemoryMmap>,
{
    let head = chain.head_index();
    let mut writable = WritablePart { head, ..WritablePart::default() };
    let (mut is_behind, mut has_gap) = (false, false);
    let mut request = Vec::new();
    let mut result = Ok(());
    let mut ended = false;
    for descriptor in chain.by_ref().take(MAX_DESCRIPTORS) {
        ended = !descriptor.has_next();
        let length = descriptor.len() as usize;
        if descriptor.is_write_only() {
            is_behind = true;
            // The device writes nothing after a gap, and nothing beyond the longest reply.
            if !has_gap && writable.room < MAX_REPLY_SIZE && length > 0 {
                let address = descriptor.addr();
                if memory.check_range(address, length) {
                    writable.buffers.push((address, length));
                    writable.room = writable.room.saturating_add(length);
                } else {
                    has_gap = true;
                    result = result.and(Err(ChainError::NoMemory { address: address.0 }));
                }
            }
        } else if result.is_ok() {
            result = if is_behind {
                Err(ChainError::OutOfOrder { head })
            } else {
                append(memory, &mut request, descriptor.addr(), length)
            };
        }
    }
    if !ended {
        result = Err(ChainError::Endless { head });
    }
    (writable, result.map(|()| request))
}

#[expect(clippy::disallowed_methods, reason = "the guest's own thread, in the guest's memory")]
fn append(
    memory: &GuestMemoryMmap,
    request: &mut Vec<u8>,
    address: GuestAddress,
    length: usize,
) -> Result<(), ChainError> {
    let start = request.len();
    if length > MAX_REQUEST_SIZE - start {
        return Err(ChainError::TooLong);
    }
    request.resize(start + length, 0);
    memory
        .read_slice(&mut request[start..], address)
        .map_err(|_| ChainError::NoMemory { address: address.0 })
}

/// A reply that is only a header.
pub(super) fn bare_reply(status: Status, detail: u64) -> Vec<u8> {
    let header = ReplyHeader { status, length: size_of::<ReplyHeader>() as u32, detail };
    header.as_bytes().to_vec()
}
