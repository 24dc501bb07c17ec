// SPDX-License-Identifier: MIT OR Apache-2.0

//! Mirrored allocations: each GPU of a chain has a copy.
//!
//! Every copy is an allocation like others, with a place, a home and mappings of its own: "Paging happens on all adapters".
//! They have the same addresses, each in the page tables of its own GPU. The master's copy has the name by which the graphics
//! kernel knows them all.
//!
//! Source: Windows KMD overview, "Allocations" ("LinkedMirrored").

use super::VidMm;
use super::allocation::Description;
use super::error::VidMmError;
use super::step::Mapping;
use crate::ddi::paging::AllocationId;
use crate::hardware::{AddressSpaceId, GpuOrdinal, GpuSet};
use bellhop_protocol::control::Handle;

impl VidMm {
    /// Creates an allocation of which each GPU has a copy. They take no memory yet.
    pub(crate) fn create_mirrored(&mut self, description: &Description) -> AllocationId {
        let copy = |gpu| Description { gpu, ..description.clone() };
        let master = self.create(copy(GpuOrdinal::MASTER));
        let slaves: Vec<_> = self.gpus().skip(1).map(|gpu| self.create(copy(gpu))).collect();
        if !slaves.is_empty() {
            self.copies.insert(master, slaves);
        }
        master
    }

    /// All copies of an allocation, the master's first. Most are alone.
    pub(super) fn copies(&self, id: AllocationId) -> Vec<AllocationId> {
        let slaves = self.copies.get(&id).into_iter().flatten().copied();
        std::iter::once(id).chain(slaves).collect()
    }

    /// Whether several GPUs have copies.
    pub(super) fn is_mirrored(&self, id: AllocationId) -> bool {
        self.copies.contains_key(&id)
    }

    /// Destroys an allocation and frees its local memory, which later steps may use.
    pub(crate) fn destroy(&mut self, id: AllocationId) -> Result<(), VidMmError> {
        for copy in self.copies(id) {
            self.destroy_one(copy)?;
        }
        self.copies.remove(&id);
        Ok(())
    }

    /// Sets an allocation's priority.
    pub(crate) fn set_priority(&mut self, id: AllocationId, to: u32) -> Result<(), VidMmError> {
        for copy in self.copies(id) {
            self.change(copy, |allocation| allocation.description.priority = to)?;
        }
        Ok(())
    }

    /// Maps a part of an allocation at unmapped addresses: the page tables of each GPU map its copy.
    pub(crate) fn map(&mut self, id: AllocationId, mapping: Mapping) -> Result<(), VidMmError> {
        if !self.is_mirrored(id) {
            return self.map_one(id, mapping);
        }
        for copy in self.copies(id) {
            let gpus = GpuSet::only(self.get(copy)?.description.gpu);
            self.map_one(copy, Mapping { gpus, ..mapping })?;
        }
        Ok(())
    }

    /// Removes a mapping.
    pub(crate) fn unmap(
        &mut self,
        id: AllocationId,
        space: AddressSpaceId,
        gpu_va: u64,
    ) -> Result<(), VidMmError> {
        for copy in self.copies(id) {
            self.unmap_one(copy, space, gpu_va)?;
        }
        Ok(())
    }

    /// A device wants an allocation resident one time less.
    pub(crate) fn evict(
        &mut self,
        process: u32,
        device: Handle,
        id: AllocationId,
    ) -> Result<(), VidMmError> {
        for copy in self.copies(id) {
            self.evict_one(process, device, copy)?;
        }
        Ok(())
    }

    /// A device closes an allocation, and so no longer wants it resident at all.
    pub(crate) fn close(
        &mut self,
        process: u32,
        device: Handle,
        id: AllocationId,
    ) -> Result<(), VidMmError> {
        for copy in self.copies(id) {
            self.close_one(process, device, copy)?;
        }
        Ok(())
    }
}
