// SPDX-License-Identifier: MIT OR Apache-2.0

//! The workers that execute packets for an engine: one for each tenant, which is an address space with kernels, or a
//! session.
//!
//! An engine executes the packets of one queue at a time: when another queue has a turn that may take long, the worker
//! stops, and goes on at the next turn of its own queue. So weights, quanta and time-outs hold within a packet.
//!
//! The engine waits for no process to start, to compile or to end: the manager does. The engine waits for a worker to
//! forget memory that the guest no longer has, and kills it if that takes long.

mod batch;
mod own;

use crate::gpu::memory::mmu::{Access, Mmu};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::workers::desk::{Desk, Failure, Grave, Note, Order, Request};
use crate::gpu::workers::held::Held;
use crate::gpu::workers::kernels::module::Module;
use crate::gpu::workers::kernels::table::KernelSpace;
use crate::gpu::workers::tenant::{Tenant, TenantId};
use crate::gpu::workers::video::VideoSession;
pub use batch::{Batch, Item};
use bellhop_host_kmd::hardware::{AddressSpaceId, HwQueueId};
use bellhop_protocol::control::kernel::KernelCaps;
use bellhop_protocol::event::FaultReason;
use bellhop_worker::owner::{Event, WorkerError};
use own::Own;
pub use own::{Flight, Lost};
use std::collections::HashMap;
use std::ops::Range;
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

/// A tenant's worker on this engine.
#[derive(Debug)]
enum Slot {
    /// The manager was asked for it, for this queue.
    Asked(Arc<Tenant>, HwQueueId),
    /// The manager has none, for this reason. The queue that it was asked for is told.
    Failed(Arc<Tenant>, HwQueueId, Failure),
    /// It is here.
    Here(Box<Own>),
}

/// Whether a tenant has a worker for a queue.
enum Admission {
    /// It has one, which executes nothing.
    Idle,
    /// It has none, and none was asked for.
    Missing,
    /// It is being prepared, or executes another queue's packets.
    Waits,
    /// There is none.
    Failed(Failure),
}

/// A role's task of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// What to do, in the role's words.
    pub bytes: &'a [u8],
    /// The memory that it reaches, looked up before it begins, so that the guest learns of a fault before anything is done:
    /// address, length, access. The worker has it mapped as it touches it.
    pub ranges: &'a [(u64, u64, Access)],
}

/// What a worker answered.
#[derive(Debug)]
enum Answer {
    /// It executed a batch.
    Batch,
    /// What came of a task, in the role's words.
    Task(Box<[u8]>),
}

/// Whether a worker executes a batch or a task.
#[derive(Debug)]
pub enum Start {
    /// It does.
    Begun(Flight),
    /// The manager prepares it, or it executes another queue's. The engine's attention is raised when that ends.
    Waits,
}

/// Whether a batch or a task was executed.
#[derive(Debug)]
pub enum Wait<T> {
    /// It was, and this came of it.
    Done(T),
    /// Not yet.
    GoesOn(Flight),
}

/// An engine's workers.
#[derive(Debug)]
pub struct Workers {
    desk: Arc<Desk>,
    engine: u32,
    slots: HashMap<TenantId, Slot>,
    /// The tenant whose worker executes something and is not stopped: at most one.
    running: Option<TenantId>,
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

