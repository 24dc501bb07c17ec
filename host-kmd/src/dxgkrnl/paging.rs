//! Paging: carrying out what VidMm decides, in the guest's system context.
//!
//! Each decision becomes *work*: its steps become operations, the driver builds them into paging
//! buffers, and a request is answered when the last of its buffers is done. Work of a guest is carried
//! out in its order; a buffer belongs to one work, so that a fault is nobody else's. Not more than a
//! few buffers are with the hardware at a time, which bounds what one input does here.
//!
//! Contexts of processes whose memory is moved are suspended first, and work on it begins when engines
//! have left them.
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview; "Allocation notification".

use super::context::Suspension;
use super::error::RequestError;
use super::interrupts::lost_memory;
use super::kernel::Kernel;
use super::pool::PageRange;
use super::request::reply;
use super::scope::Scope;
use super::submission::Deferred;
use crate::ddi::paging::{
    BuildPagingBufferError, PAGING_VA_START, PageSize, PagingBuffer, PagingOperation,
};
use crate::hardware::{
    AddressSpaceId, GuestId, HardwareFull, PhysicalPage, Pte, Segment, SystemContext, Ticket,
};
use crate::port::{Effect, RequestToken};
use crate::vidmm::operations::{Operation, Operations, Window};
use crate::vidmm::step::{Notice, Plan, Step};
use bellhop_protocol::event::{Event, EventKind};
use bellhop_protocol::status::Status;
use std::collections::{BTreeSet, VecDeque};
use zerocopy::FromZeros;

/// Most paging buffers of a guest that are with the hardware.
const MAX_IN_FLIGHT: u64 = 4;

/// A request that is answered when paging is done.
#[derive(Debug)]
pub(super) struct Waiter {
    /// Which.
    pub(super) token: RequestToken,
    /// What happens then.
    pub(super) outcome: Outcome,
}

/// What a request is answered with when paging is done.
#[derive(Debug)]
pub(super) enum Outcome {
    /// This.
    Reply(Vec<u8>),
    /// What comes of submitting this.
    Submit(Deferred),
}

/// One decision, to be carried out.
#[derive(Debug)]
struct Work {
    steps: VecDeque<Step>,
    /// Engines have left the contexts of what is moved when it has passed.
    ticket: Option<Ticket>,
    /// Processes that are held until it is done.
    held: BTreeSet<u32>,
    /// Processes whose memory it is about.
    concerned: BTreeSet<u32>,
    /// Backing memory that nothing needs any more when it is done.
    freed: Vec<PageRange>,
    waiter: Option<Waiter>,
    /// Whether the hardware failed at it.
    failed: bool,
}

/// The paging of one guest.
#[derive(Debug)]
pub(super) struct Paging {
    operations: Operations,
    /// Not all of it is submitted, the oldest first.
    pending: VecDeque<Work>,
    /// What is submitted of the oldest, and is not: its buffer.
    buffer: PagingBuffer,
    /// All of it is submitted, up to this fence.
    submitted: VecDeque<(u64, Work)>,
    /// The last fence that was submitted.
    last_fence: u64,
    /// The last fence that is done.
    completed: u64,
    /// How many works there were.
    begun: u64,
    /// How many of them are done.
    finished: u64,
}

impl Paging {
    /// Nothing to do. The paging process's GPU VA space has `window` bytes.
    pub(super) fn new(system: Option<SystemContext>, window: u64) -> Self {
        // A guest without a system context is refused everything.
        let space = system.map_or(AddressSpaceId(0), |system| system.address_space);
        Self {
            operations: Operations::new(Window::new(space, window)),
            pending: VecDeque::new(),
            buffer: PagingBuffer::new(),
            submitted: VecDeque::new(),
            last_fence: 0,
            completed: 0,
            begun: 0,
            finished: 0,
        }
    }

    /// How many works there were until now.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether so many works are done.
    pub(super) fn has_finished(&self, works: u64) -> bool {
        self.finished >= works
    }

    /// Whether something is not done.
    pub(super) fn is_busy(&self) -> bool {
        self.finished < self.begun
    }

    /// The fence of the oldest buffer that is not known to be done: the one that is being executed, if one
    /// is.
    pub(super) fn oldest_fence(&self) -> u64 {
        self.completed + 1
    }

    /// A paging buffer was done, and all before it.
    pub(super) fn complete(&mut self, fence: u64) {
        self.completed = self.completed.max(fence);
    }

    /// A paging buffer failed.
    pub(super) fn fail(&mut self, fence: u64) {
        let submitted = self.submitted.iter_mut().find(|(last, _)| fence <= *last);
        let work = submitted.map(|(_, work)| work).or(self.pending.front_mut());
        if let Some(work) = work {
            work.failed = true;
        }
    }

    /// The guest goes: nothing more is carried out. Returns what would have been freed, and submitted.
    pub(super) fn abandon(&mut self) -> (Vec<PageRange>, Vec<Deferred>) {
        let submitted = self.submitted.drain(..).map(|(_, work)| work);
        let (mut freed, mut deferred) = (Vec::new(), Vec::new());
        for mut work in submitted.chain(self.pending.drain(..)) {
            freed.append(&mut work.freed);
            if let Some(Waiter { outcome: Outcome::Submit(submission), .. }) = work.waiter {
                deferred.push(submission);
            }
        }
        self.buffer = PagingBuffer::new();
        self.finished = self.begun;
        (freed, deferred)
    }
}

