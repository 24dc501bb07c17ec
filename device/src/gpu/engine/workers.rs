// SPDX-License-Identifier: MIT OR Apache-2.0

//! The workers that execute kernels for an engine: one for each address space with kernels.
//!
//! An engine executes the kernels of one queue at a time: when another queue has a turn that may take long, the worker
//! stops, and goes on at the next turn of its own queue. So weights, quanta and time-outs hold within a kernel.
//!
//! The engine waits for no process to start, to compile or to end: the manager does. The engine waits for a worker to
//! forget memory that the guest no longer has, and kills it if that takes long.

mod batch;
mod own;

use crate::gpu::kernels::desk::{Desk, Failure, Grave, Note, Order, Request};
use crate::gpu::kernels::table::KernelSpace;
use crate::gpu::memory::mmu::Mmu;
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
pub use batch::{Batch, Item};
use bellhop_host_kmd::hardware::{AddressSpaceId, HwQueueId};
use bellhop_protocol::control::kernel::KernelCaps;
use bellhop_protocol::event::FaultReason;
use bellhop_worker::owner::{Event, WorkerError};
pub use own::Flight;
use own::{Own, lost};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an engine waits for kernels before it looks for other work.
const SLICE: Duration = Duration::from_micros(100);
/// As `SLICE`, at most, for kernels that have run for long while no other queue had work: each look costs the kernels
/// what the engine's thread and its cache lines take.
const LONG_SLICE: Duration = Duration::from_micros(400);
/// The part of the time that kernels have run for which the engine waits without another look.
const PART: u32 = 8;
/// Batches that are kept for their memory.
const KEPT: usize = 4;

/// An address space's worker on this engine.
#[derive(Debug)]
enum Slot {
    /// The manager was asked for it, for this queue.
    Asked(HwQueueId),
    /// The manager has none, for this reason. The queue that it was asked for is told.
    Failed(HwQueueId, Failure),
    /// It is here.
    Here(Box<Own>),
}

/// Whether a worker executes a batch.
#[derive(Debug)]
pub enum Start {
    /// It does.
    Begun(Flight),
    /// The manager prepares it, or it executes another queue's batch. The engine's attention is raised when that ends.
    Waits,
}

/// Whether a batch was executed.
#[derive(Debug)]
pub enum Wait {
    /// It was.
    Done,
    /// Not yet.
    GoesOn(Flight),
}

/// An engine's workers.
#[derive(Debug)]
pub struct Workers {
    desk: Arc<Desk>,
    engine: u32,
    slots: HashMap<AddressSpaceId, Slot>,
    /// The address space whose worker executes kernels and is not stopped: at most one.
    running: Option<AddressSpaceId>,
    /// Killed workers that may still exist.
    dying: Vec<Arc<Grave>>,
    /// Whether the engine did not pass a ticket because of them.
    owes_ticket: bool,
    kept: Vec<Batch>,
}

impl Workers {
    /// No workers.
    pub fn new(desk: Arc<Desk>, engine: u32) -> Self {
        Self {
            desk,
            engine,
            slots: HashMap::new(),
            running: None,
            dying: Vec::new(),
            owes_ticket: false,
            kept: Vec::new(),
        }
    }

    /// What kernels can be.
    pub fn caps(&self) -> &KernelCaps {
        &self.desk.caps
    }

    /// The kernels of an address space.
    pub fn kernels(&self, space: AddressSpaceId) -> Option<Arc<KernelSpace>> {
        self.desk.space(space)
    }

    /// An empty batch.
    pub fn batch(&mut self) -> Batch {
        self.kept.pop().unwrap_or_default()
    }

    /// Keeps the memory of a batch that was executed.
    pub fn keep(&mut self, mut batch: Batch) {
        if self.kept.len() < KEPT {
            batch.clear();
            self.kept.push(batch);
        }
    }

