//! Residency: whether the GPU reaches an allocation.
//!
//! An evicted allocation keeps its bytes, its GPU virtual addresses and its place in the BAR: the CPU
//! goes on to reach it, as the reference asks of rings, and its file is the backing store. What goes
//! is every entry of the page tables that leads there.
//!
//! Source: user-mode work submission, "Residency model of doorbell memory and ring buffer allocations"
//! and "Engine D-state transitions".

use super::allocation::Allocation;
use super::doorbell::Doorbell;
use super::error::RequestError;
use super::gpu_va::invalidate;
use super::hw_queue::HwQueue;
use super::pool::PageRange;
use super::request::{Answer, Handled};
use super::retire::Resource;
use super::scope::Scope;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::{Evict, MakeResident};

impl Scope<'_> {
    /// `D3DKMTMakeResident`.
    pub(super) fn make_resident(&mut self, request: MakeResident) -> Handled<()> {
        self.make_allocation_resident(request.allocation)?;
        Ok(Answer::Done(()))
    }

    /// `D3DKMTEvict`.
    pub(super) fn evict(&mut self, request: Evict) -> Handled<()> {
        self.check_not_in_use(request.allocation)?;
        self.evict_allocation(request.allocation)?;
        let aperture = self.get_mut::<Allocation>(request.allocation)?.aperture.take();
        self.given_up.extend(aperture.map(Resource::Aperture));
        Ok(Answer::AfterQuiesce)
    }

    /// Evicts a queue's ring, if it has one. The device is about to lose its power.
    pub(super) fn evict_ring(&mut self, queue: Handle) -> Result<(), RequestError> {
        self.each_ring_allocation(queue, Self::evict_allocation)
    }

    /// Makes a queue's ring resident, if it has one.
    pub(super) fn make_ring_resident(&mut self, queue: Handle) -> Result<(), RequestError> {
        self.each_ring_allocation(queue, Self::make_allocation_resident)
    }

    fn each_ring_allocation(
        &mut self,
        queue: Handle,
        act: impl Fn(&mut Self, Handle) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let Some(doorbell) = self.get::<HwQueue>(queue)?.doorbell else { return Ok(()) };
        // It may have been destroyed, and not be forgotten yet.
        let Ok(doorbell) = self.get::<Doorbell>(doorbell) else { return Ok(()) };
        for mapping in doorbell.ring {
            act(self, mapping.allocation)?;
        }
        Ok(())
    }

    /// Takes the page-table entries away. Engines have forgotten them once a later ticket has passed.
    fn evict_allocation(&mut self, handle: Handle) -> Result<(), RequestError> {
        let space = self.process()?.space;
        let allocation = self.get_mut::<Allocation>(handle)?;
        if !std::mem::replace(&mut allocation.resident, false) {
            return Ok(());
        }
        let mut ranges: Vec<PageRange> =
            allocation.host_mappings.iter().map(|mapping| mapping.range).collect();
        let starts = allocation.mappings.clone();
        let gpu_va = &self.process()?.gpu_va;
        ranges.extend(starts.into_iter().filter_map(|start| gpu_va.mapped_range(start)));
        for range in ranges {
            invalidate(self.miniport, space, range);
        }
        Ok(())
    }

    /// Writes the page-table entries again.
    pub(super) fn make_allocation_resident(&mut self, handle: Handle) -> Result<(), RequestError> {
        let allocation = self.get_mut::<Allocation>(handle)?;
        if std::mem::replace(&mut allocation.resident, true) {
            return Ok(());
        }
        let host_mappings = allocation.host_mappings.clone();
        let starts = allocation.mappings.clone();
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