impl Kernel {
    /// Takes what VidMm has decided for a guest since the last time, and begins to carry it out. The
    /// waiter is answered when it is done.
    pub(super) fn begin_paging(
        &mut self,
        id: GuestId,
        requester: u32,
        waiter: Option<Waiter>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let Plan { steps, mut held, mut concerned, freed, notices } = guest.vidmm.take_plan();
        for notice in notices {
            match notice {
                Notice::Trim { process, bytes } => effects.push(Effect::Event {
                    guest: id,
                    event: Event {
                        kind: EventKind::TRIM_RESIDENCY,
                        process,
                        value: bytes,
                        ..Event::new_zeroed()
                    },
                }),
                // Whether it goes on when the work is done is seen then.
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
            self.hold(id, *process, effects);
        }
        // After the contexts are off the run list.
        let ticket = (!held.is_empty()).then(|| self.hardware.quiesce(Some(id)));
        let Some(guest) = self.guests.get_mut(&id) else { return };
        guest.paging.begun += 1;
        let (steps, failed) = (steps.into(), false);
        let work = Work { steps, ticket, held, concerned, freed, waiter, failed };
        guest.paging.pending.push_back(work);
    }

    /// Suspends a process's contexts until [`Self::unhold`].
    fn hold(&mut self, guest: GuestId, process: u32, effects: &mut Vec<Effect>) {
        let Some(mut scope) = self.scope(guest, process, effects) else { return };
        let Ok(state) = scope.process() else { return };
        state.holds += 1;
        self.each_context_of(guest, process, effects, |scope, context| {
            scope.suspend_context(context, Suspension::MEMORY)
        });
    }

    fn unhold(&mut self, guest: GuestId, process: u32, effects: &mut Vec<Effect>) {
        let Some(mut scope) = self.scope(guest, process, effects) else { return };
        let Ok(state) = scope.process() else { return };
        state.holds = state.holds.saturating_sub(1);
        if !scope.is_held() {
            self.each_context_of(guest, process, effects, |scope, context| {
                scope.resume_context(context, Suspension::MEMORY)
            });
        }
    }

    /// Goes on with all guests' paging, as far as engines have come.
    pub(super) fn continue_paging(&mut self, effects: &mut Vec<Effect>) {
        let busy =
            self.guests.iter().filter(|(_, guest)| guest.paging.is_busy() && !guest.detaching);
        for id in busy.map(|(id, _)| *id).collect::<Vec<_>>() {
            loop {
                self.submit_paging(id, effects);
                let Some(guest) = self.guests.get_mut(&id) else { break };
                let paging = &mut guest.paging;
                let completed = paging.completed;
                let Some((_, work)) =
                    paging.submitted.pop_front_if(|(fence, _)| *fence <= completed)
                else {
                    break;
                };
                paging.finished += 1;
                self.finish_paging(id, work, effects);
            }
        }
    }

    /// A work is done.
    fn finish_paging(&mut self, id: GuestId, work: Work, effects: &mut Vec<Effect>) {
        if work.failed {
            for process in &work.concerned {
                self.each_context_of(id, *process, effects, |scope, context| {
                    scope.lose_context(context, lost_memory());
                    Ok(())
                });
            }
        }
        for range in work.freed {
            // Its pages are the host's again.
            self.hardware.zero_memory(id, Segment::Backing, range.start, range.length);
            if let Some(guest) = self.guests.get_mut(&id) {
                guest.vidmm.give_back(range);
            }
        }
        for process in work.held {
            self.unhold(id, process, effects);
        }
        if let Some(Waiter { token, outcome }) = work.waiter {
            let result = match (outcome, work.failed) {
                (Outcome::Reply(body), false) => Ok(body),
                (Outcome::Reply(_), true) => Err(RequestError::PagingFailed),
                (Outcome::Submit(deferred), failed) => {
                    self.submit_deferred(id, deferred, failed, effects)
                }
            };
            let reply = match result {
                Ok(body) => reply(Status::SUCCESS, 0, &body),
                Err(error) => reply(error.status(), error.detail(), &[]),
            };
            effects.push(Effect::Reply { guest: id, token, reply });
        }
    }

    /// Builds and submits what there is, as far as it may be.
    fn submit_paging(&mut self, id: GuestId, effects: &mut Vec<Effect>) {
        if self.guests.get(&id).is_none_or(|guest| guest.paging.pending.is_empty()) {
            return;
        }
        if self.is_without_power() {
            self.ensure_power(effects);
        }
        let quiesced = self.hardware.quiesced();
        let Some(mut scope) = self.scope(id, 0, effects) else { return };
        while scope.build_paging(quiesced) {}
    }

    /// Whether any guest's paging is not done. A guest that goes is not waited for.
    pub(super) fn is_paging(&self) -> bool {
        self.guests.values().any(|guest| guest.paging.is_busy() && !guest.detaching)
    }
}

impl Scope<'_> {
    /// Has the driver make the page tables for a range now, while there is somebody to be told that
    /// there is no room for them. They stay as long as the address space.
    pub(super) fn make_page_tables(
        &mut self,
        space: AddressSpaceId,
        range: PageRange,
    ) -> Result<(), RequestError> {
        /// Entries made at once.
        const ENTRIES: usize = 512;
        let page = PhysicalPage { segment: Segment::System, address: 0 };
        let entries = [Pte::new(page, false); ENTRIES];
        for page_size in [PageSize::Small, PageSize::Large] {
            let bytes = page_size.bytes();
            let mut start = range.start.next_multiple_of(bytes);
            let end = range.start.saturating_add(range.length);
            let end = end - end % bytes;
            while start < end {
                let count = usize::try_from((end - start) / bytes).unwrap_or(ENTRIES).min(ENTRIES);
                let update = PagingOperation::UpdatePageTable {
                    space,
                    gpu_va: start,
                    page_size,
                    entries: entries.get(..count).unwrap_or_default(),
                };
                // Built and thrown away.
                let mut buffer = PagingBuffer::new();
                match self.miniport.build_paging_buffer(self.guest_id, &update, &mut buffer) {
                    Ok(()) => {}
                    Err(BuildPagingBufferError::HardwareFull(full)) => return Err(full.into()),
                    Err(BuildPagingBufferError::InsufficientDmaBuffer(_)) => {
                        return Err(HardwareFull("paging buffer").into());
                    }
                }
                start += count as u64 * bytes;
            }
        }
        Ok(())
    }

