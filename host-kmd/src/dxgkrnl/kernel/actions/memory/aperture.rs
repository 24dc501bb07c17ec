// SPDX-License-Identifier: MIT OR Apache-2.0

//! Places of allocations in the aperture.

use crate::ddi::paging::APERTURE_START;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::memory::page_tables::write_entries;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::hardware::{GpuSet, HardwareFull, Pte};
use crate::vidmm::pool::PageRange;
use crate::vidmm::step::Mapping;
use bellhop_protocol::control::Handle;

impl ProcessAccess<'_> {
    /// Whether an allocation must keep its place in the aperture: the driver knows the place, or submissions use it.
    pub(crate) fn must_stay_in_aperture(&self, handle: Handle) -> Result<bool, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        let is_present = allocation.paged().is_some_and(|id| self.guest.vidmm.is_present(id));
        Ok(allocation.has_users() || allocation.stays_in_aperture() && is_present)
    }

    /// Takes the device's allocations that no submission lists out of the aperture. A retry finds room there once
    /// engines have forgotten their places.
    fn empty_aperture(&mut self, device: Handle) -> Result<(), RequestError> {
        for handle in self.get::<Device>(device)?.allocations().clone() {
            if !self.must_stay_in_aperture(handle)? {
                self.take_out_of_aperture(handle)?;
            }
        }
        Ok(())
    }

    /// Takes an allocation out of the aperture. Engines reach it there no longer once they have forgotten the place.
    pub(crate) fn take_out_of_aperture(&mut self, handle: Handle) -> Result<(), RequestError> {
        let space = self.guest.system()?.address_space;
        let allocation = self.get_mut::<Allocation>(handle)?;
        let Some(range) = allocation.take_out_of_aperture() else { return Ok(()) };
        if let Some(id) = allocation.paged() {
            self.guest.vidmm.unmap(id, space, APERTURE_START + range.start)?;
        }
        self.give_up(Resource::Aperture(range));
        Ok(())
    }

    /// The physical address of a resident allocation's first byte: its place in the aperture. The first call maps it
    /// there; it stays until it is evicted or destroyed, or others need the room.
    pub(crate) fn physical_address(
        &mut self,
        device: Handle,
        handle: Handle,
    ) -> Result<u64, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        let size = allocation.size();
        if let Some(range) = allocation.aperture() {
            return Ok(APERTURE_START + range.start);
        }
        let Some(range) = self.guest.aperture.take(size) else {
            self.empty_aperture(device)?;
            return Err(HardwareFull("page of the aperture").into());
        };
        if let Err(error) = self.map_in_aperture(handle, range) {
            // Some entries may be valid already.
            self.give_up(Resource::Aperture(range));
            return Err(error);
        }
        self.get_mut::<Allocation>(handle)?.put_into_aperture(range);
        Ok(APERTURE_START + range.start)
    }

    /// Maps a whole allocation to a range of the aperture. The mapping follows a paged allocation when it is moved.
    fn map_in_aperture(&mut self, handle: Handle, range: PageRange) -> Result<(), RequestError> {
        let space = self.guest.system()?.address_space;
        let gpu_va = APERTURE_START + range.start;
        let allocation = self.get::<Allocation>(handle)?;
        // The driver checked writes packet by packet.
        let (length, writable, driver) = (range.length, true, allocation.driver());
        if let Some(id) = allocation.paged() {
            self.make_page_tables(space, PageRange { start: gpu_va, length })?;
            let gpus = GpuSet::ALL;
            let mapping = Mapping { gpus, space, gpu_va, length, offset: 0, writable, driver };
            return Ok(self.guest.vidmm.map(id, mapping)?);
        }
        let memory = self.memory(handle)?;
        let entries = memory.pages(0, length).map(|page| Pte::new(page, writable));
        Ok(write_entries(self.miniport, space, gpu_va, entries)?)
    }
}
