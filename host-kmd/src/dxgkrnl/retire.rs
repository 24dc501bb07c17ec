//! Taking things away from engines.
//!
//! An engine may still use what a request has just removed: it holds translations, and executes
//! destroyed queues until it looks up. So nothing is given out again at once. What was removed is
//! collected, its page-table entries are made invalid, a ticket is drawn, and only when every
//! engine has passed the ticket are memory, addresses and slots free and is the request answered.
//! All destruction goes this one way.

use super::allocation::Allocation;
use super::cross_fences::current_value;
use super::error::RequestError;
use super::gpu_va::invalidate;
use super::guest::Guest;
use super::hw_queue::HwQueue;
use super::interrupts::Scan;
use super::kernel::Kernel;
use super::pool::PageRange;
use super::request::reply;
use super::submission::Hold;
use crate::ddi::paging::APERTURE_START;
use crate::hardware::{
    AddressSpaceId, FENCE_LOGS_SIZE, GlobalFence, GuestId, PhysicalAddress, Ticket,
};
use crate::port::{CommandError, CommandToken, CrossFenceId, Effect, RequestToken};
use bellhop_protocol::PAGE_SIZE;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::gpu_va::GPU_VA_END;
use bellhop_protocol::fence_log::FenceLogType;
use bellhop_protocol::status::Status;
use std::collections::{BTreeMap, VecDeque};

/// Something that can be given out again once engines have forgotten it.
#[derive(Debug, Clone)]
pub(super) enum Resource {
    /// A range of the guest's local memory, which a process had.
    LocalMemory {
        /// The process.
        process: u32,
        /// The range.
        range: PageRange,
    },
    /// A range of a process's GPU virtual addresses.
    GpuVa {
        /// The process.
        process: u32,
        /// The range.
        range: PageRange,
        /// Whether paging makes its entries invalid.
        paged: bool,
    },
    /// A range of the guest's aperture.
    Aperture(PageRange),
    /// The logs of the queue whose progress fence was in this slot. Goes before the slot.
    FenceLogs(u32),
    /// A process's name for the global fence in this slot, which others still have.
    FenceName(u32),
    /// A fence slot.
    FenceSlot(u32),
    /// The guest's view of a fence that others may have.
    CrossFence(CrossFenceId),
    /// A doorbell slot.
    DoorbellSlot(u32),
    /// A doorbell's references to its queue and to the allocations of its ring.
    DoorbellReferences {
        /// The process.
        process: u32,
        /// The HW queue.
        hw_queue: Handle,
        /// The ring buffer and the ring buffer control.
        allocations: [Handle; 2],
    },
    /// What submissions that were dropped held.
    Submissions {
        /// The process.
        process: u32,
        /// What each held.
        holds: Vec<Hold>,
    },
    /// The page tables of the guest's system context, whose queue is destroyed.
    SystemContext(AddressSpaceId),
    /// A process and its page tables.
    Process {
        /// The process.
        process: u32,
        /// Its page tables.
        space: AddressSpaceId,
    },
}

/// What happens when the ticket has passed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Completion {
    /// Nothing more.
    Nothing,
    /// A request is answered.
    Reply(RequestToken),
    /// A command of the host's is answered.
    Command(CommandToken),
    /// The guest is detached.
    Detached,
}

#[derive(Debug)]
struct Retirement {
    ticket: Ticket,
    guest: GuestId,
    /// How many works of the guest's paging have to be done: they may still write entries.
    works: u64,
    resources: Vec<Resource>,
    completion: Completion,
}

/// What waits for engines, in the order of the tickets.
#[derive(Debug, Default)]
pub(super) struct Retirements(VecDeque<Retirement>);

impl Retirements {
    /// The first that nothing needs any more. No guest waits for another's paging.
    fn take_passed(
        &mut self,
        quiesced: Ticket,
        has_finished: impl Fn(GuestId, u64) -> bool,
    ) -> Option<Retirement> {
        let index = self
            .0
            .iter()
            .take_while(|retirement| retirement.ticket <= quiesced)
            .position(|retirement| has_finished(retirement.guest, retirement.works))?;
        self.0.remove(index)
    }
}

impl Kernel {
    /// Makes engines forget `resources`; they are free, and `completion` happens, when they have.
    pub(super) fn retire(
        &mut self,
        guest: GuestId,
        resources: Vec<Resource>,
        completion: Completion,
    ) {
        for resource in &resources {
            self.invalidate(guest, resource);
        }
        // After the entries: an engine that has passed this ticket cannot have read old ones since.
        let ticket = self.hardware.quiesce(Some(guest));
        let works = self.guests.get(&guest).map_or(0, |guest| guest.paging.begun());
        self.retirements.0.push_back(Retirement { ticket, guest, works, resources, completion });
    }

