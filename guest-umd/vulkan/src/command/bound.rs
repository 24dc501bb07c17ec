// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is bound while a command buffer is recorded: a dispatch consists of it.

use crate::pipeline::Pipeline;
use bellhop_protocol::vulkan::{MAX_DYNAMIC_OFFSETS, MAX_PUSH_CONSTANTS, MAX_SETS};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zerocopy::IntoBytes;

/// What a dispatch needs to know of a pipeline.
pub(super) struct Program {
    pub(super) address: u64,
    /// Those for the GPUs of the other device indices, if it is another pipeline on each.
    pub(super) others: Vec<u64>,
    /// Whether a dispatch needs no more than what follows.
    pub(super) is_plain: bool,
    pub(super) sets: u32,
    pub(super) dynamic_offsets: u32,
    pub(super) push_constants: u32,
    /// What to set when it was submitted, until its first dispatch.
    pub(super) cold: Option<Arc<AtomicBool>>,
}

impl Program {
    /// What a dispatch of a pipeline needs to know.
    pub(super) fn new(pipeline: &Pipeline, cold: Option<Arc<AtomicBool>>) -> Self {
        let (sets, dynamic_offsets, push_constants) = pipeline.uses();
        let mut addresses = pipeline.addresses();
        let address = addresses.next().unwrap_or_default();
        let others: Vec<_> = addresses.collect();
        let is_plain = cold.is_none() && others.is_empty();
        Self { address, others, is_plain, sets, dynamic_offsets, push_constants, cold }
    }
}

/// What is bound for dispatches, or for draws.
pub(super) struct Bound {
    pub(super) program: Option<Program>,
    sets: [u64; MAX_SETS as usize],
    offsets: [u32; MAX_DYNAMIC_OFFSETS as usize],
    constants: [u8; MAX_PUSH_CONSTANTS as usize],
}

impl Bound {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self {
            program: None,
            sets: [0; MAX_SETS as usize],
            offsets: [0; MAX_DYNAMIC_OFFSETS as usize],
            constants: [0; MAX_PUSH_CONSTANTS as usize],
        }
    }

    /// Binds a set.
    pub(super) fn set(&mut self, number: u32, address: u64) {
        if let Some(set) = self.sets.get_mut(number as usize) {
            *set = address;
        }
    }

    /// Binds a set. Returns whether it is another one.
    pub(super) fn replace(&mut self, number: u32, address: u64) -> bool {
        let set = self.sets.get_mut(number as usize);
        set.is_some_and(|set| mem::replace(set, address) != address)
    }

    /// Binds dynamic offsets, behind those of sets before.
    pub(super) fn offsets(&mut self, first: u32, offsets: &[u32]) {
        let places = self.offsets.get_mut(first as usize..).unwrap_or_default();
        for (place, offset) in places.iter_mut().zip(offsets) {
            *place = *offset;
        }
    }

    /// Sets push constants, from byte `first` on.
    pub(super) fn constants(&mut self, first: u32, bytes: &[u8]) {
        let first = first as usize;
        if let Some(place) = self.constants.get_mut(first..first + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// What follows a dispatch of a program.
    #[inline]
    pub(super) fn parts(&self, program: &Program) -> [&[u8]; 3] {
        self.parts_with(program, self)
    }

    /// What follows a dispatch or draw of a program, with push constants of another.
    #[inline]
    pub(super) fn parts_with<'b>(&'b self, program: &Program, other: &'b Self) -> [&'b [u8]; 3] {
        let Program { sets, dynamic_offsets, push_constants, .. } = program;
        [
            self.sets.get(..*sets as usize).unwrap_or(&self.sets).as_bytes(),
            self.offsets.get(..*dynamic_offsets as usize).unwrap_or(&self.offsets).as_bytes(),
            other.constants.get(..*push_constants as usize).unwrap_or(&other.constants),
        ]
    }
}

impl Default for Bound {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatch_has_what_was_bound_last() {
        let mut bound = Bound::new();
        bound.set(1, 0x40);
        bound.set(8, 0x80);
        bound.offsets(1, &[16, 32]);
        bound.offsets(64, &[9]);
        bound.constants(4, &[1, 2, 3, 4]);
        bound.constants(254, &[9; 4]);
        let (sets, dynamic_offsets, push_constants) = (2, 2, 8);
        let (others, cold) = (Vec::new(), None);
        let (address, is_plain) = (8, true);
        let program =
            Program { address, others, is_plain, sets, dynamic_offsets, push_constants, cold };
        let [sets, offsets, constants] = bound.parts(&program);
        assert_eq!(sets, [0u64, 0x40].as_bytes());
        assert_eq!(offsets, [0u32, 16].as_bytes());
        assert_eq!(constants, [0, 0, 0, 0, 1, 2, 3, 4]);
    }
}
