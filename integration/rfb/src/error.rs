// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a conversation ends.

/// Why a viewer's connection ends.
#[derive(Debug, thiserror::Error)]
pub enum RfbError {
    /// It disconnected, or its connection failed.
    #[error("disconnected: {0}")]
    Io(#[from] std::io::Error),
    /// It speaks something else.
    #[error("does not speak RFB 3")]
    Version,
    /// It chose a kind of security that it was not offered.
    #[error("chose security {0}, which it was not offered")]
    Security(u8),
    /// Its password is wrong.
    #[error("sent a wrong password")]
    Password,
    /// It sent a message that there is not.
    #[error("sent a message of the unknown type {0}")]
    Message(u8),
    /// A message is longer than any that makes sense.
    #[error("sent a message of {0} bytes")]
    TooLong(u64),
    /// It wants pixels in a way that is not supported.
    #[error("wants pixels in a format that is not supported")]
    PixelFormat,
    /// The screen's size changed, and it cannot follow.
    #[error("cannot follow a change of the screen's size")]
    Size,
}