    /// A video session of an address space.
    pub fn session(&self, space: AddressSpaceId, number: u32) -> Option<Arc<VideoSession>> {
        self.desk.session(space, number)
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
        let fault = |reason| Violation::new(reason, number.into());
        let space = batch.space.as_ref().ok_or(fault(FaultReason::KERNEL_LOST))?;
        let tenant = &space.tenant;
        let mut held = None;
        match self.admit(tenant.id, queue.id) {
            Admission::Waits => return Ok(Start::Waits),
            Admission::Failed(Failure::Refused) => return Err(fault(FaultReason::KERNEL_FAILED)),
            Admission::Failed(Failure::Lost) => return Err(fault(FaultReason::KERNEL_LOST)),
            Admission::Missing => {}
            Admission::Idle => {
                if let Some(flight) = self.dispatch(tenant.id, queue, mmu, batch)? {
                    return Ok(Start::Begun(flight));
                }
                // It lacks a kernel, or ended while it was idle, which is nobody's fault.
                held = self.give_back(tenant.id);
            }
        }
        let mut modules: Vec<_> = batch.modules().map(Arc::clone).collect();
        modules.sort_unstable_by_key(|module| module.number);
        modules.dedup_by_key(|module| module.number);
        self.ask(tenant, queue.id, modules, held);
        Ok(Start::Waits)
    }

    /// Makes a tenant's worker do a task.
    ///
    /// # Errors
    /// If it has none, or the worker has ended: a role that remembers has lost its tenant then. If the guest lacks memory
    /// that the task reaches, the worker is not told of it, and loses nothing.
    pub fn begin_task(
        &mut self,
        tenant: &Arc<Tenant>,
        queue: &Arc<HwQueue>,
        mmu: &Mmu<'_>,
        task: Task<'_>,
    ) -> Result<Start, Lost> {
        match self.admit(tenant.id, queue.id) {
            // Its worker was killed a moment ago, with another queue of the process.
            _ if tenant.is_lost() => return Err(Lost::Gone),
            Admission::Waits => return Ok(Start::Waits),
            Admission::Failed(_) => {
                return Err(WorkerError::Impossible("there is no worker for it").into());
            }
            Admission::Missing => {
                self.ask(tenant, queue.id, Vec::new(), None);
                return Ok(Start::Waits);
            }
            Admission::Idle => {}
        }
        self.make_way(queue.id);
        let Some(Slot::Here(own)) = self.slots.get_mut(&tenant.id) else { return Ok(Start::Waits) };
        match send(own, &self.desk, queue, mmu, task) {
            Ok(()) => {
                self.running = Some(tenant.id);
                Ok(Start::Begun(own.take_off(queue)))
            }
            Err(lost @ Lost::Fault(_)) => Err(lost),
            Err(lost) => {
                self.kill(tenant.id);
                Err(lost)
            }
        }
    }

    /// Whether a tenant's worker can execute something of a queue's.
    fn admit(&mut self, tenant: TenantId, queue: HwQueueId) -> Admission {
        self.reap();
        match self.slots.get_mut(&tenant) {
            None => Admission::Missing,
            Some(Slot::Asked(..)) => Admission::Waits,
            Some(Slot::Failed(_, asked, failure)) => {
                let (is_own, failure) = (*asked == queue, *failure);
                self.slots.remove(&tenant);
                // For another queue, the next try may succeed.
                if is_own { Admission::Failed(failure) } else { Admission::Missing }
            }
            Some(Slot::Here(own)) if own.is_busy() => {
                own.waited_for = true;
                Admission::Waits
            }
            Some(Slot::Here(_)) => Admission::Idle,
        }
    }

    /// Asks the manager for a worker. The engine's attention is raised when it has an answer.
    fn ask(
        &mut self,
        tenant: &Arc<Tenant>,
        queue: HwQueueId,
        modules: Vec<Arc<Module>>,
        held: Option<Box<Held>>,
    ) {
        self.slots.insert(tenant.id, Slot::Asked(Arc::clone(tenant), queue));
        let (engine, tenant) = (self.engine, Arc::clone(tenant));
        self.desk.order(Order::Prepare(Request { engine, tenant, modules, held }));
    }

    /// Takes an idle worker, in which no memory is mapped then. `None` if it has ended.
    fn give_back(&mut self, tenant: TenantId) -> Option<Box<Held>> {
        let Some(Slot::Here(own)) = self.slots.get_mut(&tenant) else { return None };
        if own.forget_memory(&self.desk.window).is_err() {
            self.kill(tenant);
            return None;
        }
        match self.slots.remove(&tenant) {
            Some(Slot::Here(own)) => Some(own.held),
            _ => None,
        }
    }

