// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences that several guests share: the one CurrentValue of each, and which guests have a view of it.
//!
//! A guest that has such a fence has a *view* of it: a global fence of its own adapter, with its own slot,
//! MonitoredValue and publication. All views share one page, which holds the CurrentValue.
//! [`Adapters`](crate::dxgkrnl::Adapters) lends these books to each kernel while it handles an input. The kernel
//! leaves here what the other guests must be told, and `Adapters` then tells them.
//!
//! Source: native GPU fence object, "Cross-adapter native fences".

use crate::dxgkrnl::object::names::Namer;
use crate::dxgkrnl::object::pool::SlotPool;
use crate::hardware::{GuestId, HardwareFull, PhysicalAddress, Segment};
use crate::port::{CrossFenceId, SharingGroups};
use bellhop_protocol::PAGE_SIZE;
use std::collections::{BTreeMap, BTreeSet};

/// A fence that guests share.
#[derive(Debug)]
struct CrossFence {
    creator: GuestId,
    /// The groups of the host's policy that name every guest that ever had the fence.
    groups: SharingGroups,
    name: Option<u64>,
    /// The guests that have a view of it.
    views: BTreeSet<GuestId>,
    /// Number of views that engines may still know.
    known: u32,
}

/// A signal that the views of a fence must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CrossSignal {
    /// The fence.
    pub(crate) fence: CrossFenceId,
    /// The guest that signaled its view. The kernel tells all other guests.
    pub(crate) origin: GuestId,
    /// Whether the fence stays signaled permanently.
    pub(crate) always: bool,
}

/// The fences of a host that guests may share. Without memory for them, the default, no guest can create one.
#[derive(Debug)]
pub(crate) struct CrossFences {
    pages: SlotPool,
    fences: BTreeMap<CrossFenceId, CrossFence>,
    names: BTreeMap<u64, CrossFenceId>,
    namer: Namer,
    signals: BTreeSet<CrossSignal>,
}

impl Default for CrossFences {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Where a fence's CurrentValue is: alone in its page.
pub(crate) fn current_value(fence: CrossFenceId) -> PhysicalAddress {
    PhysicalAddress { segment: Segment::CrossAdapter, address: u64::from(fence.0) * PAGE_SIZE }
}

impl CrossFences {
    /// Creates an empty set with memory for `pages` fences.
    pub(crate) fn new(pages: u32) -> Self {
        Self {
            pages: SlotPool::new(pages),
            fences: BTreeMap::new(),
            names: BTreeMap::new(),
            namer: Namer::default(),
            signals: BTreeSet::new(),
        }
    }

    /// Creates a fence, and its first view for `creator`.
    pub(crate) fn create(
        &mut self,
        creator: GuestId,
        groups: SharingGroups,
    ) -> Result<CrossFenceId, HardwareFull> {
        let page = self.pages.take().ok_or(HardwareFull("cross-adapter fence"))?;
        let (name, views) = (None, BTreeSet::from([creator]));
        let fence = CrossFence { creator, groups, name, views, known: 1 };
        self.fences.insert(CrossFenceId(page), fence);
        Ok(CrossFenceId(page))
    }

    /// Finds a fence by name if a guest of these groups may have it: one group must name that guest and every guest
    /// that ever had the fence.
    pub(crate) fn find(&self, name: u64, groups: SharingGroups) -> Option<CrossFenceId> {
        let id = *self.names.get(&name)?;
        let fence = self.fences.get(&id)?;
        fence.groups.common(groups).is_some().then_some(id)
    }

    /// Gives a view of a fence to a guest that may have it, unless it has one.
    pub(crate) fn join(&mut self, id: CrossFenceId, guest: GuestId, groups: SharingGroups) {
        let Some(fence) = self.fences.get_mut(&id) else { return };
        if let Some(common) = fence.groups.common(groups) {
            fence.groups = common;
        }
        if fence.views.insert(guest) {
            fence.known += 1;
        }
    }

