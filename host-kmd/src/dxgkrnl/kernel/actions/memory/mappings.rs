// SPDX-License-Identifier: MIT OR Apache-2.0

//! Page-table entries that dxgkrnl itself writes.

use crate::ddi::paging::PAGING_VA_START;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::allocation::{Allocation, Content};
use crate::dxgkrnl::memory::page_tables::{make_page_tables, write_entries};
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{AddressSpaceId, Pte};
use crate::vidmm::pool::PageRange;
use crate::vidmm::segment::Memory;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::Protection;

impl ProcessAccess<'_> {
    /// Creates the page tables for a range of an address space of the guest.
    pub(crate) fn make_page_tables(
        &mut self,
        space: AddressSpaceId,
        range: PageRange,
    ) -> Result<(), RequestError> {
        Ok(make_page_tables(self.miniport, self.guest_id, space, range)?)
    }

    /// Creates the page tables of the paging process's GPU VA space, which has `length` bytes.
    pub(crate) fn make_window_tables(&mut self, length: u64) -> Result<(), RequestError> {
        let system = self.guest.system()?;
        let range = PageRange { start: PAGING_VA_START, length };
        self.make_page_tables(system.address_space, range)
    }

    /// The memory of a fixed, locked or resident allocation.
    pub(crate) fn memory(&self, handle: Handle) -> Result<Memory, RequestError> {
        match self.get::<Allocation>(handle)?.content() {
            Content::Fixed(memory, _) => Ok(memory.clone()),
            Content::Paged(id) => Ok(self.guest.vidmm.memory(*id)?),
        }
    }

    /// Writes the entries that map `range` to an allocation, from `offset` within it, if the allocation is resident.
    pub(crate) fn write_mapping(
        &mut self,
        allocation: Handle,
        range: PageRange,
        offset: u64,
        protection: Protection,
    ) -> Result<(), RequestError> {
        let space = self.process()?.space();
        if !self.get::<Allocation>(allocation)?.is_resident() {
            return Ok(());
        }
        let memory = self.memory(allocation)?;
        let writable = protection.contains(Protection::WRITE);
        let entries = memory.pages(offset, range.length).map(|page| Pte::new(page, writable));
        Ok(write_entries(self.miniport, space, range.start, entries)?)
    }
}
