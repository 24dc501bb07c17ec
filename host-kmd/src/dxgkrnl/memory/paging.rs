// SPDX-License-Identifier: MIT OR Apache-2.0

//! Paging: carries out VidMm's decisions in the guest's system context.
//!
//! Each decision becomes *work*: its steps become operations, the driver builds them into paging buffers, and a
//! request is answered when the last of its buffers is done. A guest's work is carried out in order. A buffer belongs
//! to one work, so a fault harms no other work. The hardware has few buffers at a time, which bounds the work for one
//! input.
//!
//! The kernel first suspends the contexts of the processes that own moved memory. The work begins when engines have
//! left those contexts.
//!
//! Source: "BuildPagingBuffer" of the Windows KMD overview; "Allocation notification".

use crate::ddi::Miniport;
use crate::ddi::paging::{BuildPagingBufferError, PagingBuffer};
use crate::hardware::{AddressSpaceId, GuestId, HardwareError, SystemContext, Ticket, UnknownId};
use crate::vidmm::operations::{Operation, Operations, Window};
use crate::vidmm::pool::PageRange;
use crate::vidmm::step::Step;
use std::collections::{BTreeSet, VecDeque};

/// Maximum paging buffers of a guest in flight.
const MAX_IN_FLIGHT: u64 = 4;

/// What follows a decision once it is carried out.
#[derive(Debug)]
pub(crate) struct Batch<W> {
    /// Processes that stay suspended until it is done.
    pub(crate) held: BTreeSet<u32>,
    /// Processes that own the memory.
    pub(crate) concerned: BTreeSet<u32>,
    /// Backing memory that is free when it is done.
    pub(crate) freed: Vec<PageRange>,
    /// The request that waits for it.
    pub(crate) waiter: Option<W>,
    /// Whether the hardware failed to carry it out.
    pub(crate) failed: bool,
}

/// One decision, to be carried out.
#[derive(Debug)]
struct PagingWork<W> {
    steps: VecDeque<Step>,
    /// When it has passed, engines have left the contexts that own the memory.
    ticket: Option<Ticket>,
    batch: Batch<W>,
}

/// Where a guest's paging buffers are built and executed.
pub(crate) struct PagingNode<'a> {
    /// The guest.
    pub(crate) guest: GuestId,
    /// Its system context.
    pub(crate) system: SystemContext,
    /// The driver.
    pub(crate) miniport: &'a mut dyn Miniport,
    /// Gives a node's engine its power back.
    pub(crate) wake: &'a mut dyn FnMut(u32, &mut dyn Miniport),
}

/// The paging of one guest.
#[derive(Debug)]
pub(crate) struct Paging<W> {
    operations: Operations,
    /// Work that is not completely submitted, oldest first.
    pending: VecDeque<PagingWork<W>>,
    /// Packets of the oldest pending work that are built but not submitted.
    buffer: PagingBuffer,
    /// Completely submitted work, with its last fence.
    submitted: VecDeque<(u64, PagingWork<W>)>,
    /// The last fence that was submitted.
    last_fence: u64,
    /// The last fence that is done.
    completed: u64,
    /// Number of works so far.
    begun: u64,
    /// Number of finished works.
    finished: u64,
}