    /// The page tables of the paging process's GPU VA space, which has `length` bytes.
    pub(super) fn make_window_tables(&mut self, length: u64) -> Result<(), RequestError> {
        let system = self.guest.system?;
        let range = PageRange { start: PAGING_VA_START, length };
        self.make_page_tables(system.address_space, range)
    }

    /// Whether the process's contexts are suspended because of its memory.
    pub(super) fn is_held(&mut self) -> bool {
        let process = self.process_id;
        let holds = self.process().map_or(0, |process| process.holds);
        holds > 0 || self.guest.vidmm.is_suspended(process)
    }

    /// Does the next thing to the oldest pending work; false when there is nothing to do now.
    fn build_paging(&mut self, quiesced: Ticket) -> bool {
        let paging = &mut self.guest.paging;
        let Some(work) = paging.pending.front_mut() else { return false };
        if work.ticket.is_some_and(|ticket| ticket > quiesced) {
            return false;
        }
        let must_submit = match paging.operations.peek() {
            None => match work.steps.pop_front() {
                Some(step) => {
                    paging.operations.begin(step);
                    return true;
                }
                None => true,
            },
            Some(Operation::Wait) => true,
            Some(operation) => {
                let Some(request) = operation.as_ddi() else { return false };
                let built =
                    self.miniport.build_paging_buffer(self.guest_id, &request, &mut paging.buffer);
                match built {
                    Ok(()) => {
                        paging.operations.pop();
                        return true;
                    }
                    Err(BuildPagingBufferError::InsufficientDmaBuffer(_))
                        if !paging.buffer.is_empty() =>
                    {
                        true
                    }
                    Err(error) => {
                        // Page tables were made when addresses were taken.
                        tracing::error!(?operation, %error, "the driver cannot build it at all");
                        paging.operations.pop();
                        work.failed = true;
                        return true;
                    }
                }
            }
        };
        must_submit && self.submit_buffer() && self.after_submission()
    }

    /// Submits what is built; false when it cannot be now.
    fn submit_buffer(&mut self) -> bool {
        let paging = &mut self.guest.paging;
        if paging.buffer.is_empty() {
            return true;
        }
        let Ok(system) = self.guest.system else { return false };
        if paging.last_fence - paging.completed >= MAX_IN_FLIGHT {
            return false;
        }
        self.power.wake_engine(system.node, self.miniport);
        let fence = paging.last_fence + 1;
        match self.miniport.submit_paging(self.guest_id, &paging.buffer, fence) {
            Ok(()) => {
                paging.last_fence = fence;
                paging.buffer = PagingBuffer::new();
                true
            }
            Err(full) => {
                // It takes more when it is done with some.
                tracing::debug!(guest = self.guest_id.0, %full, "paging waits");
                false
            }
        }
    }

    /// Nothing is built that is not submitted: whether there is more to do.
    fn after_submission(&mut self) -> bool {
        let paging = &mut self.guest.paging;
        match paging.operations.peek() {
            Some(Operation::Wait) => {
                let waits = paging.completed < paging.last_fence;
                if !waits {
                    paging.operations.pop();
                }
                !waits
            }
            Some(_) => true,
            None => {
                let ends = paging.pending.front().is_some_and(|work| work.steps.is_empty());
                if ends && let Some(work) = paging.pending.pop_front() {
                    paging.submitted.push_back((paging.last_fence, work));
                }
                true
            }
        }
    }
}
