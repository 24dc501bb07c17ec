// SPDX-License-Identifier: MIT OR Apache-2.0

//! Something is done to each context, or to each ring.

use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::queue_span::queue_span;
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::GuestId;
use bellhop_protocol::control::Handle;

impl Kernel {
    /// Calls `act` with each context of each guest.
    pub(crate) fn each_context(
        &mut self,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        for guest in self.guests.keys().copied().collect::<Vec<_>>() {
            self.each_context_of_guest(guest, &act);
        }
    }

    /// Calls `act` with each context of a guest.
    pub(crate) fn each_context_of_guest(
        &mut self,
        guest: GuestId,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let processes = self.guests.get(&guest).map(|guest| guest.processes.keys().copied());
        for process in processes.into_iter().flatten().collect::<Vec<_>>() {
            self.each_context_of(guest, process, &act);
        }
    }

    /// Calls `act` with each context of a process.
    pub(crate) fn each_context_of(
        &mut self,
        guest: GuestId,
        process: u32,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        self.for_process(guest, process, |access| {
            for context in access.contexts() {
                if let Err(error) = act(access, context) {
                    tracing::error!(guest = guest.0, process, %context, %error, "a context is missing");
                }
            }
        });
    }

    /// Calls `act` with each queue.
    pub(crate) fn each_ring(
        &mut self,
        act: impl Fn(&mut ProcessAccess<'_>, Handle) -> Result<(), RequestError>,
    ) {
        let owners: Vec<_> = self.queues.values().copied().collect();
        for owner in owners {
            let Some(mut access) = self.access(owner.guest, owner.process) else {
                continue;
            };
            if let Err(error) = act(&mut access, owner.handle) {
                let span = queue_span(owner.process, owner.handle);
                tracing::error!(parent: &span, guest = owner.guest.0, %error, "a ring is missing");
            }
        }
    }
}
