// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fence slots, by page.
//!
//! Fences of only one process share its pages; a fence that others may open has a page of its own. So a page that a
//! guest's kernel or a page table maps into a process shows it no other process's fences.
//!
//! Source: native GPU fence object, "Physical memory storage for current and monitored fence values".

use crate::dxgkrnl::object::pool::SlotPool;
use crate::hardware::FENCES_PER_PAGE;
use std::collections::{BTreeMap, BTreeSet};

/// The slots of a page.
#[derive(Debug)]
struct FencePage {
    process: u32,
    /// Slots that a process has or an engine may still know, one bit each.
    taken: u64,
    /// Number of slots that a process has.
    live: u32,
}

/// The fence slots of one guest.
#[derive(Debug)]
pub(crate) struct FencePages {
    slots: u32,
    free: SlotPool,
    pages: BTreeMap<u32, FencePage>,
    /// Pages with room for more fences of their process: (process, page).
    with_room: BTreeSet<(u32, u32)>,
    used: u32,
}

/// The page of a slot.
pub(crate) const fn page_of(slot: u32) -> u32 {
    slot / FENCES_PER_PAGE
}

impl FencePages {
    /// Creates a pool of the slots below `slots`.
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            slots,
            free: SlotPool::new(slots.div_ceil(FENCES_PER_PAGE)),
            pages: BTreeMap::new(),
            with_room: BTreeSet::new(),
            used: 0,
        }
    }

    /// The slots of a page, one bit each.
    fn all(&self, page: u32) -> u64 {
        let slots = (self.slots - page * FENCES_PER_PAGE).min(FENCES_PER_PAGE);
        u64::MAX >> (u64::BITS - slots)
    }

    /// Takes a slot for a process: beside other fences of the process, or alone in a page. Also returns whether the
    /// page is new.
    pub(crate) fn take(&mut self, process: u32, alone: bool) -> Option<(u32, bool)> {
        let own = (process, 0)..=(process, u32::MAX);
        let page =
            if alone { None } else { self.with_room.range(own).next().map(|(_, page)| *page) };
        let page = match page {
            Some(page) => page,
            None => {
                let page = self.free.take()?;
                self.pages.insert(page, FencePage { process, taken: 0, live: 0 });
                page
            }
        };
        let all = self.all(page);
        let found = self.pages.get_mut(&page)?;
        let index = (!found.taken).trailing_zeros();
        let is_new = found.taken == 0;
        found.taken |= 1 << index;
        found.live += 1;
        self.used += 1;
        if alone || found.taken == all {
            self.with_room.remove(&(process, page));
        } else {
            self.with_room.insert((process, page));
        }
        Some((page * FENCES_PER_PAGE + index, is_new))
    }

    /// A process gives up a slot, which engines may still know. Returns whether its page has no live slot now; then
    /// the page is free once engines have forgotten it.
    pub(crate) fn leave(&mut self, slot: u32) -> bool {
        let page = page_of(slot);
        let Some(found) = self.pages.get_mut(&page) else { return false };
        found.live = found.live.saturating_sub(1);
        if found.live == 0 {
            self.with_room.remove(&(found.process, page));
        }
        found.live == 0
    }

    /// Engines have forgotten a slot that its process gave up. Returns its page if the page is free now.
    pub(crate) fn give_back(&mut self, slot: u32) -> Option<u32> {
        let page = page_of(slot);
        let Some(found) = self.pages.get_mut(&page) else {
            tracing::error!(slot, "a fence slot came back that was not given out");
            return None;
        };
        found.taken &= !(1 << (slot % FENCES_PER_PAGE));
        self.used -= 1;
        if found.taken == 0 {
            self.pages.remove(&page);
            self.free.give_back(page);
            return Some(page);
        }
        if found.live > 0 {
            // A fence alone in its page is the page's only slot, so this page is a shared one.
            self.with_room.insert((found.process, page));
        }
        None
    }

    /// Number of pages in use.
    pub(crate) fn used_pages(&self) -> u32 {
        self.free.used()
    }

    /// Number of slots in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Whether all slots are back.
    pub(crate) fn is_unused(&self) -> bool {
        self.used == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_fills_its_page_and_shares_it_with_no_other_process() {
        let mut pages = FencePages::new(256);
        assert_eq!(pages.take(1, false), Some((0, true)));
        assert_eq!(pages.take(2, false), Some((64, true)));
        assert_eq!(pages.take(1, false), Some((1, false)));
        assert_eq!(pages.take(1, true), Some((128, true)));
        assert_eq!(pages.take(1, false), Some((2, false)));
        assert_eq!(pages.take(2, true), Some((192, true)));
        assert_eq!(pages.take(3, false), None);
    }

    #[test]
    fn the_last_page_has_what_is_left() {
        let mut pages = FencePages::new(66);
        let taken: Vec<_> =
            std::iter::from_fn(|| pages.take(1, false)).map(|(slot, _)| slot).collect();
        assert_eq!(taken, (0..66).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_goes_to_another_process_once_engines_have_forgotten_all_of_it() {
        let mut pages = FencePages::new(64);
        assert_eq!(pages.take(1, false), Some((0, true)));
        assert_eq!(pages.take(1, false), Some((1, false)));
        assert!(!pages.leave(0));
        assert!(pages.leave(1));
        assert_eq!(pages.take(1, false), None);
        assert_eq!(pages.give_back(1), None);
        assert_eq!(pages.take(2, false), None);
        assert_eq!(pages.give_back(0), Some(0));
        assert_eq!(pages.take(2, false), Some((0, true)));
    }

    proptest! {
        #[test]
        fn no_slot_is_given_out_twice_and_no_page_to_two(
            steps in proptest::collection::vec((0..4u32, 0..3u32, any::<usize>()), 0..200),
        ) {
            let mut pages = FencePages::new(5 * 64 + 3);
            let mut live: Vec<(u32, u32, bool)> = Vec::new();
            let mut left = Vec::new();
            for (step, process, which) in steps {
                match step {
                    0 | 1 => {
                        if let Some((slot, is_new)) = pages.take(process, step == 1) {
                            let known = live.iter().map(|(other, ..)| other).chain(&left);
                            let is_known = known.copied().any(|other| page_of(other) == page_of(slot));
                            prop_assert_eq!(is_new, !is_known);
                            for (other, its, alone) in live.iter().copied() {
                                prop_assert_ne!(other, slot);
                                if page_of(other) == page_of(slot) {
                                    prop_assert!(its == process && !alone && step == 0);
                                }
                            }
                            prop_assert!(!left.contains(&slot));
                            live.push((slot, process, step == 1));
                        }
                    }
                    2 if !live.is_empty() => {
                        let (slot, ..) = live.swap_remove(which % live.len());
                        let all = live.iter().all(|(other, ..)| page_of(*other) != page_of(slot));
                        prop_assert_eq!(pages.leave(slot), all);
                        left.push(slot);
                    }
                    3 if !left.is_empty() => {
                        pages.give_back(left.swap_remove(which % left.len()));
                    }
                    _ => {}
                }
                prop_assert_eq!(pages.used() as usize, live.len() + left.len());
            }
        }
    }
}
