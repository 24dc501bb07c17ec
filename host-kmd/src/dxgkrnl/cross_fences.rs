//! Fences that several guests have: the one CurrentValue of each, and who has a view of it.
//!
//! A guest that has such a fence has a *view* of it: a global fence of its own adapter's, with a slot, a
//! MonitoredValue and a publication of its own, whose CurrentValue is the page of memory that all views
//! have. Each kernel is lent these books while it handles an input, and leaves here what it must tell the
//! others; [`Adapters`](super::Adapters) then tells them.
//!
//! Source: native GPU fence object, "Cross-adapter native fences".

use super::error::RequestError;
use super::fence_storage::FenceKind;
use super::native_fence::{EVERY_SIGNAL, GlobalFence};
use super::pool::SlotPool;
use super::retire::Resource;
use super::scope::Scope;
use crate::hardware::{FenceStorage, GuestId, HardwareFull, PhysicalAddress, Segment, SlotValue};
use crate::port::{CrossFenceId, SharingGroups};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::{FenceFlags, NativeFenceType};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

/// A fence.
#[derive(Debug)]
struct CrossFence {
    creator: GuestId,
    /// The groups of the host's policy that name everybody who ever had it.
    groups: SharingGroups,
    name: Option<u64>,
    /// Who has a view of it.
    views: BTreeSet<GuestId>,
    /// How many views engines may still know.
    known: u32,
}

/// What the views of a fence must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CrossSignal {
    /// The fence.
    pub(super) fence: CrossFenceId,
    /// The guest whose view it is that was signaled: all others must be told.
    pub(super) origin: GuestId,
    /// Whether it is signaled for good.
    pub(super) always: bool,
}

/// The fences of a host that several guests may have. None can be made where there is no memory for them,
/// which is the default.
#[derive(Debug)]
pub(super) struct CrossFences {
    pages: SlotPool,
    fences: BTreeMap<CrossFenceId, CrossFence>,
    names: BTreeMap<u64, CrossFenceId>,
    namer: RandomState,
    /// How many names there were.
    named: u64,
    signals: BTreeSet<CrossSignal>,
}

impl Default for CrossFences {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Where a fence's CurrentValue is: alone in its page.
pub(super) fn current_value(fence: CrossFenceId) -> PhysicalAddress {
    PhysicalAddress { segment: Segment::CrossAdapter, address: u64::from(fence.0) * PAGE_SIZE }
}

impl CrossFences {
    /// None, and memory for so many.
    pub(super) fn new(pages: u32) -> Self {
        Self {
            pages: SlotPool::new(pages),
            fences: BTreeMap::new(),
            names: BTreeMap::new(),
            namer: RandomState::new(),
            named: 0,
            signals: BTreeSet::new(),
        }
    }

