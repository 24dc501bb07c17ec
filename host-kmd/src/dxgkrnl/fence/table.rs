// SPDX-License-Identifier: MIT OR Apache-2.0

//! The fences of one guest.

use crate::dxgkrnl::fence::features::NativeFences;
use crate::dxgkrnl::fence::pages::FencePages;
use crate::dxgkrnl::fence::scan::Scan;
use crate::dxgkrnl::fence::state::FenceState;
use crate::dxgkrnl::fence::storage::ValueStorage;
use crate::dxgkrnl::fence::waits::Waits;
use crate::dxgkrnl::object::names::Namer;
use crate::hardware::PhysicalPage;
use crate::port::CrossFenceId;
use crate::vidmm::pool::PageRange;
use bellhop_protocol::PAGE_SIZE;
use std::collections::BTreeMap;

/// The fences of one guest.
#[derive(Debug)]
pub(crate) struct Fences {
    /// What was agreed on with the driver, if there are native fences.
    native: Option<NativeFences>,
    storage: ValueStorage,
    /// Their slots.
    pages: FencePages,
    /// Global fences by slot, which is what interrupts name.
    globals: BTreeMap<u32, FenceState>,
    /// Which global fence those slots name that have none of their own.
    locals: BTreeMap<u32, u32>,
    /// Slots of those that are shared, by name.
    names: BTreeMap<u64, u32>,
    /// Slots of those that other guests may have.
    views: BTreeMap<CrossFenceId, u32>,
    namer: Namer,
    /// Number of fences so far.
    made: u64,
    /// Waits of CPUs and of software queues.
    pub(crate) waits: Waits,
}

impl Fences {
    /// Those that a scan is about: "Dxgkrnl only scans all pending native fence waiters".
    pub(crate) fn concerned(&self, scan: Scan) -> Vec<u32> {
        let is_one = |fence: &FenceState| scan.includes(fence) && fence.is_watched();
        let concerned = self.globals.iter().filter(|(_, fence)| is_one(fence));
        concerned.map(|(slot, _)| *slot).collect()
    }

    /// No fence, and room for `slots`. The guest has `private` bytes in the segment `Private`. `native` is what
    /// the OS and the driver agreed on, if there are native fences.
    pub(crate) fn new(slots: u32, private: u64, native: Option<NativeFences>) -> Self {
        Self {
            native,
            storage: ValueStorage::new(slots, private, native),
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

    /// A fence is made in a slot.
    pub(crate) fn add_global(&mut self, slot: u32, fence: FenceState) {
        self.made += 1;
        self.globals.insert(slot, fence.numbered(self.made));
    }

    /// The global fence in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&FenceState> {
        self.globals.get(&slot)
    }

    /// The global fence in a slot, to change.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut FenceState> {
        self.globals.get_mut(&slot)
    }

    /// The slots of all global fences.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.globals.keys().copied()
    }

    /// A global fence is gone, with its name.
    pub(crate) fn remove_global(&mut self, slot: u32) -> Option<FenceState> {
        let fence = self.globals.remove(&slot)?;
        if let Some(name) = fence.name() {
            self.names.remove(&name);
        }
        Some(fence)
    }

    /// A process names a global fence by a slot that is none of its own.
    pub(crate) fn add_local(&mut self, slot: u32, global: u32) {
        self.locals.insert(slot, global);
    }

    /// No process names a global fence by this slot.
    pub(crate) fn remove_local(&mut self, slot: u32) {
        self.locals.remove(&slot);
    }

    /// The slot of the fence with a name.
    pub(crate) fn with_name(&self, name: u64) -> Option<u32> {
        self.names.get(&name).copied()
    }

    /// A name that no fence has.
    pub(crate) fn new_name(&mut self) -> u64 {
        let Self { namer, names, .. } = self;
        namer.next(|name| names.contains_key(&name))
    }

    /// The fence in a slot has a name from now on.
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

    /// The guest has a view of a fence that other guests may have.
    pub(crate) fn add_view(&mut self, cross: CrossFenceId, slot: u32) {
        self.views.insert(cross, slot);
    }

    /// The guest has no view of a fence any more.
    pub(crate) fn remove_view(&mut self, cross: CrossFenceId) {
        self.views.remove(&cross);
    }

    /// A slot for a process, and whether its page is new to that: see [`FencePages::take`].
    pub(crate) fn take_slot(&mut self, process: u32, alone: bool) -> Option<(u32, bool)> {
        self.pages.take(process, alone)
    }

    /// A process gives up a slot: see [`FencePages::leave`].
    pub(crate) fn leave_slot(&mut self, slot: u32) -> bool {
        self.pages.leave(slot)
    }

    /// How many slots are given out.
    pub(crate) fn used_slots(&self) -> u32 {
        self.pages.used()
    }

    /// What was agreed on with the driver, if there are native fences.
    pub(crate) fn native(&self) -> Option<NativeFences> {
        self.native
    }

    /// Where their values are, and logs.
    pub(crate) fn storage(&self) -> &ValueStorage {
        &self.storage
    }

    /// Whether interrupts name queues, and the logs of those name the signaled fences.
    pub(crate) fn has_optimized_interrupt(&self) -> bool {
        self.native.is_some_and(|native| native.optimized_interrupt)
    }

    /// The global fence that a slot of any process names.
    pub(crate) fn named_by(&self, slot: u32) -> Option<u32> {
        let is_own = self.globals.contains_key(&slot);
        if is_own { Some(slot) } else { self.locals.get(&slot).copied() }
    }

    /// Bytes of the value pages that processes use.
    pub(crate) fn used_storage(&self) -> u64 {
        2 * u64::from(self.pages.used_pages()) * PAGE_SIZE
    }

    /// Bytes of those in local memory.
    pub(crate) fn used_local_storage(&self) -> u64 {
        if self.storage.is_local() { self.used_storage() } else { 0 }
    }

    /// GPU virtual addresses of the values of a page of fences.
    pub(crate) fn page_range(&self, page: u32) -> PageRange {
        let pages = self.storage.pages(page, None).len() as u64;
        PageRange { start: self.storage.page_va(page), length: pages * PAGE_SIZE }
    }

    /// Engines have forgotten a slot. Returns the value pages that are free with that.
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