    /// Sends a batch to an idle worker. Returns `None` if the worker lacks a kernel, or has ended.
    fn dispatch(
        &mut self,
        tenant: TenantId,
        queue: &Arc<HwQueue>,
        mmu: &Mmu<'_>,
        batch: &Batch,
    ) -> Result<Option<Flight>, Violation> {
        let Some(Slot::Here(own)) = self.slots.get_mut(&tenant) else { return Ok(None) };
        // Each is asked for, to note its use.
        let mut is_loaded = true;
        batch.modules().for_each(|module| is_loaded &= own.held.has(module));
        if !is_loaded {
            return Ok(None);
        }
        self.make_way(queue.id);
        let Some(Slot::Here(own)) = self.slots.get_mut(&tenant) else { return Ok(None) };
        match send_batch(own, &self.desk, queue, mmu, batch) {
            Ok(()) => {
                self.running = Some(tenant);
                Ok(Some(own.take_off(queue)))
            }
            Err(Lost::Worker(error)) if !matches!(error, WorkerError::Impossible(_)) => {
                tracing::debug!(%error, "an idle worker is replaced");
                self.kill(tenant);
                Ok(None)
            }
            Err(lost) => Err(lost.of_kernels(|index| batch.number(index))),
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
    ) -> Result<Wait<()>, Violation> {
        let number = |index| batch.number(index);
        let lost = Violation::new(FaultReason::KERNEL_LOST, number(0).into());
        let tenant = batch.space.as_ref().map(|space| space.tenant.id).ok_or(lost)?;
        match self.await_answer(flight, tenant, mmu, is_alone) {
            Ok(Wait::GoesOn(flight)) => Ok(Wait::GoesOn(flight)),
            Ok(Wait::Done(Answer::Batch)) => Ok(Wait::Done(())),
            Ok(Wait::Done(Answer::Task(_))) => Err(lost),
            Err(lost) => Err(lost.of_kernels(number)),
        }
    }

    /// Waits for a slice of time until a task is done, as [`Self::wait`] does for a batch. Returns the answer, in the
    /// role's words.
    ///
    /// # Errors
    /// What ended the task. The worker is killed.
    pub fn wait_for_task(
        &mut self,
        flight: Flight,
        tenant: TenantId,
        mmu: &Mmu<'_>,
        is_alone: bool,
    ) -> Result<Wait<Box<[u8]>>, Lost> {
        match self.await_answer(flight, tenant, mmu, is_alone)? {
            Wait::GoesOn(flight) => Ok(Wait::GoesOn(flight)),
            Wait::Done(Answer::Task(answer)) => Ok(Wait::Done(answer)),
            Wait::Done(Answer::Batch) => Err(Lost::Gone),
        }
    }

    fn await_answer(
        &mut self,
        flight: Flight,
        tenant: TenantId,
        mmu: &Mmu<'_>,
        is_alone: bool,
    ) -> Result<Wait<Answer>, Lost> {
        if self.running != Some(tenant) {
            self.stop_running();
        }
        let waited = match self.slots.get_mut(&tenant) {
            Some(Slot::Here(own)) => {
                self.running = Some(tenant);
                let slice = if is_alone { own.flown_for() / PART } else { SLICE };
                serve(own, mmu, &self.desk, slice.clamp(SLICE, LONG_SLICE))
            }
            _ => Err(Lost::Gone),
        };
        match waited {
            Ok(None) => Ok(Wait::GoesOn(flight)),
            Ok(Some(answer)) => {
                drop(flight);
                self.land(tenant);
                Ok(Wait::Done(answer))
            }
            Err(lost) => {
                self.kill(tenant);
                Err(lost)
            }
        }
    }

    /// A worker has done what its queue waited for.
    fn land(&mut self, tenant: TenantId) {
        self.running = None;
        let Some(Slot::Here(own)) = self.slots.get_mut(&tenant) else { return };
        own.queue = None;
        own.held.last_use.stamp(self.desk.chip.now());
        let (is_waited_for, is_recalled) = (std::mem::take(&mut own.waited_for), own.recalled);
        if is_recalled {
            // Its process has another one when its turn comes.
            self.kill(tenant);
        }
        if is_waited_for {
            // The queues that wait are looked at after this turn.
            self.desk.call(self.engine);
        }
    }

    /// Kills a worker. The manager buries it.
    fn kill(&mut self, tenant: TenantId) {
        self.running.take_if(|running| *running == tenant);
        let Some(Slot::Here(own)) = self.slots.remove(&tenant) else { return };
        if tenant.role.remembers() {
            own.held.tenant.lose();
        }
        let mut worker = own.held.worker;
        worker.kill();
        let grave = Arc::new(Grave::default());
        self.dying.push(Arc::clone(&grave));
        self.desk.order(Order::Bury { engine: self.engine, tenant, worker, grave });
    }

    /// Kills all workers that `which` chooses.
    fn kill_all(&mut self, which: impl Fn(&Own) -> bool) {
        let chosen = self.slots.iter().filter_map(|(tenant, slot)| match slot {
            Slot::Here(own) if which(own) => Some(*tenant),
            _ => None,
        });
        for tenant in chosen.collect::<Vec<_>>() {
            self.kill(tenant);
        }
    }

    /// Kills the workers whose queues no longer wait for them.
    fn reap(&mut self) {
        self.kill_all(Own::is_abandoned);
    }

    /// Another queue has a turn: stops the worker that executes something, unless it is this queue's.
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
        for (tenant, slot) in &mut self.slots {
            let Slot::Here(own) = slot else { continue };
            if own.queue.as_ref().is_none_or(|queue| queue.membership.may_run()) {
                continue;
            }
            self.running.take_if(|running| running == tenant);
            if own.halt().is_err() {
                ended.push(*tenant);
            }
        }
        for tenant in ended {
            self.kill(tenant);
        }
    }