    /// A fence of a guest's, which has the first view of it.
    pub(super) fn create(
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

    /// The fence with a name, if a guest of these groups may have it: one group must name it and everybody
    /// who had the fence before.
    pub(super) fn find(&self, name: u64, groups: SharingGroups) -> Option<CrossFenceId> {
        let id = *self.names.get(&name)?;
        let fence = self.fences.get(&id)?;
        fence.groups.common(groups).is_some().then_some(id)
    }

    /// A guest that may have a fence, and has no view of it, gets one.
    pub(super) fn join(&mut self, id: CrossFenceId, guest: GuestId, groups: SharingGroups) {
        let Some(fence) = self.fences.get_mut(&id) else { return };
        if let Some(common) = fence.groups.common(groups) {
            fence.groups = common;
        }
        if fence.views.insert(guest) {
            fence.known += 1;
        }
    }

    /// A fence's name, always the same: nobody can guess it, and no other has it.
    pub(super) fn name(&mut self, id: CrossFenceId) -> u64 {
        if let Some(name) = self.fences.get(&id).and_then(|fence| fence.name) {
            return name;
        }
        // Ends: fences are far fewer than numbers.
        let name = loop {
            self.named += 1;
            let name = self.namer.hash_one(self.named);
            if name != 0 && !self.names.contains_key(&name) {
                break name;
            }
        };
        if let Some(fence) = self.fences.get_mut(&id) {
            fence.name = Some(name);
            self.names.insert(name, id);
        }
        name
    }

    /// Whether a guest created the fence.
    pub(super) fn is_creator(&self, id: CrossFenceId, guest: GuestId) -> bool {
        self.fences.get(&id).is_some_and(|fence| fence.creator == guest)
    }

    /// A guest has no view of a fence any more, though its engines may still know it. With the last view
    /// the name goes.
    pub(super) fn leave(&mut self, id: CrossFenceId, guest: GuestId) {
        let Some(fence) = self.fences.get_mut(&id) else { return };
        fence.views.remove(&guest);
        if fence.views.is_empty()
            && let Some(name) = fence.name.take()
        {
            self.names.remove(&name);
        }
    }

    /// Engines have forgotten a view that was left. Whether no engine of any adapter knows the fence any
    /// more: then its page is to be zeroed, and may be another's.
    pub(super) fn forget(&mut self, id: CrossFenceId) -> bool {
        let Some(fence) = self.fences.get_mut(&id) else {
            tracing::error!(?id, "a view of a fence was left that is not there");
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

    /// A guest's view of a fence was signaled.
    pub(super) fn signal(&mut self, fence: CrossFenceId, origin: GuestId, always: bool) {
        self.signals.insert(CrossSignal { fence, origin, always });
    }

    /// Something that the others are to be told.
    pub(super) fn take_signal(&mut self) -> Option<CrossSignal> {
        self.signals.pop_first()
    }

    /// Who has a view of a fence.
    pub(super) fn views(&self, id: CrossFenceId) -> Vec<GuestId> {
        self.fences.get(&id).map(|fence| fence.views.iter().copied().collect()).unwrap_or_default()
    }
}

impl Scope<'_> {
    /// A fence that other guests may have. Source: native GPU fence object, "Cross-adapter native fences":
    /// "must be created with type D3DDDI_NATIVEFENCE_TYPE_DEFAULT, otherwise D3DKMTCreateNativeFence fails."
    pub(super) fn create_cross_fence(
        &mut self,
        device: Handle,
        kind: FenceKind,
        flags: FenceFlags,
        initial_value: u64,
    ) -> Result<Handle, RequestError> {
        if let FenceKind::Native(fence_type) = kind
            && fence_type != NativeFenceType::DEFAULT
        {
            return Err(RequestError::parameter("fence_type", fence_type.0.into()));
        }
        // Which of two guests' signals came last, none could say: what is less does nothing there.
        if !flags.contains(FenceFlags::SHARED) || flags.contains(FenceFlags::REWINDABLE) {
            return Err(RequestError::parameter("flags", flags.bits().into()));
        }
        let groups = self.guest.resources.sharing;
        if groups == SharingGroups::NONE {
            return Err(RequestError::NotSupported(
                "a cross-adapter fence of a guest that the host's [fence_sharing] does not name",
            ));
        }
        self.guest.quotas.cross_adapter_fences.charge(1)?;
        let created = self.cross_fences.create(self.guest_id, groups);
        let cross = created.inspect_err(|_| self.guest.quotas.cross_adapter_fences.refund(1))?;
        self.insert_view(cross, device, kind, Some(initial_value))
    }

    /// This guest opens a fence of another's, by a name that is none of its own: "as a NativeFence" or "as
    /// a regular MonitoredFence", whichever it was created as.
    pub(super) fn open_cross_fence(
        &mut self,
        device: Handle,
        name: u64,
    ) -> Result<Handle, RequestError> {
        let groups = self.guest.resources.sharing;
        // One that it may not have is told as one that there is not.
        let found = self.cross_fences.find(name, groups);
        let cross = found.ok_or(RequestError::parameter("nt_handle", name))?;
        self.guest.quotas.cross_adapter_fences.charge(1)?;
        self.cross_fences.join(cross, self.guest_id, groups);
        let kind = match self.has_native_fences() {
            true => FenceKind::Native(NativeFenceType::DEFAULT),
            false => FenceKind::Monitored,
        };
        let fence = self.insert_view(cross, device, kind, None)?;
        let slot = self.global_of(fence)?;
        self.global_mut(slot)?.name = Some(name);
        self.guest.fences.names.insert(name, slot);
        Ok(fence)
    }

    /// Makes the view of a fence that the guest was just noted to have; returns its handle. Without an
    /// initial value the fence has one.
    fn insert_view(
        &mut self,
        cross: CrossFenceId,
        device: Handle,
        kind: FenceKind,
        initial_value: Option<u64>,
    ) -> Result<Handle, RequestError> {
        let current = current_value(cross);
        let slot =
            self.take_fence_slot(true, Some(current)).inspect_err(|_| self.leave_view(cross))?;
        let storage = FenceStorage { current, ..self.guest.fences.storage.of(slot, kind) };
        self.create_global(slot, kind, storage, initial_value);
        if storage.native {
            // Before anybody can name it, and for its life.
            let value = SlotValue { slot, value: EVERY_SIGNAL };
            self.miniport.update_monitored_values(self.guest_id, &[value]);
        }
        let flags = FenceFlags::SHARED | FenceFlags::CROSS_ADAPTER;
        let mut fence = GlobalFence::new(kind, storage, flags);
        (fence.cross, fence.monitored) = (Some(cross), EVERY_SIGNAL);
        self.guest.fences.add_global(slot, fence);
        self.guest.fences.views.insert(cross, slot);
        self.open_global(slot, slot, Some(device)).inspect_err(|_| self.remove_global(slot))
    }

    /// The guest has no view of a fence any more, once its engines have forgotten it.
    pub(super) fn leave_view(&mut self, cross: CrossFenceId) {
        self.guest.fences.views.remove(&cross);
        self.cross_fences.leave(cross, self.guest_id);
        self.given_up.push(Resource::CrossFence(cross));
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
    fn a_page_is_anothers_only_once_the_engines_of_all_who_had_it_have_forgotten_it() {
        let mut fences = CrossFences::new(1);
        let id = fences.create(A, groups(&[0])).unwrap();
        let name = fences.name(id);
        assert_eq!(fences.name(id), name);
        fences.join(id, B, groups(&[0]));
        fences.leave(id, A);
        assert!(!fences.forget(id));
        // Others may still open it.
        assert_eq!(fences.find(name, groups(&[0])), Some(id));
        fences.leave(id, B);
        assert_eq!(fences.find(name, groups(&[0])), None);
        assert!(fences.create(C, groups(&[0])).is_err());
        assert!(fences.forget(id));
        assert!(fences.fences.is_empty() && fences.pages.is_unused());
        fences.create(C, groups(&[0])).unwrap();
    }

    #[test]
    fn one_group_names_all_who_have_a_fence() {
        let mut fences = CrossFences::new(1);
        let id = fences.create(A, groups(&[1, 2])).unwrap();
        let name = fences.name(id);
        assert_eq!(fences.find(name, groups(&[3])), None);
        assert_eq!(fences.find(name, SharingGroups::NONE), None);
        assert_eq!(fences.find(name ^ 1, groups(&[1])), None);
        fences.join(id, B, groups(&[2, 3]));
        // A and C are named together, and B and C are not.
        assert_eq!(fences.find(name, groups(&[1])), None);
        assert_eq!(fences.find(name, groups(&[2])), Some(id));
    }
}
