// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that the device places and moves, and their description.

use crate::device::Device;
use crate::error::Error;
use crate::memory::allocation::Allocation;
use bellhop_protocol::control::allocation::{
    ALLOCATION_GPU_SHIFT, AllocationFlags, AllocationKind, CreateAllocation, Extent,
    PRIORITY_NORMAL, SegmentSet, SetAllocationPriority,
};
use std::sync::Arc;
use zerocopy::IntoBytes;

impl Device {
    /// Describes an allocation that the device places and moves. `size` is in bytes, a multiple of the page size.
    pub fn allocation(&self, size: u64) -> AllocationBuilder {
        let request = CreateAllocation {
            supported_segments: (SegmentSet::LOCAL | SegmentSet::SYSTEM).bits(),
            priority: PRIORITY_NORMAL,
            ..CreateAllocation::fixed(self.handle(), AllocationKind::PAGED, size, 0)
        };
        let device = self.clone();
        let flags = AllocationFlags::CACHED;
        AllocationBuilder { device, request, flags, gpu: 0, own_pages: false }
    }
}

/// Describes a paged allocation. By default it may be in local memory and in system memory, and has normal
/// priority.
#[must_use = "`create` makes the allocation"]
pub struct AllocationBuilder {
    device: Device,
    request: CreateAllocation,
    flags: AllocationFlags,
    /// The ordinal of the GPU that has it.
    gpu: u8,
    own_pages: bool,
}

impl AllocationBuilder {
    /// The segments in which it may be resident.
    pub fn segments(mut self, supported: SegmentSet) -> Self {
        self.request.supported_segments = supported.bits();
        self
    }

    /// The segment in which it should be resident: one of the supported ones.
    pub fn preferred(mut self, segment: SegmentSet) -> Self {
        self.request.preferred_segment = segment.bits();
        self
    }

    /// The local segments to which it may be evicted before it goes to system memory.
    pub fn eviction(mut self, segments: SegmentSet) -> Self {
        self.request.eviction_segments = segments.bits();
        self
    }

    /// The GPU of the chain in whose `PRIVATE` segment it may be: that of [`NodeMetadata::gpu`]. The engines of all GPUs
    /// reach it.
    ///
    /// [`NodeMetadata::gpu`]: bellhop_protocol::control::adapter::NodeMetadata::gpu
    pub fn on_gpu(mut self, gpu: u8) -> Self {
        self.gpu = gpu;
        self
    }

    /// Gives each GPU of the chain a copy in memory of its own, at the same addresses: an engine reads and writes that of its
    /// GPU. Excludes [`Self::on_gpu`], [`Self::cpu_visible`], [`Self::shared`], [`Self::primary`] and [`Self::own_pages`].
    pub fn linked_mirrored(mut self) -> Self {
        self.flags |= AllocationFlags::LINKED_MIRRORED;
        self
    }

    /// Lets the CPU access it: see [`Allocation::lock_bytes`]. Where there is no local memory that CPUs access, it consists of the
    /// guest's own pages and stays there.
    pub fn cpu_visible(mut self) -> Self {
        self.flags |= AllocationFlags::CPU_VISIBLE;
        self
    }

    /// Keeps a copy in system memory, so that the allocation leaves local memory without a transfer, unless it was
    /// written there.
    pub fn permanent_system_memory(mut self) -> Self {
        self.flags |= AllocationFlags::PERMANENT_SYSTEM_MEM;
        self
    }

    /// Makes it contiguous wherever it is resident, for engines that access it by physical address.
    pub fn accessed_physically(mut self) -> Self {
        self.flags |= AllocationFlags::ACCESSED_PHYSICALLY;
        self
    }

    /// Lets other processes of the guest open it by its name ([`Allocation::share`]). Excludes [`Self::own_pages`].
    pub fn shared(mut self) -> Self {
        self.flags |= AllocationFlags::SHARED;
        self
    }

    /// Lets a display show it. It is then in CPU-visible local memory only, in one piece. Excludes [`Self::own_pages`].
    pub fn primary(mut self) -> Self {
        self.flags |= AllocationFlags::PRIMARY;
        self.segments(SegmentSet::LOCAL)
    }

    /// Keeps CPUs from reading it, and engines from copying it to memory that is not protected. It supports
    /// [`SegmentSet::PRIVATE`] and perhaps [`SegmentSet::SYSTEM`]. Excludes all but [`Self::shared`].
    pub fn protected(mut self) -> Self {
        self.flags = self.flags.difference(AllocationFlags::CACHED) | AllocationFlags::PROTECTED;
        self
    }

    /// Uses the guest's own pages for its system memory.
    pub fn own_pages(mut self) -> Self {
        self.own_pages = true;
        self
    }

    /// Its priority: the device evicts higher priorities later.
    pub fn priority(mut self, priority: u32) -> Self {
        self.request.priority = priority;
        self
    }

    /// Private data for the host's kernel-mode driver.
    pub fn private_data(mut self, data: u32) -> Self {
        self.request.private_data = data;
        self
    }

    /// Creates the allocation (`D3DKMTCreateAllocation`). It is not resident, and takes no device memory.
    ///
    /// # Errors
    /// [`Error::Refused`] if segments and flags contradict each other; [`Error::Transport`] if there is no memory
    /// for its own pages.
    pub fn create(mut self) -> Result<Arc<Allocation>, Error> {
        let of_cpu = self.flags.contains(AllocationFlags::CPU_VISIBLE);
        let has_local_memory = self.device.session().link.has_local_memory;
        if of_cpu && !has_local_memory && self.flags.contains(AllocationFlags::PRIMARY) {
            // A display reads local memory alone, and no CPU reaches that.
            self.flags.remove(AllocationFlags::CPU_VISIBLE);
            self.request.supported_segments = SegmentSet::PRIVATE.bits();
            self.request.preferred_segment = 0;
            self.request.eviction_segments = 0;
        } else if of_cpu && !has_local_memory {
            self.own_pages = true;
            self.request.supported_segments = SegmentSet::SYSTEM.bits();
            self.request.preferred_segment = 0;
            self.request.eviction_segments = 0;
        }
        let session = self.device.session();
        let transport = &session.link.transport;
        let memory =
            if self.own_pages { Some(transport.allocate(self.request.size)?) } else { None };
        let extents: &[Extent] = memory.as_ref().map_or(&[], |memory| memory.extents());
        let extent_count = extents.len() as u32;
        let flags = self.flags.bits() | u32::from(self.gpu) << ALLOCATION_GPU_SHIFT;
        let request = CreateAllocation { extent_count, flags, ..self.request };
        let reply = session.call_with_list(&request, extents.as_bytes())?;
        let size = request.size;
        let memory = memory.map(Arc::from);
        Ok(Allocation::paged(self.device.clone(), reply.allocation, size, memory))
    }
}

impl Allocation {
    /// Sets the priority of a paged allocation (`D3DKMTSetAllocationPriority`).
    ///
    /// # Errors
    /// [`Error::Refused`] if the allocation is not paged.
    pub fn set_priority(&self, priority: u32) -> Result<(), Error> {
        let request = SetAllocationPriority { allocation: self.handle(), priority, reserved: 0 };
        self.device().session().call(&request)
    }
}