    /// Makes the page-table entries invalid that lead to something.
    fn invalidate(&mut self, guest: GuestId, resource: &Resource) {
        let Some(guest) = self.guests.get(&guest) else { return };
        let mapped = match *resource {
            // The page tables of a process that went are freed whole.
            Resource::GpuVa { process, range, paged: false } => {
                guest.processes.get(&process).map(|process| (process.space, range))
            }
            Resource::Aperture(PageRange { start, length }) => guest.system.ok().map(|system| {
                let start = APERTURE_START + start;
                (system.address_space, PageRange { start, length })
            }),
            _ => None,
        };
        if let Some((space, range)) = mapped {
            invalidate(self.miniport.as_mut(), space, range);
        }
    }

    /// Frees what every engine has forgotten.
    pub(super) fn release_retired(&mut self, effects: &mut Vec<Effect>) {
        let quiesced = self.hardware.quiesced();
        let has_finished = |guests: &BTreeMap<GuestId, Guest>, id: GuestId, works: u64| {
            guests.get(&id).is_none_or(|guest| guest.paging.has_finished(works))
        };
        while let Some(retirement) = self
            .retirements
            .take_passed(quiesced, |guest, works| has_finished(&self.guests, guest, works))
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
            self.begin_paging(guest, 0, None, effects);
            self.complete(guest, retirement.completion, Ok(()), effects);
        }
    }

    /// What waited for something happens.
    pub(super) fn complete(
        &mut self,
        guest: GuestId,
        completion: Completion,
        result: Result<(), RequestError>,
        effects: &mut Vec<Effect>,
    ) {
        match completion {
            Completion::Nothing => {}
            Completion::Reply(token) => {
                if self.guests.get(&guest).is_some_and(|guest| !guest.detaching) {
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
                self.callbacks.forget_guest(guest);
                effects.push(Effect::Detached { guest });
            }
        }
    }

    fn release(&mut self, guest_id: GuestId, resource: Resource) {
        // A guest's last retirement is the one that removes it.
        let Some(guest) = self.guests.get_mut(&guest_id) else { return };
        match resource {
            Resource::LocalMemory { process, range } => {
                guest.vidmm.give_back_pinned(process, range);
            }
            Resource::GpuVa { process, range, .. } => {
                if range.start < GPU_VA_END {
                    guest.quotas.mappings.refund(1);
                    guest.quotas.mapped_bytes.refund(range.length);
                }
                if let Some(process) = guest.processes.get_mut(&process) {
                    process.gpu_va.give_back(range);
                }
            }
            Resource::Aperture(range) => guest.aperture.give_back(range),
            // Looked at by whoever calls this.
            Resource::FenceName(_) => {}
            Resource::FenceLogs(slot) => {
                // All of its memory goes with a guest.
                if !guest.detaching {
                    let start = guest.fences.storage().log(slot, FenceLogType::WAITS);
                    let (segment, offset) = (start.segment, start.address);
                    self.hardware.zero_memory(guest_id, segment, offset, FENCE_LOGS_SIZE);
                }
            }
            Resource::FenceSlot(slot) => {
                // What its fences were, the next process is not to see.
                for page in guest.fences.free_slot(slot) {
                    self.hardware.zero_memory(guest_id, page.segment, page.address, PAGE_SIZE);
                }
            }
            Resource::CrossFence(id) => {
                guest.quotas.cross_adapter_fences.refund(1);
                if self.cross_fences.forget(id) {
                    let PhysicalAddress { segment, address } = current_value(id);
                    self.hardware.zero_memory(guest_id, segment, address, PAGE_SIZE);
                }
            }
            Resource::DoorbellSlot(slot) => guest.doorbell_slots.give_back(slot),
            Resource::DoorbellReferences { process, hw_queue, allocations } => {
                // Any of the three may have gone with its context or device meanwhile.
                if let Ok(queue) = guest.handles.get_mut::<HwQueue>(process, hw_queue) {
                    queue.doorbell = None;
                }
                for handle in allocations {
                    if let Ok(allocation) = guest.handles.get_mut::<Allocation>(process, handle) {
                        allocation.doorbells = allocation.doorbells.saturating_sub(1);
                    }
                }
            }
            Resource::Submissions { process, holds } => guest.release_holds(process, &holds),
            Resource::SystemContext(space) => self.miniport.destroy_process(space),
            Resource::Process { process, space } => {
                self.miniport.destroy_process(space);
                self.process_ids.give_back(process);
                guest.quotas.processes.refund(1);
            }
        }
    }
}
