// SPDX-License-Identifier: MIT OR Apache-2.0

//! Retirement: engines forget a resource before the kernel reuses it.
//!
//! An engine may still use what a request has just removed: it caches translations, and executes a destroyed queue
//! until it looks at its list. So the kernel collects removed resources, invalidates their page-table entries, and
//! draws a ticket. When every engine has passed the ticket, the memory, addresses and slots are free and the request
//! is answered. All destruction goes through here.

use crate::ddi::paging::APERTURE_START;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::page_tables::invalidate_entries;
use crate::dxgkrnl::object::completion::Completion;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::resource::Resource;
use crate::dxgkrnl::recovery::retirement::Retirement;
use crate::hardware::GuestId;
use crate::port::{CommandError, Effect};
use crate::vidmm::pool::PageRange;

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
        let ticket = self.platform.quiesce(Some(guest));
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

    /// Tells the requester how its request ended.
    pub(crate) fn complete(
        &mut self,
        guest: GuestId,
        completion: Completion,
        result: Result<(), RequestError>,
    ) {
        match completion {
            Completion::Nothing => {}
            Completion::Reply(promise) => {
                self.outbox.answer(promise, result.map(|()| Vec::new()));
            }
            Completion::Command(token) => {
                let result = result.map_err(|error| CommandError(error.to_string()));
                self.outbox.tell(Effect::CommandDone { token, result });
            }
            Completion::Detached => {
                if let Some(state) = self.guests.remove(&guest)
                    && !state.is_empty()
                {
                    tracing::error!(guest = guest.0, ?state, "a guest left something behind");
                    debug_assert!(false, "a guest left something behind");
                }
                self.callbacks.doorbells.forget_guest(guest);
                self.outbox.tell(Effect::Detached { guest });
            }
        }
    }

    /// Does something for a process, and retires what that gives up. `None` if there is no such guest.
    pub(crate) fn for_process<T>(
        &mut self,
        guest: GuestId,
        process: u32,
        act: impl FnOnce(&mut ProcessAccess<'_>) -> T,
    ) -> Option<T> {
        let mut access = self.access(guest, process)?;
        let result = act(&mut access);
        let given_up = access.into_given_up();
        if !given_up.is_empty() {
            self.retire(guest, given_up, Completion::Nothing);
        }
        Some(result)
    }
}
