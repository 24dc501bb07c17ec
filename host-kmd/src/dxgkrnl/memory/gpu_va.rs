// SPDX-License-Identifier: MIT OR Apache-2.0

//! The GPU virtual addresses of a process: which are taken, and what is mapped there.

use crate::vidmm::pool::{PagePool, PageRange};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::{GPU_VA_END, GPU_VA_START, Protection};
use std::collections::BTreeMap;

/// Bytes above [`GPU_VA_END`] in which the host maps rings: more than all doorbells of a guest
/// can need.
const HOST_VA_SIZE: u64 = 1 << 38;

/// Addresses that the guest mapped or reserved together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) length: u64,
    /// They stay taken when nothing is mapped there any more.
    pub(crate) reserved: bool,
    /// Whether an allocation that is not paged is mapped there.
    pub(crate) fixed: bool,
    /// How many mappings lie there.
    pub(crate) mappings: u64,
}

impl Taken {
    /// How many mappings the guest's quota was charged for.
    pub(crate) fn charged(self) -> u64 {
        self.mappings.max(1)
    }
}

/// A mapping that the guest made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestMapping {
    pub(crate) length: u64,
    pub(crate) allocation: Handle,
    pub(crate) offset: u64,
    pub(crate) protection: Protection,
}

/// The GPU virtual addresses of a process.
#[derive(Debug)]
pub(crate) struct GpuVa {
    /// Those that the guest can map.
    guest: PagePool,
    /// Those that only the host can map.
    host: PagePool,
    /// What the guest has of them, by the first byte.
    taken: BTreeMap<u64, Taken>,
    /// The guest's mappings by their first byte. Each lies inside of what is taken.
    mappings: BTreeMap<u64, GuestMapping>,
}

impl GpuVa {
    /// Nothing mapped.
    pub(crate) fn new() -> Self {
        Self {
            guest: PagePool::new(GPU_VA_START, GPU_VA_END - GPU_VA_START),
            host: PagePool::new(GPU_VA_END, HOST_VA_SIZE),
            taken: BTreeMap::new(),
            mappings: BTreeMap::new(),
        }
    }

    /// How many mappings the guest made.
    pub(crate) fn mapping_count(&self) -> usize {
        self.mappings.len()
    }

    /// Takes addresses for the guest at `base` or, when that is 0, anywhere.
    pub(crate) fn take_for_guest(&mut self, base: u64, length: u64) -> Option<PageRange> {
        match base {
            0 => self.guest.take_for_large_pages(length),
            base => self.guest.take_at(base, length),
        }
    }

    /// Notes what the guest has taken together at `start`, or what of it is left.
    pub(crate) fn set_taken(&mut self, start: u64, taken: Taken) {
        self.taken.insert(start, taken);
    }

    /// Forgets what the guest has taken together, if it is this range. It is not yet to be given out again.
    pub(crate) fn forget_taken(&mut self, range: PageRange) -> Option<Taken> {
        let taken = *self.taken.get(&range.start).filter(|taken| taken.length == range.length)?;
        self.taken.remove(&range.start);
        Some(taken)
    }

    /// The guest has mapped something at `start`, inside of what it has taken.
    pub(crate) fn insert_mapping(&mut self, start: u64, mapping: GuestMapping) {
        self.mappings.insert(start, mapping);
    }

    /// Forgets the mapping at `start`, which what was taken for it outlives.
    pub(crate) fn forget_mapping(&mut self, start: u64) -> Option<GuestMapping> {
        self.mappings.remove(&start)
    }

    /// The guest's mapping at `start`.
    pub(crate) fn mapping_at(&self, start: u64) -> Option<GuestMapping> {
        self.mappings.get(&start).copied()
    }

    /// Takes addresses that the guest cannot free.
    pub(crate) fn take_for_host(&mut self, length: u64) -> Option<PageRange> {
        self.host.take(length)
    }

    /// Takes back a range of either kind.
    pub(crate) fn give_back(&mut self, range: PageRange) {
        if range.start < GPU_VA_END {
            self.guest.give_back(range);
        } else {
            self.host.give_back(range);
        }
    }

    /// The range of the guest's mapping at `start`.
    pub(crate) fn mapped_range(&self, start: u64) -> Option<PageRange> {
        self.mapping(start).map(|(range, ..)| range)
    }

    /// The guest's mapping at `start`: its range, its offset in its allocation, and what it allows.
    pub(crate) fn mapping(&self, start: u64) -> Option<(PageRange, u64, Protection)> {
        let GuestMapping { length, offset, protection, .. } = *self.mappings.get(&start)?;
        Some((PageRange { start, length }, offset, protection))
    }

    /// What was taken together and holds all of a range.
    pub(crate) fn taken_around(&self, start: u64, length: u64) -> Option<(PageRange, Taken)> {
        let (first, taken) = self.taken.range(..=start).next_back()?;
        let end = start.checked_add(length)?;
        let range = PageRange { start: *first, length: taken.length };
        (end <= first + taken.length).then_some((range, *taken))
    }

    /// First bytes of the mappings that have a byte in a range.
    pub(crate) fn overlapping(&self, range: PageRange) -> Vec<u64> {
        let end = range.start + range.length;
        let before = self.mappings.range(..range.start).next_back();
        let before = before.filter(|(start, mapping)| *start + mapping.length > range.start);
        let inside = self.mappings.range(range.start..end);
        before.into_iter().chain(inside).map(|(start, _)| *start).collect()
    }

    /// Forgets all that the guest has, of which nothing is mapped any more: as
    /// [`Self::remove_mapping`] does.
    pub(crate) fn remove_all(&mut self) -> Vec<(PageRange, u64)> {
        let taken = std::mem::take(&mut self.taken).into_iter();
        taken
            .map(|(start, taken)| (PageRange { start, length: taken.length }, taken.charged() - 1))
            .collect()
    }

    /// Forgets the mapping at `start`. Returns the addresses that were taken for it, if nothing
    /// needs them now, and how many mappings to refund. The caller gives the addresses back once engines forget them.
    pub(crate) fn remove_mapping(&mut self, start: u64) -> (Option<PageRange>, u64) {
        let Some(mapping) = self.mappings.remove(&start) else { return (None, 0) };
        let Some((range, taken)) = self.taken_around(start, mapping.length) else {
            return (None, 0);
        };
        let left = Taken { mappings: taken.mappings.saturating_sub(1), ..taken };
        if left.mappings == 0 && !taken.reserved {
            self.taken.remove(&range.start);
            return (Some(range), 0);
        }
        self.taken.insert(range.start, left);
        (None, taken.charged() - left.charged())
    }
}
