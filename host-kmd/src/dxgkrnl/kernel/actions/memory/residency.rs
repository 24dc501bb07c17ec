// SPDX-License-Identifier: MIT OR Apache-2.0

//! Residency: whether the GPU reaches an allocation, and whether a CPU does.
//!
//! VidMm decides for paged allocations, and `paging` carries the decisions out. A fixed allocation that is evicted
//! keeps its bytes, its GPU virtual addresses and its place in the BAR: the CPU still reaches it, as the reference
//! requires for rings. It loses all page-table entries that map it.
//!
//! Source: user-mode work submission, "Residency model of doorbell memory and ring buffer allocations"
//! and "Engine D-state transitions"; "Memory Manager" of the Windows KMD overview.

use crate::ddi::paging::AllocationId;
use crate::dxgkrnl::doorbell::object::Doorbell;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::memory::page_tables::invalidate_entries;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::vidmm::pool::PageRange;
use bellhop_protocol::control::Handle;

impl ProcessAccess<'_> {
    /// Makes a device's allocations resident, all or none. `wants` is the device or context that wants them.
    pub(crate) fn make_list_resident(
        &mut self,
        wants: Handle,
        device: Handle,
        list: &[Handle],
    ) -> Result<(), RequestError> {
        let mut made = Vec::new();
        let mut result = Ok(());
        for handle in list {
            if self.paged(*handle).is_none() && !self.get::<Allocation>(*handle)?.is_resident() {
                result = self.make_allocation_resident(*handle);
                if result.is_err() {
                    break;
                }
                made.push(*handle);
            }
        }
        let result = result.and_then(|()| self.make_paged_resident(wants, device, list));
        if result.is_err() {
            for handle in made {
                self.evict_allocation(handle)?;
            }
        }
        result
    }

    /// Makes the paged allocations of a list resident.
    fn make_paged_resident(
        &mut self,
        wants: Handle,
        device: Handle,
        list: &[Handle],
    ) -> Result<(), RequestError> {
        let mut placed = Vec::new();
        let made = self.place_in_aperture(device, list, &mut placed).and_then(|()| {
            let paged: Vec<_> = list.iter().filter_map(|handle| self.paged(*handle)).collect();
            Ok(self.guest.vidmm.make_resident(self.process_id, wants, &paged)?)
        });
        if made.is_err() {
            for handle in placed {
                self.take_out_of_aperture(handle)?;
            }
        }
        made
    }

    /// Gives allocations that stay in the aperture their place before they are resident, so that a move to system
    /// memory cannot fail for lack of one. In local memory they are contiguous anyway.
    fn place_in_aperture(
        &mut self,
        device: Handle,
        list: &[Handle],
        placed: &mut Vec<Handle>,
    ) -> Result<(), RequestError> {
        for handle in list {
            let allocation = self.get::<Allocation>(*handle)?;
            let size = allocation.size();
            if !allocation.stays_in_aperture() || allocation.aperture().is_some() {
                continue;
            }
            if size > self.guest.aperture.length() {
                return Err(RequestError::NoVideoMemory(size));
            }
            self.physical_address(device, *handle)?;
            placed.push(*handle);
        }
        Ok(())
    }

    /// VidMm's id of an allocation, if that is paged.
    pub(crate) fn paged(&self, handle: Handle) -> Option<AllocationId> {
        self.get::<Allocation>(handle).ok()?.paged()
    }

    /// Evicts a queue's ring, if it has one, because the device is about to lose its power.
    pub(crate) fn evict_ring(&mut self, queue: Handle) -> Result<(), RequestError> {
        self.each_ring_allocation(queue, Self::evict_allocation)
    }

    /// Makes a queue's ring resident, if it has one.
    pub(crate) fn make_ring_resident(&mut self, queue: Handle) -> Result<(), RequestError> {
        self.each_ring_allocation(queue, Self::make_allocation_resident)
    }

    fn each_ring_allocation(
        &mut self,
        queue: Handle,
        act: impl Fn(&mut Self, Handle) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let Some(doorbell) = self.get::<HwQueue>(queue)?.doorbell() else { return Ok(()) };
        // The doorbell may be destroyed already, while engines have not forgotten it.
        let Ok(doorbell) = self.get::<Doorbell>(doorbell) else { return Ok(()) };
        for allocation in doorbell.allocations() {
            act(self, allocation)?;
        }
        Ok(())
    }

    /// The guest's mappings of an allocation that dxgkrnl writes itself. VidMm writes those of a paged allocation.
    fn own_mappings(&mut self, handle: Handle) -> Result<Vec<u64>, RequestError> {
        let allocation = self.get::<Allocation>(handle)?;
        Ok(match allocation.paged() {
            Some(_) => Vec::new(),
            None => allocation.mappings().collect(),
        })
    }

    /// Invalidates the page-table entries of an allocation. Engines have forgotten them once a later ticket has
    /// passed.
    pub(crate) fn evict_allocation(&mut self, handle: Handle) -> Result<(), RequestError> {
        let space = self.process()?.space();
        let allocation = self.get_mut::<Allocation>(handle)?;
        if !allocation.set_resident(false) {
            return Ok(());
        }
        let mut ranges: Vec<PageRange> =
            allocation.host_mappings().iter().map(|mapping| mapping.range).collect();
        let starts = self.own_mappings(handle)?;
        let gpu_va = &self.process()?.gpu_va;
        ranges.extend(starts.into_iter().filter_map(|start| gpu_va.mapped_range(start)));
        for range in ranges {
            invalidate_entries(self.miniport, space, range);
        }
        Ok(())
    }

    /// Writes the page-table entries of an allocation again, all or none.
    fn make_allocation_resident(&mut self, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get_mut::<Allocation>(handle)?;
        if allocation.set_resident(true) {
            return Ok(());
        }
        let written = self.write_own_mappings(handle);
        if written.is_err() {
            self.evict_allocation(handle)?;
        }
        written
    }

    fn write_own_mappings(&mut self, handle: Handle) -> Result<(), RequestError> {
        let host_mappings = self.get::<Allocation>(handle)?.host_mappings().to_vec();
        let starts = self.own_mappings(handle)?;
        for mapping in host_mappings {
            self.write_mapping(handle, mapping.range, 0, mapping.protection)?;
        }
        for start in starts {
            let Some((range, offset, protection)) = self.process()?.gpu_va.mapping(start) else {
                continue;
            };
            self.write_mapping(handle, range, offset, protection)?;
        }
        Ok(())
    }
}
