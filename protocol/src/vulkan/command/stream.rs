// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands of a stream, one after the other.

use super::{Command, CommandCode, CommandHeader, Why, decode};
use crate::packet::UNIT;
use zerocopy::FromBytes;

/// Why bytes are no stream.
#[derive(Debug, Clone, ::core::marker::Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No command has this number.
    #[error("unknown command {code:#x} at byte {offset}", code = .code.0)]
    Unknown {
        /// The number.
        code: CommandCode,
        /// Where it begins.
        offset: usize,
    },
    /// The length does not fit the command, or the stream ends before it does.
    #[error("a command {code} of the wrong length at byte {offset}")]
    Length {
        /// The command's number.
        code: CommandCode,
        /// Where it begins.
        offset: usize,
    },
    /// An argument is larger than it can be.
    #[error("a command {code} with an impossible argument at byte {offset}")]
    Argument {
        /// The command's number.
        code: CommandCode,
        /// Where it begins.
        offset: usize,
    },
}

impl CommandError {
    /// Where the command begins.
    #[must_use]
    pub const fn offset(&self) -> usize {
        match self {
            Self::Unknown { offset, .. }
            | Self::Length { offset, .. }
            | Self::Argument { offset, .. } => *offset,
        }
    }
}

/// The commands of a stream, each with the byte at which it begins. Ends after the first error.
///
/// `bytes` must be the reader's own copy, not memory that the guest can still write.
pub fn commands(bytes: &[u8]) -> impl Iterator<Item = Result<(usize, Command<'_>), CommandError>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let offset = at;
        let command = take(bytes, &mut at);
        if command.is_err() {
            at = bytes.len();
        }
        Some(command.map(|command| (offset, command)))
    })
}

/// Decodes the command at `at`, and moves behind it.
fn take<'s>(bytes: &'s [u8], at: &mut usize) -> Result<Command<'s>, CommandError> {
    let offset = *at;
    let rest = bytes.get(offset..).unwrap_or_default();
    let short = CommandError::Length { code: CommandCode(0), offset };
    let (header, _) = CommandHeader::read_from_prefix(rest).map_err(|_| short)?;
    let (code, size) = (header.code, header.size());
    let wrong = CommandError::Length { code, offset };
    let command = rest.get(..size).filter(|_| size >= UNIT).ok_or(wrong)?;
    *at = offset + size;
    decode(header, command).map_err(|why| match why {
        Why::Unknown => CommandError::Unknown { code, offset },
        Why::Length => wrong,
        Why::Argument => CommandError::Argument { code, offset },
    })
}
