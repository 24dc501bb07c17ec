// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's system context, with which tests page.

use super::rig::*;
use bellhop_device::gpu::Gpu;
use bellhop_host_kmd::ddi::Miniport;
use bellhop_host_kmd::ddi::paging::{PageSize, PagingBuffer, PagingOperation};
use bellhop_host_kmd::hardware::{
    Engines as _, Fault, GuestId, Interrupt, PageTables as _, PhysicalPage, Pte, Queues as _,
    Segment, SystemContext, SystemContexts as _,
};
use bellhop_host_kmd::miniport::BellhopMiniport;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::power::EnginePowerState;
use std::sync::Arc;

/// A guest's system context, from dxgkrnl's side.
pub struct System {
    gpu: Arc<Gpu>,
    guest: GuestId,
    pub context: SystemContext,
    pub miniport: BellhopMiniport,
    submitted: u64,
    completed: u64,
    pub faults: Vec<(u64, Fault)>,
}

impl System {
    pub fn of(guest: &Guest) -> Self {
        let mut miniport = BellhopMiniport::new(Arc::clone(&guest.gpu) as _);
        let context = miniport.create_system_context(guest.id).unwrap();
        let (gpu, guest) = (Arc::clone(&guest.gpu), guest.id);
        Self { gpu, guest, context, miniport, submitted: 0, completed: 0, faults: Vec::new() }
    }

    /// The packets of operations.
    pub fn build(&mut self, operations: &[PagingOperation<'_>]) -> Packets {
        let mut buffer = PagingBuffer::new();
        for operation in operations {
            self.miniport.build_paging_buffer(self.guest, operation, &mut buffer).unwrap();
        }
        Packets(buffer.packets().to_vec())
    }

    /// Executes operations and waits until they are done.
    pub fn perform(&mut self, operations: &[PagingOperation<'_>]) {
        let packets = self.build(operations);
        self.run(packets);
    }

    /// Submits packets; returns their fence.
    pub fn submit(&mut self, packets: &Packets) -> u64 {
        self.submitted += 1;
        self.gpu.submit_paging(self.guest, &packets.0, self.submitted).unwrap();
        self.submitted
    }

    /// Waits until a fence is reached.
    pub fn wait(&mut self, fence: u64) {
        while self.completed < fence {
            for interrupt in take_interrupts(&self.gpu) {
                match interrupt {
                    Interrupt::PagingCompleted { guest, fence } if guest == self.guest => {
                        assert!(fence > self.completed);
                        self.completed = fence;
                    }
                    Interrupt::PagingFaulted { guest, fence, fault } if guest == self.guest => {
                        assert!(fence > self.completed, "told after it was done");
                        self.faults.push((fence, fault));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Executes packets and waits until they are done.
    pub fn run(&mut self, packets: Packets) {
        let fence = self.submit(&packets);
        self.wait(fence);
        assert_eq!(self.faults, []);
    }

    /// Executes packets and waits until they have failed.
    pub fn run_into_fault(&mut self, packets: Packets) -> Fault {
        let fence = self.submit(&packets);
        self.wait_into_fault(fence)
    }

    /// Waits until the submission with this fence, and no other, has failed.
    pub fn wait_into_fault(&mut self, fence: u64) -> Fault {
        self.wait(fence);
        let (faulted, fault) = self.faults.pop().unwrap();
        assert_eq!(faulted, fence);
        fault
    }

    /// Writes entries of the system context's page tables.
    pub fn map(&self, gpu_va: u64, pages: &[PhysicalPage]) {
        let entries: Vec<_> = pages.iter().map(|page| Pte::new(*page, true)).collect();
        self.gpu
            .update_page_table(self.context.address_space, gpu_va, PageSize::Small, &entries)
            .unwrap();
    }

    pub fn destroy(self) {
        self.gpu.destroy_hw_queue(self.context.hw_queue).unwrap();
        quiesce(&self.gpu);
        self.gpu.destroy_address_space(self.context.address_space).unwrap();
    }
}

/// Takes an engine's power, and waits until it is in F1.
pub fn power_down(gpu: &Gpu, node: u32) {
    gpu.set_engine_power(node, EnginePowerState::F1, 1).unwrap();
    quiesce(gpu);
}

pub fn page(segment: Segment, address: u64) -> PhysicalPage {
    PhysicalPage { segment, address }
}

/// The bytes of pages of a guest's own memory.
pub fn read_pages(guest: &Guest, pages: &[u64]) -> Vec<u8> {
    pages.iter().flat_map(|page| guest.read(SYSTEM + page * PAGE_SIZE, 4096)).collect()
}

pub fn system_pages(pages: &[u64]) -> Vec<PhysicalPage> {
    pages.iter().map(|number| page(Segment::System, PHYSICAL + number * PAGE_SIZE)).collect()
}