    /// Takes notes of the manager's.
    pub fn take_notes(&mut self) {
        while let Some(note) = self.desk.take_note(self.engine) {
            match note {
                Note::Ready(held) => {
                    let tenant = held.tenant.id;
                    self.slots.insert(tenant, Slot::Here(Box::new(Own::new(held))));
                }
                Note::Failed(tenant, failure) => {
                    if let Some(slot) = self.slots.get_mut(&tenant)
                        && let Slot::Asked(tenant, queue) = slot
                    {
                        *slot = Slot::Failed(Arc::clone(tenant), *queue, failure);
                    }
                }
                Note::GiveUp(tenant) => {
                    let Some(Slot::Here(own)) = self.slots.get_mut(&tenant) else { continue };
                    own.recalled = true;
                    if !own.is_busy() {
                        self.kill(tenant);
                    }
                }
            }
        }
        self.kill_all(|own| own.held.tenant.has_ended());
        self.forget_failures();
    }

    /// Forgets failures of tenants that are destroyed.
    fn forget_failures(&mut self) {
        self.slots.retain(|_, slot| match slot {
            Slot::Failed(tenant, ..) => !tenant.has_ended(),
            _ => true,
        });
    }

    /// Between two turns: makes workers forget memory that their guests no longer have. Returns whether no killed
    /// worker can reach such memory any more; if not, the engine's attention is raised when none can.
    ///
    /// Charges each guest with the time that its workers take for that: a worker that is slow on purpose costs its guest
    /// turns.
    pub fn forget_memory(&mut self, mut charge: impl FnMut(&Partition, Duration)) -> bool {
        self.settle();
        self.kill_all(|own| own.held.tenant.has_ended());
        let mut stuck = Vec::new();
        for (tenant, slot) in &mut self.slots {
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
                let guest = own.held.tenant.guest.id.0;
                tracing::warn!(guest, %error, "a worker is killed");
                stuck.push(*tenant);
            }
        }
        for tenant in stuck {
            self.kill(tenant);
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
        for (tenant, slot) in &mut self.slots {
            if let Slot::Here(own) = slot
                && own.forget_memory(&self.desk.window).is_err()
            {
                stuck.push(*tenant);
            }
        }
        for tenant in stuck {
            self.kill(tenant);
        }
    }
}

