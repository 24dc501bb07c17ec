// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging suspends the contexts of the processes that own moved memory, resumes them when the move is done, and
//! answers the requests that waited for it. `memory::paging` carries out VidMm's decisions.
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview; "Allocation notification".

use crate::dxgkrnl::compute::compilations::Compilation;
use crate::dxgkrnl::kernel::Kernel;
use crate::dxgkrnl::kernel::request::Compiling;
use crate::dxgkrnl::kernel::waiter::{Outcome, Waiter};
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::paging::{Batch, PagingNode};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::faults::IN_ERROR;
use crate::dxgkrnl::queue::context::Suspension;
use crate::hardware::{GuestId, Reported as _, Segment};
use crate::vidmm::step::{Notice, Plan};
use bellhop_protocol::event::{Event, EventKind};
use zerocopy::FromZeros;

impl Kernel {
    /// Takes what VidMm has decided for a guest since the last call, and begins to carry it out. Answers the waiter
    /// when that is done.
    pub(crate) fn begin_paging(&mut self, id: GuestId, requester: u32, waiter: Option<Waiter>) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let Plan { steps, mut held, mut concerned, freed, notices } = guest.vidmm.take_plan();
        for notice in notices {
            match notice {
                Notice::Trim { process, bytes } => self.outbox.event(
                    id,
                    Event {
                        kind: EventKind::TRIM_RESIDENCY,
                        process,
                        value: bytes,
                        ..Event::new_zeroed()
                    },
                ),
                // When the work is done, the kernel decides whether the process resumes.
                Notice::Suspend(process) | Notice::Resume(process) => {
                    held.insert(process);
                }
            }
        }
        if steps.is_empty() && held.is_empty() && freed.is_empty() && waiter.is_none() {
            return;
        }
        if waiter.is_some() {
            concerned.insert(requester);
        }
        for process in &held {
            self.hold(id, *process);
        }
        // After the contexts have left the run list.
        let ticket = (!held.is_empty()).then(|| self.platform.quiesce(Some(id)));
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let batch = Batch { held, concerned, freed, waiter, failed: false };
        guest.paging.begin(steps, ticket, batch);
        self.paging.insert(id);
        self.work.wake(Rule::Paging(id));
    }

    /// Suspends a process's contexts until [`Self::unhold`].
    fn hold(&mut self, guest: GuestId, process: u32) {
        let Some(mut access) = self.access(guest, process) else { return };
        let Ok(state) = access.process() else { return };
        state.hold();
        self.each_context_of(guest, process, |access, context| {
            access.suspend_context(context, Suspension::MEMORY)
        });
    }

    fn unhold(&mut self, guest: GuestId, process: u32) {
        let Some(mut access) = self.access(guest, process) else { return };
        let Ok(state) = access.process() else { return };
        state.unhold();
        if !access.is_held() {
            self.each_context_of(guest, process, |access, context| {
                access.resume_context(context, Suspension::MEMORY)
            });
        }
    }

    /// Begins what VidMm has newly decided for a guest, and continues the guest's paging as far as engines have come.
    pub(crate) fn continue_paging(&mut self, id: GuestId) {
        loop {
            if self.guests.get(&id).is_none_or(|guest| guest.is_detaching()) {
                break;
            }
            self.begin_paging(id, 0, None);
            self.submit_paging(id);
            let Some(guest) = self.guests.get_mut(&id) else { break };
            let Some(work) = guest.paging.take_ended() else { break };
            self.finish_paging(id, work);
            // Retirements and D3 may wait for this work.
            self.work.wake(Rule::Retirements);
            self.work.wake(Rule::PowerDown);
        }
        if self.guests.get(&id).is_none_or(|guest| guest.is_detaching() || !guest.paging.is_busy())
        {
            self.paging.remove(&id);
        }
    }

    /// A batch of paging is done.
    fn finish_paging(&mut self, id: GuestId, work: Batch<Waiter>) {
        if work.failed {
            for process in &work.concerned {
                self.each_context_of(id, *process, |access, context| {
                    access.lose_context(context, IN_ERROR);
                    Ok(())
                });
            }
        }
        for range in work.freed {
            // Zeroing returns the pages to the host.
            self.platform.zero_memory(id, Segment::Backing, range.start, range.length).reported();
            if let Some(guest) = self.guests.get_mut(&id) {
                guest.vidmm.give_back(range);
            }
        }
        for process in work.held {
            self.unhold(id, process);
        }
        if let Some(waiter) = work.waiter {
            self.go_on_after_paging(id, waiter, work.failed);
        }
    }

    /// Answers a request that waited for paging, or begins what it waited for.
    fn go_on_after_paging(&mut self, id: GuestId, waiter: Waiter, failed: bool) {
        let Waiter { promise, outcome } = waiter;
        let answer = match outcome {
            Outcome::Reply(_) if failed => Err(RequestError::PagingFailed),
            Outcome::Reply(body) => Ok(body),
            Outcome::Compile(deferred) => match self.compile_deferred(id, *deferred, failed) {
                Ok((Compiling { space, kernel, device }, process)) => {
                    let compilation = Compilation { guest: id, process, device, promise };
                    return self.compilations.begin(space, kernel, compilation);
                }
                Err(error) => Err(error),
            },
            Outcome::Flip(flip) => return self.flip_paged(id, (flip, promise), failed),
            Outcome::Submit(deferred) => self.submit_deferred(id, deferred, failed),
        };
        self.outbox.answer(promise, answer);
    }

    /// Builds and submits paging buffers, as far as engines and hardware allow.
    fn submit_paging(&mut self, id: GuestId) {
        if self.guests.get(&id).is_none_or(|guest| !guest.paging.is_pending()) {
            return;
        }
        if self.is_without_power() {
            self.ensure_power();
        }
        // Memory of a GPU in D3 may be paged in.
        self.power_needed_gpus();
        let Self { guests, power, miniport, quiesced, .. } = self;
        let Some(guest) = guests.get_mut(&id) else { return };
        let Ok(system) = guest.system() else { return };
        guest.paging.submit(
            quiesced.of(id),
            &mut PagingNode {
                guest: id,
                system,
                miniport: miniport.as_mut(),
                wake: &mut |node, miniport| power.wake_engine(node, miniport),
            },
        );
    }
}
