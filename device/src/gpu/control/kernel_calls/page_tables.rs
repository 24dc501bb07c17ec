// SPDX-License-Identifier: MIT OR Apache-2.0

//! Address spaces, page tables, and the system contexts that execute paging.

use super::Gpu;
use crate::gpu::memory::host_memory::PAGING_BUFFERS;
use crate::gpu::memory::page_table::AddressSpace;
use crate::gpu::memory::windows::PAGING_BUFFERS_START;
use crate::gpu::shared::hw_queue::{HwQueue, Role, SUBMISSIONS};
use bellhop_host_kmd::ddi::paging::{PAGING_BUFFER_SIZE, PageSize};
use bellhop_host_kmd::hardware::{
    AccessedBits, AddressSpaceId, GuestId, HardwareError, HardwareFull, KernelSubmission,
    NodeDescription, PageTableRange, PageTables, Pte, SystemContext, SystemContexts, UnknownId,
};
use bellhop_protocol::control::adapter::EngineType;
use std::sync::Arc;

impl PageTables for Gpu {
    fn create_address_space(&self, guest: GuestId) -> Result<AddressSpaceId, HardwareError> {
        let partition = self.guest(guest)?;
        let mut registry = self.registry();
        let id = registry.new_space_id();
        let space = AddressSpace::new(id, &self.chip.nodes, partition.page_tables())?;
        registry.spaces.insert(id, (guest, Arc::new(space)));
        if let (Some(kernels), Some(workers)) = (&self.kernels, &self.workers) {
            kernels.begin_space(id, &workers.guest(&partition));
        }
        Ok(id)
    }

    fn destroy_address_space(&self, space: AddressSpaceId) -> Result<(), UnknownId> {
        if let Some(kernels) = &self.kernels {
            kernels.end_space(space);
        }
        if let Some(video) = &self.video {
            video.end_space(space);
        }
        let mut registry = self.registry();
        let found = registry.spaces.remove(&space).ok_or(UnknownId::AddressSpace(space));
        found.map(|(guest, space)| registry.park(guest, space))
    }

    fn update_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        entries: &[Pte],
    ) -> Result<(), HardwareError> {
        let space = self.space(space)?;
        for (entry, page) in entries.iter().zip(0u64..) {
            // An address that does not fit into 64 bits is out of range like any other.
            let offset = page.saturating_mul(page_size.bytes());
            space.set(gpu_va.saturating_add(offset), page_size, *entry)?;
        }
        Ok(())
    }

    fn page_table_root(&self, space: AddressSpaceId) -> Result<u64, UnknownId> {
        Ok(self.space(space)?.root())
    }

    fn locate_page_table(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        page_size: PageSize,
        pages: u64,
        create: bool,
    ) -> Result<Vec<PageTableRange>, HardwareError> {
        Ok(self.space(space)?.locate(gpu_va, page_size, pages, create)?)
    }
}

impl AccessedBits for Gpu {
    fn take_accessed(
        &self,
        space: AddressSpaceId,
        gpu_va: u64,
        length: u64,
    ) -> Result<bool, UnknownId> {
        Ok(self.space(space)?.take_accessed(gpu_va, length))
    }

    fn forget_translations(&self) {
        self.chip.forget_translations();
    }
}

impl Gpu {
    fn system_queue(&self, guest: GuestId) -> Result<Arc<HwQueue>, UnknownId> {
        let queue = self.registry().system_queues.get(&guest).cloned();
        queue.ok_or(UnknownId::SystemContext(guest))
    }
}

impl SystemContexts for Gpu {
    fn create_system_context(&self, guest: GuestId) -> Result<SystemContext, HardwareError> {
        let partition = self.guest(guest)?;
        // The last copy node, if there is one.
        let copies = |node: &NodeDescription| {
            [EngineType::THREE_D, EngineType::COPY].contains(&node.engine_type)
        };
        let node = self.nodes.iter().rposition(copies).unwrap_or(0);
        let node = u32::try_from(node).unwrap_or(0);
        let mut registry = self.registry();
        let address_space = registry.new_space_id();
        let space = AddressSpace::new(address_space, &self.chip.nodes, partition.page_tables())?;
        let space = Arc::new(space.with_windows(Arc::clone(partition.windows())));
        registry.spaces.insert(address_space, (guest, Arc::clone(&space)));
        let hw_queue = registry.new_queue_id();
        let engine = self.chip.engine_of(node);
        let queue = Arc::new(HwQueue::new(hw_queue, engine, partition, space, Role::System));
        registry.queues.insert(hw_queue, Arc::clone(&queue));
        registry.system_queues.insert(guest, queue);
        Ok(SystemContext { address_space, hw_queue, node })
    }

    fn submit_paging(
        &self,
        guest: GuestId,
        packets: &[u8],
        fence: u64,
    ) -> Result<(), HardwareError> {
        const FULL: HardwareFull = HardwareFull("paging buffer of this guest");
        let queue = self.system_queue(guest)?;
        if packets.len() > PAGING_BUFFER_SIZE {
            tracing::error!(
                guest = guest.0,
                bytes = packets.len(),
                "the packets do not fit into a paging buffer"
            );
            return Err(FULL.into());
        }
        // There are fewer buffers than the queue has room for, so nothing below is full.
        const { assert!(PAGING_BUFFERS as usize <= SUBMISSIONS) };
        let index = queue.partition.paging().take_buffer(fence).ok_or(FULL)?;
        if let Err(error) = queue.partition.write_paging_buffer(index, packets) {
            tracing::error!(%error, guest = guest.0, index, "cannot write a paging buffer");
        }
        let submission = KernelSubmission {
            gpu_va: PAGING_BUFFERS_START + index * PAGING_BUFFER_SIZE as u64,
            size: u32::try_from(packets.len()).unwrap_or(u32::MAX),
            progress_fence_value: 0,
            submission_fence: fence,
        };
        // Hands over the buffer's content and everything that the control plane did before.
        queue.submissions.push(submission).map_err(|_| FULL)?;
        self.kick_queue(&queue);
        Ok(())
    }

    fn abandon_paging(&self, guest: GuestId, fence: u64) -> Result<(), UnknownId> {
        let queue = self.system_queue(guest)?;
        // Before the kick, since the engine checks it after the kick.
        queue.partition.paging().abandon(fence);
        queue.membership.resume();
        self.kick_queue(&queue);
        Ok(())
    }
}