    /// Makes the worker of a queue's address space execute a batch.
    ///
    /// # Errors
    /// `KERNEL_FAILED` or `KERNEL_LOST`.
    pub fn begin(
        &mut self,
        queue: &Arc<HwQueue>,
        mmu: &Mmu<'_>,
        batch: &Batch,
    ) -> Result<Start, Violation> {
        let number = batch.number(0);
        let gone = Violation::new(FaultReason::KERNEL_LOST, number.into());
        let space = batch.space.as_ref().ok_or(gone)?;
        self.reap();
        let mut held = None;
        match self.slots.entry(space.id) {
            Entry::Vacant(vacant) => {
                vacant.insert(Slot::Asked(queue.id));
            }
            Entry::Occupied(mut occupied) => match occupied.get_mut() {
                Slot::Asked(_) => return Ok(Start::Waits),
                // For another queue, the next try may succeed.
                Slot::Failed(asked, _) if *asked != queue.id => {
                    occupied.insert(Slot::Asked(queue.id));
                }
                Slot::Failed(_, failure) => {
                    let reason = match failure {
                        Failure::Refused => FaultReason::KERNEL_FAILED,
                        Failure::Lost => FaultReason::KERNEL_LOST,
                    };
                    occupied.remove();
                    return Err(Violation::new(reason, number.into()));
                }
                Slot::Here(own) if own.is_busy() => {
                    own.waited_for = true;
                    return Ok(Start::Waits);
                }
                Slot::Here(own) => {
                    // Each is asked for, to note its use.
                    let mut is_loaded = true;
                    batch.modules().for_each(|module| is_loaded &= own.held.has(module));
                    if is_loaded {
                        if let Some(flight) = self.dispatch(space.id, queue, mmu, batch)? {
                            return Ok(Start::Begun(flight));
                        }
                        // It ended while it was idle, which is nobody's fault.
                        self.kill(space.id);
                        self.slots.insert(space.id, Slot::Asked(queue.id));
                    } else if own.forget_memory(&self.desk.window).is_err() {
                        self.kill(space.id);
                        self.slots.insert(space.id, Slot::Asked(queue.id));
                    } else if let Slot::Here(own) = occupied.insert(Slot::Asked(queue.id)) {
                        held = Some(own.held);
                    }
                }
            },
        }
        let mut modules: Vec<_> = batch.modules().map(Arc::clone).collect();
        modules.sort_unstable_by_key(|module| module.number);
        modules.dedup_by_key(|module| module.number);
        let (engine, space) = (self.engine, Arc::clone(space));
        self.desk.order(Order::Prepare(Request { engine, space, modules, held }));
        Ok(Start::Waits)
    }

    /// Sends a batch to an idle worker. Returns `None` if the worker has ended.
    fn dispatch(
        &mut self,
        space: AddressSpaceId,
        queue: &Arc<HwQueue>,
        mmu: &Mmu<'_>,
        batch: &Batch,
    ) -> Result<Option<Flight>, Violation> {
        self.make_way(queue.id);
        let Some(Slot::Here(own)) = self.slots.get_mut(&space) else { return Ok(None) };
        let window = &self.desk.window;
        let ready =
            own.resume().and_then(|()| own.catch_up(&queue.partition, mmu.flushes(), window));
        if ready.is_err() {
            return Ok(None);
        }
        if own.held.worker.needs_memory_first() {
            for range in batch.descriptors() {
                own.map(*range, mmu, window, batch.number(0))?;
            }
        }
        match own.held.worker.dispatch(&batch.to_dispatch()) {
            Ok(()) => {
                self.running = Some(space);
                Ok(Some(own.take_off(queue)))
            }
            Err(WorkerError::Impossible(why)) => {
                Err(lost(&WorkerError::Impossible(why), batch.number(0)))
            }
            Err(_) => Ok(None),
        }
    }