    /// Returns a fence's name, which is unique, never changes and cannot be guessed.
    pub(crate) fn name(&mut self, id: CrossFenceId) -> u64 {
        if let Some(name) = self.fences.get(&id).and_then(|fence| fence.name) {
            return name;
        }
        let Self { namer, names, .. } = self;
        let name = namer.next(|name| names.contains_key(&name));
        if let Some(fence) = self.fences.get_mut(&id) {
            fence.name = Some(name);
            self.names.insert(name, id);
        }
        name
    }

    /// Whether a guest created the fence.
    pub(crate) fn is_creator(&self, id: CrossFenceId, guest: GuestId) -> bool {
        self.fences.get(&id).is_some_and(|fence| fence.creator == guest)
    }

    /// Removes a guest's view of a fence, though its engines may still know it. The name goes with the last view.
    pub(crate) fn leave(&mut self, id: CrossFenceId, guest: GuestId) {
        let Some(fence) = self.fences.get_mut(&id) else { return };
        fence.views.remove(&guest);
        if fence.views.is_empty()
            && let Some(name) = fence.name.take()
        {
            self.names.remove(&name);
        }
    }

    /// Engines have forgotten a removed view. Returns whether no engine of any adapter knows the fence any more; then
    /// its page is free, and the caller must zero it.
    pub(crate) fn forget(&mut self, id: CrossFenceId) -> bool {
        let Some(fence) = self.fences.get_mut(&id) else {
            tracing::error!(?id, "a guest left its view of a fence that does not exist");
            return false;
        };
        fence.known = fence.known.saturating_sub(1);
        if fence.known > 0 {
            return false;
        }
        self.fences.remove(&id);
        self.pages.give_back(id.0);
        true
    }

    /// Records that a guest signaled its view of a fence.
    pub(crate) fn signal(&mut self, fence: CrossFenceId, origin: GuestId, always: bool) {
        self.signals.insert(CrossSignal { fence, origin, always });
    }

    /// Takes a signal that the other guests must be told.
    pub(crate) fn take_signal(&mut self) -> Option<CrossSignal> {
        self.signals.pop_first()
    }

    /// The guests that have a view of a fence.
    pub(crate) fn views(&self, id: CrossFenceId) -> Vec<GuestId> {
        self.fences.get(&id).map(|fence| fence.views.iter().copied().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: GuestId = GuestId(1);
    const B: GuestId = GuestId(2);
    const C: GuestId = GuestId(3);

    fn groups(numbers: &[u32]) -> SharingGroups {
        numbers.iter().copied().fold(SharingGroups::NONE, SharingGroups::with)
    }

    #[test]
    fn a_page_is_free_once_the_engines_of_all_guests_that_had_it_have_forgotten_it() {
        let mut fences = CrossFences::new(1);
        let id = fences.create(A, groups(&[0])).unwrap();
        let name = fences.name(id);
        assert_eq!(fences.name(id), name);
        fences.join(id, B, groups(&[0]));
        fences.leave(id, A);
        assert!(!fences.forget(id));
        // Other guests may still open it.
        assert_eq!(fences.find(name, groups(&[0])), Some(id));
        fences.leave(id, B);
        assert_eq!(fences.find(name, groups(&[0])), None);
        assert!(fences.create(C, groups(&[0])).is_err());
        assert!(fences.forget(id));
        assert!(fences.fences.is_empty() && fences.pages.is_unused());
        fences.create(C, groups(&[0])).unwrap();
    }

    #[test]
    fn one_group_names_all_guests_that_have_a_fence() {
        let mut fences = CrossFences::new(1);
        let id = fences.create(A, groups(&[1, 2])).unwrap();
        let name = fences.name(id);
        assert_eq!(fences.find(name, groups(&[3])), None);
        assert_eq!(fences.find(name, SharingGroups::NONE), None);
        assert_eq!(fences.find(name ^ 1, groups(&[1])), None);
        fences.join(id, B, groups(&[2, 3]));
        // One group names A and C together, but none names B and C.
        assert_eq!(fences.find(name, groups(&[1])), None);
        assert_eq!(fences.find(name, groups(&[2])), Some(id));
    }
}
