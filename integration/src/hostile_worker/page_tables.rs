// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page tables that a worker fills, so that its end or its calls take long.

use super::mapping::Mapping;
use super::memory::Part;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// Bytes of a file of the worker's own.
const FILE: u64 = 64 << 20;
/// How often it is mapped outside the sandbox: 32 GiB, for which Linux has 64 MiB of page tables and eight million entries.
const TIMES: usize = 512;
/// Most mappings of a process in the sandbox, fewer than Linux allows.
const MOST: usize = 60_000;
/// Bytes of zeroes that one call fills and one empties: half a million entries.
const ZEROES: usize = 2 << 30;

/// Fills page tables, as many as Linux lets it, and keeps them: Linux frees them before the process has ended. In the sandbox
/// there is no other file than the guest's.
pub(super) fn fill(guests: &Part) {
    if fill_with_a_file().is_some() {
        return;
    }
    for mapping in (0..MOST).map_while(|_| guests.map().ok()) {
        mapping.touch();
        mapping.keep();
    }
}

/// Fills them with the pages of one file, as often as is allowed.
fn fill_with_a_file() -> Option<()> {
    let file = memfd_create("slow", MemfdFlags::CLOEXEC).ok()?;
    ftruncate(&file, FILE).ok()?;
    for _ in 0..TIMES {
        let mapping = Mapping::of_file(&file, 0, FILE as usize).ok()?;
        mapping.populate().ok()?;
        mapping.keep();
    }
    Some(())
}

/// Fills and empties page tables for ever, each in one call where Linux lets it. A thread that was told to stop does so only
/// at the end of a call.
pub(super) fn call_for_ever() {
    let Ok(zeroes) = Mapping::of_zeroes(ZEROES) else { return };
    loop {
        if zeroes.populate().is_err() {
            zeroes.touch();
        }
        let _ = zeroes.empty();
    }
}