/// Prepares a worker for a queue's work: it runs, and has nothing mapped that the guest flushed.
fn ready(own: &mut Own, desk: &Desk, queue: &HwQueue, mmu: &Mmu<'_>) -> Result<(), WorkerError> {
    own.resume()?;
    own.catch_up(&queue.partition, mmu.flushes(), &desk.window)
}

/// Sends a batch to an idle worker.
fn send_batch(
    own: &mut Own,
    desk: &Desk,
    queue: &HwQueue,
    mmu: &Mmu<'_>,
    batch: &Batch,
) -> Result<(), Lost> {
    ready(own, desk, queue, mmu)?;
    if own.held.worker.needs_memory_first() {
        for range in batch.descriptors() {
            // A read-only page is mapped as such, and the device's store to it fails.
            own.map(*range, mmu, &desk.window)?;
        }
    }
    Ok(own.held.worker.dispatch(&batch.to_dispatch())?)
}

/// Sends a task to an idle worker.
fn send(
    own: &mut Own,
    desk: &Desk,
    queue: &HwQueue,
    mmu: &Mmu<'_>,
    task: Task<'_>,
) -> Result<(), Lost> {
    ready(own, desk, queue, mmu)?;
    for (address, length, access) in task.ranges {
        look_up([*address, *length], *access, mmu, &desk.window)?;
    }
    Ok(own.held.worker.task(task.bytes)?)
}

/// Looks up a range that a worker is about to reach.
fn look_up(
    [start, length]: [u64; 2],
    access: Access,
    mmu: &Mmu<'_>,
    window: &Range<u64>,
) -> Result<(), Violation> {
    let end = start.saturating_add(length);
    let mut at = start;
    while at < end {
        let extent = mmu.extent(at, access, window)?;
        // An extent contains its address, so this advances.
        at = extent.address.saturating_add(extent.length).max(at.saturating_add(1));
    }
    Ok(())
}

/// Serves a worker for a slice of time. Returns its answer, if it has one.
fn serve(
    own: &mut Own,
    mmu: &Mmu<'_>,
    desk: &Desk,
    slice: Duration,
) -> Result<Option<Answer>, Lost> {
    let Some(partition) = own.queue.as_ref().map(|queue| Arc::clone(&queue.partition)) else {
        return Err(Lost::Gone);
    };
    own.resume()?;
    let end = Instant::now() + slice;
    while let Some(event) = own.next(end)? {
        match event {
            Event::Done => return Ok(Some(Answer::Batch)),
            Event::Answer(answer) => return Ok(Some(Answer::Task(answer))),
            Event::Fault(fault) => {
                own.catch_up(&partition, mmu.flushes(), &desk.window)?;
                own.answer(fault, mmu, &desk.window)?;
            }
            Event::NotDone(index, why) => {
                tracing::debug!(index, why, "a kernel did not run");
                return Err(Lost::NotDone(index));
            }
            Event::Wild(address, _) => {
                let address = address.unwrap_or(0);
                return Err(Violation::new(FaultReason::ADDRESS_OUT_OF_RANGE, address).into());
            }
            _ => return Err(Lost::Gone),
        }
        if Instant::now() >= end {
            break;
        }
    }
    Ok(None)
}
