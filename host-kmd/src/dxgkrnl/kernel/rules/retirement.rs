// SPDX-License-Identifier: MIT OR Apache-2.0

//! Retirement: engines forget a resource before the kernel reuses it.
//!
//! An engine may still use what a request has just removed: it caches translations, and executes a destroyed queue
//! until it looks at its list. So the kernel collects removed resources, invalidates their page-table entries, and
//! draws a ticket. When every engine has passed the ticket, the memory, addresses and slots are free and the request
//! is answered. All destruction goes through here.

use crate::ddi::paging::APERTURE_START;
use crate::dxgkrnl::fence::cross::current_value;
use crate::dxgkrnl::fence::scan::Scan;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::guest::Guest;
use crate::dxgkrnl::kernel::request::reply;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::memory::page_tables::invalidate_entries;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::recovery::retirement::Retirement;
use crate::hardware::{FENCE_LOGS_SIZE, GlobalFence, GuestId, PhysicalAddress, Reported as _};
use crate::port::{CommandError, Effect};
use crate::vidmm::pool::PageRange;
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::gpu_va::GPU_VA_END;
use bellhop_protocol::fence_log::FenceLogType;
use bellhop_protocol::status::Status;
use std::collections::BTreeMap;

impl Kernel {
    /// Makes engines forget `resources`. Afterwards it frees the resources and reports `completion`.
    pub(crate) fn retire(
        &mut self,
        guest: GuestId,
        resources: Vec<Resource>,
        completion: Completion,
    ) {
        for resource in &resources {
            self.invalidate(guest, resource);
        }
        // After invalidating: an engine that has passed this ticket no longer uses the old entries.
        let ticket = self.hardware.quiesce(Some(guest));
        let works = self.guests.get(&guest).map_or(0, |guest| guest.paging.begun());
        self.retirements.push(Retirement { ticket, guest, works, resources, completion });
        self.work.wake(Rule::Retirements);
    }

    /// Invalidates the page-table entries that map a resource.
    fn invalidate(&mut self, guest: GuestId, resource: &Resource) {
        let Some(guest) = self.guests.get(&guest) else { return };
        let mapped = match *resource {
            // The page tables of a process that is gone are freed as a whole.
            Resource::GpuVa { process, range, paged: false } => {
                guest.processes.get(&process).map(|process| (process.space(), range))
            }
            Resource::Aperture(PageRange { start, length }) => guest.system().ok().map(|system| {
                let start = APERTURE_START + start;
                (system.address_space, PageRange { start, length })
            }),
            _ => None,
        };
        if let Some((space, range)) = mapped {
            invalidate_entries(self.miniport.as_mut(), space, range);
        }
    }

    /// Frees the resources that every engine has forgotten.
    pub(crate) fn release_retired(&mut self, effects: &mut Vec<Effect>) {
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
                self.fences_signaled(fences, Scan::default(), effects);
            }
            self.work.wake(Rule::Paging(guest));
            self.complete(guest, retirement.completion, Ok(()), effects);
        }
    }

    /// Tells the requester how its request ended.
    pub(crate) fn complete(
        &mut self,
        guest: GuestId,
        completion: Completion,
        result: Result<(), RequestError>,
        effects: &mut Vec<Effect>,
    ) {
        match completion {
            Completion::Nothing => {}
            Completion::Reply(token) => {
                if self.guests.get(&guest).is_some_and(|guest| !guest.is_detaching()) {
                    let reply = match result {
                        Ok(()) => reply(Status::SUCCESS, 0, &[]),
                        Err(error) => reply(error.status(), error.detail(), &[]),
                    };
                    effects.push(Effect::Reply { guest, token, reply });
                }
            }
            Completion::Command(token) => {
                let result = result.map_err(|error| CommandError(error.to_string()));
                effects.push(Effect::CommandDone { token, result });
            }
            Completion::Detached => {
                if let Some(state) = self.guests.remove(&guest)
                    && !state.is_empty()
                {
                    tracing::error!(guest = guest.0, ?state, "a guest left something behind");
                    debug_assert!(false, "a guest left something behind");
                }
                self.callbacks.doorbells.forget_guest(guest);
                effects.push(Effect::Detached { guest });
            }
        }
    }

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
                    self.hardware
                        .zero_memory(guest_id, segment, offset, FENCE_LOGS_SIZE)
                        .reported();
                }
            }
            Resource::FenceSlot(slot) => {
                // The next process must not see these values.
                for page in guest.fences.free_slot(slot) {
                    self.hardware
                        .zero_memory(guest_id, page.segment, page.address, PAGE_SIZE)
                        .reported();
                }
            }
            Resource::CrossFence(id) => {
                guest.quotas.refund(Limited::CrossAdapterFences, 1);
                if self.cross_fences.forget(id) {
                    let PhysicalAddress { segment, address } = current_value(id);
                    self.hardware.zero_memory(guest_id, segment, address, PAGE_SIZE).reported();
                }
            }
            Resource::DoorbellSlot(slot) => guest.doorbell_slots.give_back(slot),
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
            Resource::Process { process, space } => {
                self.miniport.destroy_process(space);
                self.process_ids.give_back(process);
                guest.quotas.refund(Limited::Processes, 1);
            }
        }
    }
}
