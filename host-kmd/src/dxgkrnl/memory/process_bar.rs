// SPDX-License-Identifier: MIT OR Apache-2.0

//! BARs of processes' own, and which doorbells and fences are in them.
//!
//! A doorbell or a fence of such a process has a slot of the guest, as every other, by which engines name it, and an index in
//! the process's BAR, by which the process finds it. It keeps the index until engines have forgotten the slot.

use crate::dxgkrnl::object::pool::SlotPool;
use crate::hardware::{ProcessBarId, ProcessBarPlace};
use bellhop_protocol::bar::BarLayout;
use std::collections::BTreeMap;

/// The BARs of a guest's processes.
#[derive(Debug, Default)]
pub(crate) struct ProcessBars {
    bars: BTreeMap<ProcessBarId, ProcessBar>,
    last: u32,
    doorbells: BTreeMap<u32, ProcessBarPlace>,
    fences: BTreeMap<u32, ProcessBarPlace>,
}

#[derive(Debug)]
struct ProcessBar {
    layout: BarLayout,
    doorbells: SlotPool,
    fences: SlotPool,
    /// Number of processes that have it.
    processes: u32,
}

impl ProcessBar {
    fn is_unused(&self) -> bool {
        self.processes == 0 && self.doorbells.is_unused() && self.fences.is_unused()
    }
}

/// What is placed in a BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// What belongs to a doorbell slot.
    Doorbell(u32),
    /// The published value of a fence slot.
    Fence(u32),
}

impl ProcessBars {
    /// A number that no BAR has.
    pub(crate) fn next_id(&mut self) -> ProcessBarId {
        loop {
            self.last = self.last.wrapping_add(1);
            let id = ProcessBarId(self.last);
            if !self.bars.contains_key(&id) {
                return id;
            }
        }
    }

    /// Adds a BAR of one process.
    pub(crate) fn add(&mut self, id: ProcessBarId, layout: BarLayout) {
        let doorbells = SlotPool::new(layout.doorbell_count);
        let fences = SlotPool::new(layout.fence_count);
        self.bars.insert(id, ProcessBar { layout, doorbells, fences, processes: 1 });
    }

    /// Another process has the BAR.
    pub(crate) fn join(&mut self, id: ProcessBarId) {
        if let Some(bar) = self.bars.get_mut(&id) {
            bar.processes += 1;
        }
    }

    /// A process has the BAR no longer. Returns whether that ends it.
    pub(crate) fn leave(&mut self, id: ProcessBarId) -> bool {
        if let Some(bar) = self.bars.get_mut(&id) {
            bar.processes = bar.processes.saturating_sub(1);
        }
        self.end(id)
    }

    fn end(&mut self, id: ProcessBarId) -> bool {
        let ends = self.bars.get(&id).is_some_and(ProcessBar::is_unused);
        if ends {
            self.bars.remove(&id);
        }
        ends
    }

    /// The layout of a BAR.
    pub(crate) fn layout(&self, id: ProcessBarId) -> Option<BarLayout> {
        self.bars.get(&id).map(|bar| bar.layout)
    }

    /// Finds a place for what a process of this BAR has. `None` if the BAR is full.
    pub(crate) fn take(&mut self, id: ProcessBarId, what: Placed) -> Option<ProcessBarPlace> {
        let bar = self.bars.get_mut(&id)?;
        let (pool, places, slot) = match what {
            Placed::Doorbell(slot) => (&mut bar.doorbells, &mut self.doorbells, slot),
            Placed::Fence(slot) => (&mut bar.fences, &mut self.fences, slot),
        };
        let place = ProcessBarPlace { bar: id, index: pool.take()? };
        places.insert(slot, place);
        Some(place)
    }

    /// Where this is; `None` if it is in the guest's BAR.
    pub(crate) fn find(&self, what: Placed) -> Option<ProcessBarPlace> {
        match what {
            Placed::Doorbell(slot) => self.doorbells.get(&slot).copied(),
            Placed::Fence(slot) => self.fences.get(&slot).copied(),
        }
    }

    /// Engines have forgotten it. Returns its BAR, and whether that ends the BAR; `None` if it was in the guest's BAR.
    pub(crate) fn give_back(&mut self, what: Placed) -> Option<(ProcessBarId, bool)> {
        let place = match what {
            Placed::Doorbell(slot) => self.doorbells.remove(&slot)?,
            Placed::Fence(slot) => self.fences.remove(&slot)?,
        };
        let bar = self.bars.get_mut(&place.bar)?;
        match what {
            Placed::Doorbell(_) => bar.doorbells.give_back(place.index),
            Placed::Fence(_) => bar.fences.give_back(place.index),
        }
        Some((place.bar, self.end(place.bar)))
    }

    /// Whether there is none.
    pub(crate) fn is_unused(&self) -> bool {
        self.bars.is_empty() && self.doorbells.is_empty() && self.fences.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: BarLayout = BarLayout { doorbell_count: 1, fence_count: 2, local_memory: 0 };

    #[test]
    fn a_bar_ends_with_its_last_process_and_its_last_slot_whichever_comes_last() {
        for slot_is_last in [false, true] {
            let mut bars = ProcessBars::default();
            let id = bars.next_id();
            bars.add(id, LAYOUT);
            bars.join(id);
            let doorbell = Placed::Doorbell(700);
            assert_eq!(bars.take(id, doorbell), Some(ProcessBarPlace { bar: id, index: 0 }));
            assert_eq!(bars.take(id, Placed::Doorbell(701)), None);
            assert!(!bars.leave(id));
            if slot_is_last {
                assert!(!bars.leave(id));
                assert_eq!(bars.give_back(doorbell), Some((id, true)));
            } else {
                assert_eq!(bars.give_back(doorbell), Some((id, false)));
                assert!(bars.leave(id));
            }
            assert!(bars.is_unused());
        }
    }

    #[test]
    fn each_of_two_bars_has_indices_of_its_own_and_other_slots_have_none() {
        let mut bars = ProcessBars::default();
        let ids = [bars.next_id(), bars.next_id()];
        assert_ne!(ids[0], ids[1]);
        ids.iter().for_each(|id| bars.add(*id, LAYOUT));
        for (slot, id) in [(5, ids[0]), (6, ids[1]), (7, ids[0])] {
            bars.take(id, Placed::Fence(slot)).unwrap();
        }
        let index = |slot| bars.find(Placed::Fence(slot)).map(|place| (place.bar, place.index));
        assert_eq!([5, 6, 7].map(index), [(ids[0], 0), (ids[1], 0), (ids[0], 1)].map(Some));
        assert_eq!((index(8), bars.find(Placed::Doorbell(5))), (None, None));
        assert_eq!(bars.give_back(Placed::Fence(8)), None);
    }
}