    /// Waits for a slice of time until a batch is executed, and serves its page faults. The slice of a batch that has
    /// the engine alone grows with its time.
    ///
    /// # Errors
    /// What ended the batch. Its worker is killed.
    pub fn wait(
        &mut self,
        flight: Flight,
        mmu: &Mmu<'_>,
        batch: &Batch,
        is_alone: bool,
    ) -> Result<Wait, Violation> {
        let lost = Violation::new(FaultReason::KERNEL_LOST, batch.number(0).into());
        let space = batch.space.as_ref().map(|space| space.id).ok_or(lost)?;
        if self.running != Some(space) {
            self.stop_running();
        }
        let waited = match self.slots.get_mut(&space) {
            Some(Slot::Here(own)) => {
                self.running = Some(space);
                let slice = if is_alone { own.flown_for() / PART } else { SLICE };
                serve(own, mmu, batch, &self.desk, slice.clamp(SLICE, LONG_SLICE))
            }
            _ => Err(lost),
        };
        match waited {
            Ok(false) => Ok(Wait::GoesOn(flight)),
            Ok(true) => {
                drop(flight);
                self.land(space);
                Ok(Wait::Done)
            }
            Err(violation) => {
                self.kill(space);
                Err(violation)
            }
        }
    }

    /// A worker has executed its batch.
    fn land(&mut self, space: AddressSpaceId) {
        self.running = None;
        let Some(Slot::Here(own)) = self.slots.get_mut(&space) else { return };
        own.queue = None;
        own.held.last_use.stamp(self.desk.chip.now());
        if std::mem::take(&mut own.waited_for) {
            // The queues that wait are looked at after this turn.
            self.desk.call(self.engine);
        } else if own.recalled || self.desk.is_waiting() || own.held.space.guest.is_waiting() {
            self.kill(space);
        }
    }

    /// Kills a worker. The manager buries it.
    fn kill(&mut self, space: AddressSpaceId) {
        self.running.take_if(|running| *running == space);
        let Some(Slot::Here(own)) = self.slots.remove(&space) else { return };
        let mut worker = own.held.worker;
        worker.kill();
        let grave = Arc::new(Grave::default());
        self.dying.push(Arc::clone(&grave));
        self.desk.order(Order::Bury { engine: self.engine, space, worker, grave });
    }

    /// Kills all workers that `which` chooses.
    fn kill_all(&mut self, which: impl Fn(&Own) -> bool) {
        let chosen = self.slots.iter().filter_map(|(space, slot)| match slot {
            Slot::Here(own) if which(own) => Some(*space),
            _ => None,
        });
        for space in chosen.collect::<Vec<_>>() {
            self.kill(space);
        }
    }

    /// Kills the workers whose queues no longer wait for them.
    fn reap(&mut self) {
        self.kill_all(Own::is_abandoned);
    }

    /// Another queue has a turn: stops the worker that executes kernels, unless they are this queue's.
    pub fn make_way(&mut self, queue: HwQueueId) {
        let Some(running) = self.running else { return };
        let Some(Slot::Here(own)) = self.slots.get(&running) else { return };
        if own.queue.as_ref().is_none_or(|own| own.id != queue) {
            self.stop_running();
        }
    }

    fn stop_running(&mut self) {
        let Some(running) = self.running.take() else { return };
        if let Some(Slot::Here(own)) = self.slots.get_mut(&running)
            && own.stop().is_err()
        {
            self.kill(running);
        }
    }

    /// Between two turns: kills workers whose queues are gone, and stops the worker of a queue that may not run.
    pub fn settle(&mut self) {
        self.reap();
        let mut ended = Vec::new();
        for (space, slot) in &mut self.slots {
            let Slot::Here(own) = slot else { continue };
            if own.queue.as_ref().is_none_or(|queue| queue.membership.may_run()) {
                continue;
            }
            self.running.take_if(|running| running == space);
            if own.halt().is_err() {
                ended.push(*space);
            }
        }
        for space in ended {
            self.kill(space);
        }
    }

    /// Takes notes of the manager's.
    pub fn take_notes(&mut self) {
        while let Some(note) = self.desk.take_note(self.engine) {
            match note {
                Note::Ready(held) => {
                    let space = held.space.id;
                    self.slots.insert(space, Slot::Here(Box::new(Own::new(held))));
                }
                Note::Failed(space, failure) => {
                    if let Some(slot) = self.slots.get_mut(&space)
                        && let Slot::Asked(queue) = *slot
                    {
                        *slot = Slot::Failed(queue, failure);
                    }
                }
                Note::GiveUp(space) => {
                    let Some(Slot::Here(own)) = self.slots.get_mut(&space) else { continue };
                    own.recalled = true;
                    if !own.is_busy() {
                        self.kill(space);
                    }
                }
            }
        }
        self.kill_all(|own| own.held.space.has_ended());
        self.forget_failures();
    }

