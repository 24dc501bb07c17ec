// SPDX-License-Identifier: MIT OR Apache-2.0

//! What streams continue with.

use super::fields::{aligned, none};
use super::wrong::{Why, Wrong};
use crate::serve::memory::Memory;
use bellhop_protocol::packet::UNIT;
use bellhop_protocol::vulkan::{CommandCode, CommandHeader, Continue, MAX_CONTINUED, MAX_STREAM};
use zerocopy::FromBytes;

/// Copies what a stream continues with behind it, in place of the command that says so.
///
/// # Errors
/// When it is not in the window, or too much, where the command begins that says so.
pub fn follow(memory: &Memory, bytes: &mut Vec<u8>) -> Result<(), Wrong> {
    // Commands that were left out count, too: otherwise one that continues with itself would have no end.
    let mut total = bytes.len();
    let mut from = 0;
    while let Some((at, Continue { header, address, length })) = last(bytes, from) {
        let added = none(header.argument)
            .and_then(|()| copy_part(address, length, &mut total, memory, bytes, at));
        added.map_err(|why| why.at(at as u32))?;
        from = at;
    }
    Ok(())
}

/// Copies a part of a stream behind what is before a place.
fn copy_part(
    address: u64,
    length: u64,
    total: &mut usize,
    memory: &Memory,
    bytes: &mut Vec<u8>,
    at: usize,
) -> Result<(), Why> {
    aligned(address, UNIT as u64)?;
    aligned(length, UNIT as u64)?;
    if length > MAX_STREAM.into() {
        return Err("a stream that continues with more than one can have".into());
    }
    *total += length as usize;
    if *total > MAX_CONTINUED as usize {
        return Err("a stream that continues too long".into());
    }
    memory.check(address, length)?;
    bytes.truncate(at);
    bytes.resize(at + length as usize, 0);
    Ok(memory.read(address, bytes.get_mut(at..).unwrap_or_default())?)
}

/// The last of the commands from a place on, and where it begins, if it says how the stream continues.
fn last(bytes: &[u8], from: usize) -> Option<(usize, Continue)> {
    let mut at = from;
    loop {
        let (header, _) = CommandHeader::read_from_prefix(bytes.get(at..)?).ok()?;
        let end = at + header.size();
        if end == bytes.len() {
            let is_one = header.code == CommandCode::CONTINUE;
            let command = bytes.get(at..).filter(|_| is_one)?;
            return Some((at, Continue::read_from_bytes(command).ok()?));
        }
        if end == at {
            return None;
        }
        at = end;
    }
}
