// SPDX-License-Identifier: MIT OR Apache-2.0

//! What callgrind knows by name: it collects within [`count`], and writes what it counted after [`end_section`].

use std::hint::black_box;

/// Batches in a section.
pub const BATCHES: usize = 64;

/// The function within which callgrind counts.
#[inline(never)]
pub fn count<T>(act: impl FnOnce() -> T) -> T {
    act()
}

/// Ends a section: its cost is everything that was counted since the last one. Prints a line about it: its name, the number of
/// batches, and the number of submissions in each.
#[inline(never)]
pub fn end_section(who: &str, load: &str, depth: usize) {
    println!("{} {} {BATCHES} {}", black_box(who), load, depth);
}