    /// Forgets failures of address spaces that are destroyed.
    fn forget_failures(&mut self) {
        let desk = &self.desk;
        self.slots.retain(|space, slot| {
            !matches!(slot, Slot::Failed(..)) || desk.space(*space).is_some()
        });
    }

    /// Between two turns: makes workers forget memory that their guests no longer have. Returns whether no killed
    /// worker can reach such memory any more; if not, the engine's attention is raised when none can.
    ///
    /// Charges each guest with the time that its workers take for that: a worker that is slow on purpose costs its guest
    /// turns.
    pub fn forget_memory(&mut self, mut charge: impl FnMut(&Partition, Duration)) -> bool {
        self.settle();
        self.kill_all(|own| own.held.space.has_ended());
        let mut stuck = Vec::new();
        for (space, slot) in &mut self.slots {
            let Slot::Here(own) = slot else { continue };
            if !own.is_outdated() {
                continue;
            }
            let start = Instant::now();
            let forgot = own.forget_memory(&self.desk.window);
            if let Some(guest) = own.guest() {
                charge(guest, start.elapsed());
            }
            if let Err(error) = forgot {
                let guest = own.held.space.guest.id.0;
                tracing::warn!(guest, %error, "a worker is killed");
                stuck.push(*space);
            }
        }
        for space in stuck {
            self.kill(space);
        }
        self.dying.retain(|grave| !grave.is_filled());
        self.owes_ticket = !self.dying.is_empty();
        !self.owes_ticket
    }

    /// Whether there is a worker, alive or dying.
    pub fn has_any(&self) -> bool {
        !self.slots.is_empty() || !self.dying.is_empty()
    }

    /// Whether [`Self::forget_memory`] returned false last.
    pub fn owes_ticket(&self) -> bool {
        self.owes_ticket
    }

    /// Makes workers ask for all memory anew, so that it counts as accessed.
    pub fn look_again(&mut self) {
        let mut stuck = Vec::new();
        for (space, slot) in &mut self.slots {
            if let Slot::Here(own) = slot
                && own.forget_memory(&self.desk.window).is_err()
            {
                stuck.push(*space);
            }
        }
        for space in stuck {
            self.kill(space);
        }
    }
}

/// Serves a worker for a slice of time. Returns whether its batch was executed.
fn serve(
    own: &mut Own,
    mmu: &Mmu<'_>,
    batch: &Batch,
    desk: &Desk,
    slice: Duration,
) -> Result<bool, Violation> {
    let number = batch.number(0);
    let failed = |error: WorkerError| lost(&error, number);
    let Some(partition) = own.queue.as_ref().map(|queue| Arc::clone(&queue.partition)) else {
        return Err(Violation::new(FaultReason::KERNEL_LOST, number.into()));
    };
    own.resume().map_err(failed)?;
    let end = Instant::now() + slice;
    while let Some(event) = own.next(end).map_err(failed)? {
        match event {
            Event::Done => return Ok(true),
            Event::Fault(fault) => {
                own.catch_up(&partition, mmu.flushes(), &desk.window).map_err(failed)?;
                own.answer(fault, mmu, &desk.window, number)?;
            }
            Event::NotDone(index, why) => {
                let number = batch.number(index);
                tracing::debug!(number, why, "a kernel did not run");
                return Err(Violation::new(FaultReason::KERNEL_FAILED, number.into()));
            }
            Event::Wild(address, _) => {
                let address = address.unwrap_or(0);
                return Err(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, address));
            }
            _ => return Err(Violation::new(FaultReason::KERNEL_LOST, number.into())),
        }
        if Instant::now() >= end {
            break;
        }
    }
    Ok(false)
}
