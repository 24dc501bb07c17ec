// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fences of one guest.

use crate::dxgkrnl::fence::features::NativeFences;
use crate::dxgkrnl::fence::pages::FencePages;
use crate::dxgkrnl::fence::scan::Scan;
use crate::dxgkrnl::fence::state::FenceState;
use crate::dxgkrnl::fence::storage::ValueStorage;
use crate::dxgkrnl::fence::waits::Waits;
use crate::dxgkrnl::object::names::Namer;
use crate::hardware::{GuestId, PhysicalPage, Platform, Reported as _};
use crate::port::CrossFenceId;
use crate::vidmm::pool::PageRange;
use bellhop_protocol::PAGE_SIZE;
use std::collections::BTreeMap;

/// The fences of one guest.
#[derive(Debug)]
pub(crate) struct Fences {
    /// What the OS and the driver agreed on, if there are native fences.
    native: Option<NativeFences>,
    storage: ValueStorage,
    /// Slots of the fences.
    pages: FencePages,
    /// Global fences by slot. Interrupts name that slot.
    globals: BTreeMap<u32, FenceState>,
    /// Local slots that are not global ones, with the global fence that each names.
    locals: BTreeMap<u32, u32>,
    /// Slots of shared fences, by name.
    names: BTreeMap<u64, u32>,
    /// Slots of the fences that other guests may have.
    views: BTreeMap<CrossFenceId, u32>,
    namer: Namer,
    /// Number of fences created so far.
    made: u64,
    /// Waits of CPUs, software queues and flips. `signals` alone uses them.
    pub(super) waits: Waits,
}

impl Fences {
    /// The fences that a scan covers: "Dxgkrnl only scans all pending native fence waiters".
    pub(crate) fn concerned(&self, scan: Scan) -> Vec<u32> {
        let is_one = |fence: &FenceState| scan.includes(fence) && fence.is_watched();
        let concerned = self.globals.iter().filter(|(_, fence)| is_one(fence));
        concerned.map(|(slot, _)| *slot).collect()
    }

    /// Creates an empty table with room for `slots` fences. The guest has `private` bytes in the master's
    /// part of the segment `Private`, which ends at `end`.
    /// `native` is what the OS and the driver agreed on, if there are native fences.
    pub(crate) fn new(
        slots: u32,
        (private, end): (u64, u64),
        native: Option<NativeFences>,
    ) -> Self {
        Self {
            native,
            storage: ValueStorage::new(slots, private, native).ending_at(private, end),
            pages: FencePages::new(slots),
            globals: BTreeMap::new(),
            locals: BTreeMap::new(),
            names: BTreeMap::new(),
            views: BTreeMap::new(),
            namer: Namer::default(),
            made: 0,
            waits: Waits::default(),
        }
    }

    /// Adds a fence in a slot.
    pub(crate) fn add_global(&mut self, slot: u32, fence: FenceState) {
        self.made += 1;
        self.globals.insert(slot, fence.numbered(self.made));
    }

