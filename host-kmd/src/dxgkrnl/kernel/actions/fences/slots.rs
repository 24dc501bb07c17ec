// SPDX-License-Identifier: MIT OR Apache-2.0

//! Slots of fences, and the pages in which processes reach them.

use crate::ddi::paging::PageSize;
use crate::dxgkrnl::fence::pages::page_of;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::page_tables::invalidate_entries;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::{PhysicalAddress, Pte};

impl ProcessAccess<'_> {
    /// Maps a page of fences, all of it or nothing. Packets may write CurrentValues and read MonitoredValues.
    /// `current` is the place of the CurrentValue of a fence that is alone in its page.
    pub(crate) fn map_fence_page(
        &mut self,
        page: u32,
        current: Option<PhysicalAddress>,
    ) -> Result<(), RequestError> {
        let space = self.process()?.space();
        let pages = self.guest.fences.storage().pages(page, current).into_iter();
        let entries: Vec<_> = pages.map(|(page, writable)| Pte::new(page, writable)).collect();
        let va = self.guest.fences.storage().page_va(page);
        let mapped = self.miniport.update_page_table(space, va, PageSize::Small, &entries);
        if mapped.is_err() {
            self.unmap_fence_page(page);
        }
        Ok(mapped?)
    }

    /// Unmaps a page of fences. Once a later quiesce has passed, no packet of the process reaches it.
    pub(crate) fn unmap_fence_page(&mut self, page: u32) {
        let Ok(space) = self.process().map(|process| process.space()) else { return };
        invalidate_entries(self.miniport, space, self.guest.fences.page_range(page));
    }

    /// Whether the driver wants the values of fences in the GPU's system process.
    pub(crate) fn maps_to_system_process(&self) -> bool {
        self.guest.fences.native().is_some_and(|native| native.driver.map_to_gpu_system_process)
    }

    /// Maps a page of fences that is new to this process, for the process and for the context management processor,
    /// all of it or nothing.
    fn map_new_fence_page(
        &mut self,
        page: u32,
        current: Option<PhysicalAddress>,
    ) -> Result<(), RequestError> {
        self.map_fence_page(page, current)?;
        if !self.maps_to_system_process() {
            return Ok(());
        }
        let space = self.guest.system()?.address_space;
        let pages = self.guest.fences.storage().pages(page, current).into_iter();
        let entries: Vec<_> = pages.map(|(page, _)| Pte::new(page, true)).collect();
        let va = self.guest.fences.storage().page_va(page);
        let mapped = self.miniport.update_page_table(space, va, PageSize::Small, &entries);
        if mapped.is_err() {
            self.unmap_old_fence_page(page);
        }
        Ok(mapped?)
    }

    /// Unmaps a page of fences for the process and for the context management processor. Once a later quiesce has
    /// passed, neither reaches it.
    fn unmap_old_fence_page(&mut self, page: u32) {
        self.unmap_fence_page(page);
        if self.maps_to_system_process()
            && let Ok(system) = self.guest.system()
        {
            let range = self.guest.fences.page_range(page);
            invalidate_entries(self.miniport, system.address_space, range);
        }
    }

    /// Takes a slot for a fence of this process in a mapped page, beside the process's other fences or alone. A fence
    /// that is alone may have its CurrentValue elsewhere.
    pub(crate) fn take_fence_slot(
        &mut self,
        alone: bool,
        current: Option<PhysicalAddress>,
    ) -> Result<u32, RequestError> {
        let taken = self.guest.fences.take_slot(self.process_id, alone);
        let (slot, is_new) = taken.ok_or(RequestError::QuotaExceeded {
            what: "native fences",
            limit: self.guest.resources.bar.fence_count.into(),
        })?;
        if is_new {
            self.map_new_fence_page(page_of(slot), current)
                .inspect_err(|_| self.leave_fence_slot(slot))?;
        }
        Ok(slot)
    }

    /// The process gives up a slot.
    pub(crate) fn leave_fence_slot(&mut self, slot: u32) {
        if self.guest.fences.leave_slot(slot) {
            self.unmap_old_fence_page(page_of(slot));
        }
        self.give_up(Resource::FenceSlot(slot));
    }
}
