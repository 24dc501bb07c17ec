// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines of JSON on the sockets of tools.

use serde::Serialize;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// What a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// A whole line.
    Line,
    /// Bytes without a line's end among the first `limit`. The start of the next request is unknown.
    NoLine,
    /// Nothing: the client has disconnected.
    End,
}

/// Reads the next line into `line`, of at most `limit` bytes.
///
/// # Errors
/// If the client is silent for longer than `patience`, or its socket fails.
pub(super) async fn read(
    stream: &mut BufReader<UnixStream>,
    line: &mut Vec<u8>,
    limit: usize,
    patience: Duration,
) -> io::Result<Sent> {
    line.clear();
    let mut limited = stream.take(limit as u64);
    Ok(match timeout(patience, limited.read_until(b'\n', line)).await?? {
        0 => Sent::End,
        _ if line.last() == Some(&b'\n') => Sent::Line,
        _ => Sent::NoLine,
    })
}

/// A reply as a line.
pub(super) fn to_line(reply: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(reply).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The refusal of a line that is too long.
pub(super) fn too_long(limit: usize) -> String {
    format!("a request is one line of at most {limit} bytes")
}

/// The refusal of another version.
pub(super) fn other_version(asked: u32, has: u32) -> String {
    format!(
        "the client asks for version {asked}, but this daemon has {has}; use the bellhop that came with the daemon"
    )
}