    /// The global fence in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&FenceState> {
        self.globals.get(&slot)
    }

    /// The global fence in a slot, mutable.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut FenceState> {
        self.globals.get_mut(&slot)
    }

    /// The value of the fence in a slot: the greatest if it is permanently signaled.
    pub(crate) fn current_value(&self, platform: &dyn Platform, guest: GuestId, slot: u32) -> u64 {
        if self.get(slot).is_some_and(FenceState::is_always_signaled) {
            u64::MAX
        } else {
            platform.fence_value(guest, slot).reported()
        }
    }

    /// The slots of all global fences.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.globals.keys().copied()
    }

    /// Removes a global fence and its name.
    pub(crate) fn remove_global(&mut self, slot: u32) -> Option<FenceState> {
        let fence = self.globals.remove(&slot)?;
        if let Some(name) = fence.name() {
            self.names.remove(&name);
        }
        Some(fence)
    }

    /// Adds a local slot by which a process names a global fence.
    pub(crate) fn add_local(&mut self, slot: u32, global: u32) {
        self.locals.insert(slot, global);
    }

    /// Removes a local slot.
    pub(crate) fn remove_local(&mut self, slot: u32) {
        self.locals.remove(&slot);
    }

    /// The slot of the fence with a name.
    pub(crate) fn with_name(&self, name: u64) -> Option<u32> {
        self.names.get(&name).copied()
    }

    /// Returns an unused name.
    pub(crate) fn new_name(&mut self) -> u64 {
        let Self { namer, names, .. } = self;
        namer.next(|name| names.contains_key(&name))
    }

    /// Names the fence in a slot.
    pub(crate) fn set_name(&mut self, slot: u32, name: u64) {
        if let Some(fence) = self.globals.get_mut(&slot) {
            fence.set_name(name);
            self.names.insert(name, slot);
        }
    }

    /// The slot of the guest's view of a fence that other guests may have.
    pub(crate) fn view(&self, cross: CrossFenceId) -> Option<u32> {
        self.views.get(&cross).copied()
    }

    /// Adds the guest's view of a fence that other guests may have.
    pub(crate) fn add_view(&mut self, cross: CrossFenceId, slot: u32) {
        self.views.insert(cross, slot);
    }

    /// Removes the guest's view of a fence.
    pub(crate) fn remove_view(&mut self, cross: CrossFenceId) {
        self.views.remove(&cross);
    }

    /// Takes a slot for a process, and tells whether its page is new: see [`FencePages::take`].
    pub(crate) fn take_slot(&mut self, process: u32, alone: bool) -> Option<(u32, bool)> {
        self.pages.take(process, alone)
    }

    /// A process gives up a slot: see [`FencePages::leave`].
    pub(crate) fn leave_slot(&mut self, slot: u32) -> bool {
        self.pages.leave(slot)
    }

    /// Number of slots in use.
    pub(crate) fn used_slots(&self) -> u32 {
        self.pages.used()
    }

    /// What the OS and the driver agreed on, if there are native fences.
    pub(crate) fn native(&self) -> Option<NativeFences> {
        self.native
    }

    /// Where the values and logs are.
    pub(crate) fn storage(&self) -> &ValueStorage {
        &self.storage
    }

    /// Whether interrupts name queues. The logs of those queues name the signaled fences.
    pub(crate) fn has_optimized_interrupt(&self) -> bool {
        self.native.is_some_and(|native| native.optimized_interrupt)
    }

    /// The global fence that a slot names, in any process.
    pub(crate) fn named_by(&self, slot: u32) -> Option<u32> {
        let is_own = self.globals.contains_key(&slot);
        if is_own { Some(slot) } else { self.locals.get(&slot).copied() }
    }

    /// Bytes of the value pages that processes use.
    pub(crate) fn used_storage(&self) -> u64 {
        2 * u64::from(self.pages.used_pages()) * PAGE_SIZE
    }

    /// Bytes of the value pages in local memory that processes use.
    pub(crate) fn used_local_storage(&self) -> u64 {
        if self.storage.is_local() { self.used_storage() } else { 0 }
    }

    /// GPU virtual addresses of the values of a page of fences.
    pub(crate) fn page_range(&self, page: u32) -> PageRange {
        let pages = self.storage.pages(page, None).len() as u64;
        PageRange { start: self.storage.page_va(page), length: pages * PAGE_SIZE }
    }

    /// Engines have forgotten a slot. Returns the value pages that this frees.
    pub(crate) fn free_slot(&mut self, slot: u32) -> Vec<PhysicalPage> {
        let page = self.pages.give_back(slot);
        let pages = page.map(|page| self.storage.pages(page, None)).unwrap_or_default();
        pages.into_iter().map(|(page, _)| page).collect()
    }

    /// Whether everything is given back.
    pub(crate) fn is_unused(&self) -> bool {
        self.globals.is_empty()
            && self.locals.is_empty()
            && self.names.is_empty()
            && self.views.is_empty()
            && self.pages.is_unused()
    }
}
