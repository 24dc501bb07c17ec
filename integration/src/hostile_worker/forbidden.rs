// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a worker that was taken over would do, and the sandbox refuses.

use super::mapping::{Mapping, undo_stop};
use super::memory::Part;
use bellhop_worker::messages::PAGE;
use rustix::fs::{FallocateFlags, fallocate};
use std::thread::Builder;

/// What is tried, in the order of bits in what is stored at [`RESULT`](super::RESULT).
pub const TRIED: [&str; 7] = [
    "undo a stop",
    "fill page tables in one call",
    "map pages without their file",
    "share memory that nothing counts",
    "make a hole in its guest's memory",
    "make a hole in its guest's memory by its mapping",
    "start a thread",
];

/// Tries all of it, with a part of its guest's memory. Returns a bit for each that Linux did.
pub(super) fn attempt(guests: &Part) -> u64 {
    let Ok(mapping) = guests.map() else { return u64::MAX };
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let done: [bool; TRIED.len()] = [
        undo_stop().is_ok(),
        mapping.populate().is_ok(),
        mapping.again().is_ok(),
        Mapping::that_is_shared(PAGE as usize).is_ok(),
        fallocate(&*guests.file, hole, guests.offset, guests.length as u64).is_ok(),
        mapping.punch().is_ok(),
        Builder::new().spawn(|| {}).is_ok(),
    ];
    done.iter().rev().fold(0, |bits, done| bits << 1 | u64::from(*done))
}
