// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of the security node.

use crate::error::Error;

/// An error of the security node.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// The device has no security node.
    #[error("the device has no security node; its host adds one with adapter.security_nodes = 1")]
    NotOffered,
    /// The data was changed, or is not what this guest sealed on this adapter with this associated data, or the device has
    /// another root key than it had.
    #[error(
        "the data is not authentic: it was changed, or was sealed by another guest, on another adapter, under another \
         root key, or with other associated data"
    )]
    NotAuthentic,
    /// The data is no sealed data.
    #[error("the data is not sealed, or not all of it is there")]
    NotSealed,
    /// There is more data, or more associated data, than a packet takes.
    #[error("{length} bytes are too many: at most {most}")]
    TooLong {
        /// The number of bytes.
        length: usize,
        /// The most that there may be.
        most: usize,
    },
    /// The range is not in the protected memory.
    #[error("bytes {offset} to {} are not in {size} bytes of protected memory", .offset.saturating_add(*.length))]
    OutOfRange {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// Bytes of the protected memory.
        size: u64,
    },
    /// The device's answer breaks the protocol.
    #[error("the security node answered {0}, which breaks the protocol")]
    BadAnswer(u32),
    /// A request or a submission failed. If its queue was lost, the next call begins another.
    #[error(transparent)]
    Device(#[from] Error),
}
