// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors of decoding and encoding.

use crate::error::Error;

/// Why there is no picture, or no bitstream. Only [`Self::Lost`] and [`Self::Device`] end a session.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// The device decodes or encodes nothing.
    #[error("the device has no node for this: {missing}")]
    NotOffered {
        /// Why, and what to change on the host.
        missing: String,
    },
    /// The stream is no valid AV1. A later key frame has pictures again.
    #[error("the bitstream is no valid AV1")]
    Corrupt,
    /// The stream's pictures are larger than the session's. The size is 0 if the decoder did not get as far.
    #[error("the stream's pictures are larger than the session's ({} x {})", .size[0], .size[1])]
    TooLarge {
        /// Width and height of the stream's picture, or 0.
        size: [u32; 2],
    },
    /// The stream's pictures have another format than the session's.
    #[error(
        "the stream has {bit_depth} bits a sample, or other chroma, and not the session's format"
    )]
    FormatMismatch {
        /// Bits of the stream's samples.
        bit_depth: u32,
    },
    /// The codec refuses what the session is to be, or a picture after the end.
    #[error("the encoder refuses the session's settings, or a picture after the end")]
    Refused,
    /// A unit or a picture is larger than a session's memory for it.
    #[error("{bytes} bytes are more than a session has memory for")]
    NoRoom {
        /// Bytes that it has.
        bytes: u64,
    },
    /// The host's process with the session ended, or could not be started.
    #[error("the session is lost: the host's process that had it ended, or does not start")]
    Lost,
    /// A request failed, or the queue was lost, for another reason.
    #[error(transparent)]
    Device(#[from] Error),
}