impl<W> Paging<W> {
    /// Creates idle paging. The paging process's GPU VA space has `window` bytes.
    pub(crate) fn new(system: Option<SystemContext>, window: u64) -> Self {
        // All requests of a guest without a system context are refused.
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

    /// Begins to carry out a decision, once engines have passed the ticket.
    pub(crate) fn begin(&mut self, steps: Vec<Step>, ticket: Option<Ticket>, batch: Batch<W>) {
        self.begun += 1;
        self.pending.push_back(PagingWork { steps: steps.into(), ticket, batch });
    }

    /// Takes the batch of the oldest work, if the last of its buffers is done.
    pub(crate) fn take_ended(&mut self) -> Option<Batch<W>> {
        let completed = self.completed;
        let (_, work) = self.submitted.pop_front_if(|(fence, _)| *fence <= completed)?;
        self.finished += 1;
        Some(work.batch)
    }

    /// Builds and submits as much pending work as is allowed now.
    pub(crate) fn submit(&mut self, quiesced: Ticket, node: &mut PagingNode<'_>) {
        while self.build(quiesced, node) {}
    }

    /// Whether work is not completely submitted.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes the next step of the oldest pending work. Returns false if nothing can be done now.
    fn build(&mut self, quiesced: Ticket, node: &mut PagingNode<'_>) -> bool {
        let Some(work) = self.pending.front_mut() else { return false };
        if work.ticket.is_some_and(|ticket| ticket > quiesced) {
            return false;
        }
        let must_submit = match self.operations.peek() {
            None => match work.steps.pop_front() {
                Some(step) => {
                    self.operations.begin(step);
                    return true;
                }
                None => true,
            },
            Some(Operation::Wait) => true,
            Some(operation) => {
                let Some(request) = operation.as_ddi() else { return false };
                let built =
                    node.miniport.build_paging_buffer(node.guest, &request, &mut self.buffer);
                match built {
                    Ok(()) => {
                        self.operations.pop();
                        return true;
                    }
                    Err(BuildPagingBufferError::InsufficientDmaBuffer(_))
                        if !self.buffer.is_empty() =>
                    {
                        true
                    }
                    Err(BuildPagingBufferError::Hardware(HardwareError::Unknown(unknown))) => {
                        self.give_up(node.guest, unknown);
                        return true;
                    }
                    Err(error) => {
                        // Page tables were created when the addresses were taken, so this cannot happen.
                        tracing::error!(?operation, %error, "the driver cannot build it at all");
                        self.operations.pop();
                        work.batch.failed = true;
                        return true;
                    }
                }
            }
        };
        must_submit && self.submit_buffer(node) && self.after_submission()
    }

    /// Submits the built packets. Returns false if that is impossible now.
    fn submit_buffer(&mut self, node: &mut PagingNode<'_>) -> bool {
        if self.buffer.is_empty() {
            return true;
        }
        if self.last_fence - self.completed >= MAX_IN_FLIGHT {
            return false;
        }
        (node.wake)(node.system.node, &mut *node.miniport);
        let fence = self.last_fence + 1;
        match node.miniport.submit_paging(node.guest, &self.buffer, fence) {
            Ok(()) => {
                self.last_fence = fence;
                self.buffer = PagingBuffer::new();
                true
            }
            Err(HardwareError::Full(full)) => {
                // The hardware accepts more when it has finished some.
                tracing::debug!(guest = node.guest.0, %full, "paging waits");
                false
            }
            Err(HardwareError::Unknown(unknown)) => {
                self.give_up(node.guest, unknown);
                true
            }
        }
    }

    /// The hardware does not have what the oldest pending work names, a bug of the kernel: the work fails, and the
    /// rest of it is dropped. A retry would fail again.
    fn give_up(&mut self, guest: GuestId, unknown: UnknownId) {
        HardwareError::from(unknown).report();
        self.buffer = PagingBuffer::new();
        self.operations.drop_step();
        if let Some(work) = self.pending.front_mut() {
            work.steps.clear();
            work.batch.failed = true;
            let processes = &work.batch.concerned;
            tracing::error!(guest = guest.0, ?processes, "paging failed: they lose their contexts");
        }
    }

    /// All built packets are submitted. Returns whether more can be done.
    fn after_submission(&mut self) -> bool {
        match self.operations.peek() {
            Some(Operation::Wait) => {
                let waits = self.completed < self.last_fence;
                if !waits {
                    self.operations.pop();
                }
                !waits
            }
            Some(_) => true,
            None => {
                let ends = self.pending.front().is_some_and(|work| work.steps.is_empty());
                if ends && let Some(work) = self.pending.pop_front() {
                    self.submitted.push_back((self.last_fence, work));
                }
                true
            }
        }
    }

    /// Whether the last buffer of the oldest work is done.
    pub(crate) fn has_ended(&self) -> bool {
        self.submitted.front().is_some_and(|(fence, _)| *fence <= self.completed)
    }

    /// Number of works so far.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether the first `works` works are done.
    pub(crate) fn has_finished(&self, works: u64) -> bool {
        self.finished >= works
    }

    /// Whether any work is unfinished.
    pub(crate) fn is_busy(&self) -> bool {
        self.finished < self.begun
    }

    /// The fence of the oldest buffer not known to be done, which is the executing one, if any.
    pub(crate) fn oldest_fence(&self) -> u64 {
        self.completed + 1
    }

    /// A paging buffer and all before it are done.
    pub(crate) fn complete(&mut self, fence: u64) {
        self.completed = self.completed.max(fence);
    }

    /// A paging buffer failed.
    pub(crate) fn fail(&mut self, fence: u64) {
        let submitted = self.submitted.iter_mut().find(|(last, _)| fence <= *last);
        let work = submitted.map(|(_, work)| work).or(self.pending.front_mut());
        if let Some(work) = work {
            work.batch.failed = true;
        }
    }

    /// The guest is going: drops all work. Returns the memory to free and the waiters.
    pub(crate) fn abandon(&mut self) -> (Vec<PageRange>, Vec<W>) {
        let submitted = self.submitted.drain(..).map(|(_, work)| work);
        let (mut freed, mut waiters) = (Vec::new(), Vec::new());
        for work in submitted.chain(self.pending.drain(..)) {
            freed.extend(work.batch.freed);
            waiters.extend(work.batch.waiter);
        }
        self.buffer = PagingBuffer::new();
        self.finished = self.begun;
        (freed, waiters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddi::paging::PAGING_VA_START;
    use crate::dxgkrnl::memory::page_tables::make_page_tables;
    use crate::hardware::Segment;
    use crate::miniport::BellhopMiniport;
    use crate::model::Model;
    use crate::vidmm::segment::Memory;
    use bellhop_protocol::PAGE_SIZE;
    use std::sync::Arc;

    const GUEST: GuestId = GuestId(1);
    const WINDOW: u64 = 64 * PAGE_SIZE;
    const NOW: Ticket = Ticket(1);

    /// A guest's paging, and a GPU that executes it when the test says so.
    struct Rig {
        model: Arc<Model>,
        miniport: BellhopMiniport,
        system: SystemContext,
        paging: Paging<u32>,
    }

    impl Rig {
        fn new() -> Self {
            let model = Arc::new(Model::new(1));
            model.state().prompt_paging = false;
            let mut miniport = BellhopMiniport::new(Arc::clone(&model) as _);
            let system = miniport.create_system_context(GUEST).unwrap();
            let window = PageRange { start: PAGING_VA_START, length: WINDOW };
            make_page_tables(&mut miniport, GUEST, system.address_space, window).unwrap();
            let paging = Paging::new(Some(system), WINDOW);
            Self { model, miniport, system, paging }
        }

        /// Begins a work with these steps and this waiter, once engines have passed a ticket.
        fn begin(&mut self, waiter: u32, steps: Vec<Step>, ticket: Option<Ticket>) {
            let batch = Batch {
                held: BTreeSet::new(),
                concerned: BTreeSet::new(),
                freed: vec![page(waiter)],
                waiter: Some(waiter),
                failed: false,
            };
            self.paging.begin(steps, ticket, batch);
        }

        fn submit(&mut self, quiesced: Ticket) {
            let mut node = PagingNode {
                guest: GUEST,
                system: self.system,
                miniport: &mut self.miniport,
                wake: &mut |_, _| {},
            };
            self.paging.submit(quiesced, &mut node);
        }

        /// Number of buffers that the GPU has.
        fn buffers(&self) -> usize {
            self.model.state().paging.get(&GUEST).map_or(0, VecDeque::len)
        }

        /// Completes the GPU's oldest buffer.
        fn complete(&mut self) {
            let fence = self.model.oldest_paging(GUEST).unwrap();
            self.model.complete_paging(GUEST);
            self.paging.complete(fence);
        }

        /// The waiters of ended works, and whether each work failed.
        fn ended(&mut self) -> Vec<(u32, bool)> {
            let ended = std::iter::from_fn(|| self.paging.take_ended());
            ended.map(|batch| (batch.waiter.unwrap(), batch.failed)).collect()
        }
    }

    fn page(number: u32) -> PageRange {
        PageRange { start: u64::from(number) * PAGE_SIZE, length: PAGE_SIZE }
    }

    /// A step that takes one buffer.
    fn zero(number: u32) -> Vec<Step> {
        let memory = Memory::range(Segment::Backing, page(number));
        vec![Step::Zero { memory, length: PAGE_SIZE }]
    }

    #[test]
    fn memory_moves_when_engines_have_left_the_contexts_of_its_process() {
        let mut rig = Rig::new();
        rig.begin(1, zero(1), Some(Ticket(2)));
        rig.submit(NOW);
        assert_eq!(rig.buffers(), 0);
        assert!(rig.paging.is_pending());
        rig.submit(Ticket(2));
        assert_eq!(rig.buffers(), 1);
        assert!(!rig.paging.is_pending() && rig.paging.is_busy());
    }

    #[test]
    fn a_work_ends_with_its_last_buffer_and_works_end_in_their_order() {
        let mut rig = Rig::new();
        rig.begin(1, zero(1), None);
        rig.begin(2, Vec::new(), None);
        rig.begin(3, zero(3), None);
        rig.submit(NOW);
        assert_eq!(rig.buffers(), 2);
        assert!(!rig.paging.has_ended());
        rig.complete();
        assert!(rig.paging.has_ended());
        // The second work has no buffer, so it waits for none.
        assert_eq!(rig.ended(), [(1, false), (2, false)]);
        assert!(rig.paging.has_finished(2) && !rig.paging.has_finished(3));
        rig.complete();
        assert_eq!(rig.ended(), [(3, false)]);
        assert!(!rig.paging.is_busy());
    }

    #[test]
    fn a_guest_has_a_bounded_number_of_buffers_with_the_hardware() {
        let mut rig = Rig::new();
        for number in 0..6 {
            rig.begin(number, zero(number), None);
        }
        rig.submit(NOW);
        assert_eq!(rig.buffers() as u64, MAX_IN_FLIGHT);
        rig.submit(NOW);
        assert_eq!(rig.buffers() as u64, MAX_IN_FLIGHT);
        rig.complete();
        rig.submit(NOW);
        assert_eq!(rig.buffers() as u64, MAX_IN_FLIGHT);
        while rig.buffers() > 0 {
            rig.complete();
            rig.submit(NOW);
        }
        assert_eq!(rig.ended(), (0..6).map(|number| (number, false)).collect::<Vec<_>>());
    }

    #[test]
    fn what_the_hardware_has_no_room_for_waits_and_is_not_lost() {
        let mut rig = Rig::new();
        rig.model.state().paging_room = 1;
        rig.begin(1, zero(1), None);
        rig.begin(2, zero(2), None);
        rig.submit(NOW);
        assert_eq!(rig.buffers(), 1);
        rig.complete();
        assert_eq!(rig.ended(), [(1, false)]);
        rig.submit(NOW);
        rig.complete();
        assert_eq!(rig.ended(), [(2, false)]);
    }

    #[test]
    fn a_work_that_names_what_the_hardware_does_not_have_fails_once_and_alone() {
        let mut rig = Rig::new();
        rig.model.state().lost = vec![UnknownId::Guest(GUEST)];
        let steps = zero(1).into_iter().chain(zero(2)).collect();
        rig.begin(1, steps, None);
        rig.submit(NOW);
        assert_eq!(rig.ended(), [(1, true)]);
        assert!(!rig.paging.is_pending() && !rig.paging.is_busy());
        rig.model.state().lost.clear();
        rig.begin(2, zero(2), None);
        rig.submit(NOW);
        assert_eq!(rig.buffers(), 1, "nothing of the failed work is submitted");
        rig.complete();
        assert_eq!(rig.ended(), [(2, false)]);
    }

    #[test]
    fn a_buffer_that_fails_costs_its_own_work_alone() {
        let mut rig = Rig::new();
        for number in 1..=3 {
            rig.begin(number, zero(number), None);
        }
        rig.submit(NOW);
        // Each failed buffer also completes.
        rig.paging.fail(2);
        (0..3).for_each(|_| rig.complete());
        assert_eq!(rig.ended(), [(1, false), (2, true), (3, false)]);
    }

    #[test]
    fn an_allocation_leaves_the_iommu_after_all_paging_operations() {
        let mut rig = Rig::new();
        let memory = Memory::range(Segment::System, page(1));
        let allocation = crate::ddi::paging::AllocationId(1);
        let mut steps = vec![Step::NotifyIoMmuUnmap { allocation, memory, length: PAGE_SIZE }];
        steps.extend(zero(2));
        rig.begin(1, steps, None);
        rig.submit(NOW);
        assert_eq!(rig.buffers(), 1, "what comes after waits");
        rig.complete();
        rig.submit(NOW);
        assert_eq!(rig.buffers(), 1);
        assert_eq!(rig.ended(), []);
        rig.complete();
        assert_eq!(rig.ended(), [(1, false)]);
    }

    #[test]
    fn a_guest_that_goes_gives_up_all_its_works() {
        let mut rig = Rig::new();
        rig.begin(1, zero(1), None);
        rig.begin(2, zero(2), Some(Ticket(9)));
        rig.submit(NOW);
        let (freed, waiters) = rig.paging.abandon();
        assert_eq!((freed, waiters), (vec![page(1), page(2)], vec![1, 2]));
        assert!(!rig.paging.is_busy() && !rig.paging.is_pending());
    }
}
