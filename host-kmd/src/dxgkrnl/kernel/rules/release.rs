// SPDX-License-Identifier: MIT OR Apache-2.0

//! What every engine has forgotten is freed.

use crate::dxgkrnl::fence::cross::current_value;
use crate::dxgkrnl::fence::scan::Scan;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::memory::process_bar::Placed;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::hardware::{FENCE_LOGS_SIZE, GlobalFence, GuestId, PhysicalAddress, Reported as _};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::gpu_va::GPU_VA_END;
use bellhop_protocol::fence_log::FenceLogType;
use std::collections::BTreeMap;

impl Kernel {
    /// Frees the resources that every engine has forgotten.
    pub(crate) fn release_retired(&mut self) {
        let has_finished = |guests: &BTreeMap<GuestId, Guest>, id: GuestId, works: u64| {
            guests.get(&id).is_none_or(|guest| guest.paging.has_finished(works))
        };
        while let Some(retirement) = self
            .retirements
            .take_passed(&self.quiesced, |guest, works| has_finished(&self.guests, guest, works))
        {
            let guest = retirement.guest;
            let mut fences = Vec::new();
            for resource in retirement.resources {
                match resource {
                    Resource::FenceName(slot) => fences.push(GlobalFence { guest, slot }),
                    resource => self.release(guest, resource),
                }
            }
            if !fences.is_empty() {
                self.fences_signaled(fences, Scan::default());
            }
            self.work.wake(Rule::Paging(guest));
            self.complete(guest, retirement.completion, Ok(()));
        }
    }

    /// Frees a resource that every engine has forgotten.
    fn release(&mut self, guest_id: GuestId, resource: Resource) {
        // The last retirement of a guest removes the guest.
        let Some(guest) = self.guests.get_mut(&guest_id) else { return };
        match resource {
            Resource::LocalMemory { process, range } => {
                guest.vidmm.give_back_pinned(process, range);
            }
            Resource::GpuVa { process, range, .. } => {
                if range.start < GPU_VA_END {
                    guest.quotas.refund(Limited::Mappings, 1);
                    guest.quotas.refund(Limited::MappedBytes, range.length);
                }
                if let Some(process) = guest.processes.get_mut(&process) {
                    process.gpu_va.give_back(range);
                }
            }
            Resource::Aperture(range) => guest.aperture.give_back(range),
            // The caller checks the fence.
            Resource::FenceName(_) => {}
            Resource::FenceLogs(slot) => {
                // All memory of a detaching guest is freed anyway.
                if !guest.is_detaching() {
                    let start = guest.fences.storage().log(slot, FenceLogType::WAITS);
                    let (segment, offset) = (start.segment, start.address);
                    self.platform
                        .zero_memory(guest_id, segment, offset, FENCE_LOGS_SIZE)
                        .reported();
                }
            }
            Resource::FenceSlot(slot) => {
                // The next process must not see these values.
                for page in guest.fences.free_slot(slot) {
                    self.platform
                        .zero_memory(guest_id, page.segment, page.address, PAGE_SIZE)
                        .reported();
                }
                self.take_from_process_bar(guest_id, Placed::Fence(slot));
            }
            Resource::CrossFence(id) => {
                guest.quotas.refund(Limited::CrossAdapterFences, 1);
                if self.cross_fences.forget(id) {
                    let PhysicalAddress { segment, address } = current_value(id);
                    self.platform.zero_memory(guest_id, segment, address, PAGE_SIZE).reported();
                }
            }
            Resource::DoorbellSlot(slot) => {
                guest.doorbell_slots.give_back(slot);
                self.take_from_process_bar(guest_id, Placed::Doorbell(slot));
            }
            Resource::DoorbellReferences { process, hw_queue, allocations } => {
                // Any of the three may already be gone with its context or device.
                if let Ok(queue) = guest.handles.get_mut::<HwQueue>(process, hw_queue) {
                    queue.set_doorbell(None);
                }
                for handle in allocations {
                    if let Ok(allocation) = guest.handles.get_mut::<Allocation>(process, handle) {
                        allocation.drop_doorbell();
                    }
                }
            }
            Resource::Submissions { process, holds } => guest.release_holds(process, &holds),
            Resource::SystemContext(space) => self.miniport.destroy_process(space),
            Resource::Process { process, space, bar } => {
                self.miniport.destroy_process(space);
                self.process_ids.give_back(process);
                guest.quotas.refund(Limited::Processes, 1);
                if let Some(bar) = bar
                    && guest.process_bars.leave(bar)
                {
                    self.platform.remove_process_bar(guest_id, bar).reported();
                }
            }
        }
    }

    /// A slot that was in the BAR of a process is in it no longer. The last one takes the BAR with it.
    fn take_from_process_bar(&mut self, guest_id: GuestId, what: Placed) {
        let Some(guest) = self.guests.get_mut(&guest_id) else { return };
        let Some((bar, ends)) = guest.process_bars.give_back(what) else { return };
        match what {
            Placed::Doorbell(slot) => self.platform.place_doorbell(guest_id, slot, None).reported(),
            Placed::Fence(slot) => self.platform.place_fence(guest_id, slot, None).reported(),
        }
        if ends {
            self.platform.remove_process_bar(guest_id, bar).reported();
        }
    }
}
