// SPDX-License-Identifier: MIT OR Apache-2.0

//! The workers that execute packets for an engine: one for each tenant, which is an address space with kernels, or a
//! session.
//!
//! An engine executes the packets of one queue at a time: when another queue has a turn that may take long, the worker
//! stops, and goes on at the next turn of its own queue. So weights, quanta and time-outs hold within a packet.
//!
//! The engine waits for no process to start, to compile or to end: the manager does. Nor does it wait until a worker has
//! stopped, or has forgotten memory that the guest no longer has. It looks for a moment, then again now and then, and kills a
//! worker that takes long. Meanwhile tickets pass for all guests but that worker's.

mod ahead;
mod batch;
mod engine_worker;
mod patience;
mod slots;
mod tickets;
mod turn;

use super::others::Others;
use crate::gpu::memory::mmu::{Access, Mmu};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::chip::EnginePort;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::workers::kernels::module::Module;
use crate::gpu::workers::kernels::table::KernelSpace;
use crate::gpu::workers::mailboxes::{Failure, Mailboxes, Note, Order, Request};
use crate::gpu::workers::tenant::{Tenant, TenantId};
use crate::gpu::workers::tenant_worker::TenantWorker;
use crate::gpu::workers::video::VideoSession;
pub use batch::{Batch, Item};
use bellhop_host_kmd::hardware::{AddressSpaceId, HwQueueId, Ticket};
use bellhop_protocol::control::kernel::KernelCaps;
use bellhop_protocol::event::FaultReason;
use bellhop_worker::messages::commands::MOST_PIPELINES;
use bellhop_worker::owner::WorkerError;
use engine_worker::EngineWorker;
pub use engine_worker::{InFlight, Lost};
use slots::{Admission, Slots};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickets::Tickets;
pub use turn::Task;
use turn::{Answer, LOOK, look_up, send_batch, send_task, serve};

/// Batches that are kept for their memory.
const KEPT: usize = 4;

/// Whether an idle worker executes a batch.
enum Dispatched {
    /// It does.
    Begun(InFlight),
    /// It has yet to forget memory.
    Waits,
    /// It lacks a kernel.
    Lacks,
    /// It ended while it was idle, which is nobody's fault.
    Ended,
}

/// Whether a worker executes a batch or a task.
#[derive(Debug)]
pub enum Start {
    /// It does.
    Begun(InFlight),
    /// The manager prepares it, it executes another queue's, or has yet to forget memory. The engine's attention is raised
    /// when that ends.
    Waits,
}

/// Whether a batch or a task was executed.
#[derive(Debug)]
pub enum Wait<T> {
    /// It was, and this came of it.
    Done(T),
    /// Not yet.
    GoesOn(InFlight),
}

/// An engine's workers.
#[derive(Debug)]
pub struct Workers {
    mailboxes: Arc<Mailboxes>,
    engine: u32,
    slots: Slots,
    /// The tenant whose worker executes something and is not stopped: at most one.
    running: Option<TenantId>,
    tickets: Tickets,
    kept: Vec<Batch>,
    /// For how long the engine has waited for workers since somebody asked.
    waited: Duration,
}

impl Workers {
    /// No workers.
    pub fn new(mailboxes: Arc<Mailboxes>, engine: u32) -> Self {
        Self {
            mailboxes,
            engine,
            slots: Slots::default(),
            running: None,
            tickets: Tickets::default(),
            kept: Vec::new(),
            waited: Duration::ZERO,
        }
    }

    /// For how long the engine has waited for workers since the last call.
    pub fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Does something that may wait for a worker.
    fn waiting<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> R {
        let start = Instant::now();
        let result = act(self);
        self.waited += start.elapsed();
        result
    }

    /// What kernels can be.
    pub fn caps(&self) -> &KernelCaps {
        &self.mailboxes.caps
    }

    /// The kernels of an address space.
    pub fn kernels(&self, space: AddressSpaceId) -> Option<Arc<KernelSpace>> {
        self.mailboxes.space(space)
    }

    /// A video session of an address space.
    pub fn session(&self, space: AddressSpaceId, number: u32) -> Option<Arc<VideoSession>> {
        self.mailboxes.session(space, number)
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
            Admission::Idle => match self
                .waiting(|workers| workers.dispatch(tenant.id, queue, mmu, batch))?
            {
                Dispatched::Begun(in_flight) => return Ok(Start::Begun(in_flight)),
                Dispatched::Waits => return Ok(Start::Waits),
                Dispatched::Ended => {}
                Dispatched::Lacks => match self.waiting(|workers| workers.give_back(tenant.id)) {
                    Ok(given) => held = given,
                    Err(Later) => return Ok(Start::Waits),
                },
            },
        }
        let mut modules: Vec<_> = batch.modules().map(Arc::clone).collect();
        modules.sort_unstable_by_key(|module| module.number);
        modules.dedup_by_key(|module| module.number);
        self.ask(tenant, queue.id, modules, 0, held);
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
                self.ask(tenant, queue.id, Vec::new(), 0, None);
                return Ok(Start::Waits);
            }
            Admission::Idle => {}
        }
        self.make_way(queue.id);
        let Some(own) = self.slots.get_mut(tenant.id) else { return Ok(Start::Waits) };
        let start = Instant::now();
        let sent = send_task(own, &self.mailboxes, queue, mmu, (task, self.tickets.passed()));
        self.waited += start.elapsed();
        match sent {
            Ok(false) => Ok(self.wait_for(tenant.id)),
            Ok(true) => {
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

    /// Tells a tenant's worker of the task that follows the one that it executes, both the queue's: it begins that by itself when the
    /// other is wholly done. `None` if it takes none now, or the guest lacks the task's memory.
    ///
    /// # Errors
    /// If the worker has ended.
    pub fn follow(
        &mut self,
        tenant: TenantId,
        queue: &HwQueue,
        mmu: &Mmu<'_>,
        task: Task<'_>,
    ) -> Result<Option<InFlight>, Lost> {
        let Some(own) = self.slots.get_mut(tenant) else { return Ok(None) };
        let has = |(address, length, access): &(u64, u64, Access)| {
            look_up([*address, *length], *access, mmu, &self.mailboxes.window).is_ok()
        };
        if !task.ranges.iter().all(has) {
            return Ok(None);
        }
        Ok(own.follow(queue, task.bytes)?)
    }

    /// Has the manager see to it that a tenant's idle worker makes the pipelines that a stream lacked, which takes longer than
    /// an engine's work may. The engine's attention is raised when that is over. Returns false if the manager has yet to be
    /// asked: the worker executes another queue's work, or forgets memory.
    ///
    /// # Errors
    /// As [`Self::begin_task`].
    pub fn make_pipelines(&mut self, tenant: &Arc<Tenant>, queue: HwQueueId) -> Result<bool, Lost> {
        let held = match self.admit(tenant.id, queue) {
            _ if tenant.is_lost() => return Err(Lost::Gone),
            Admission::Waits => return Ok(false),
            Admission::Failed(_) => {
                return Err(WorkerError::Impossible("there is no worker for it").into());
            }
            Admission::Missing => None,
            Admission::Idle => match self.waiting(|workers| workers.give_back(tenant.id)) {
                Ok(given) => given,
                Err(Later) => return Ok(false),
            },
        };
        self.ask(tenant, queue, Vec::new(), MOST_PIPELINES, held);
        Ok(true)
    }

    /// Whether a tenant's worker can execute something of a queue's.
    fn admit(&mut self, tenant: TenantId, queue: HwQueueId) -> Admission {
        self.reap();
        self.slots.admit(tenant, queue)
    }

    /// Asks the manager for a worker. The engine's attention is raised when it has an answer.
    fn ask(
        &mut self,
        tenant: &Arc<Tenant>,
        queue: HwQueueId,
        modules: Vec<Arc<Module>>,
        makes: u32,
        held: Option<Box<TenantWorker>>,
    ) {
        self.slots.ask(tenant, queue);
        let (engine, tenant) = (self.engine, Arc::clone(tenant));
        let request = Request { engine, tenant, modules, makes, held };
        self.mailboxes.order(Order::Prepare(request));
    }

    /// Takes an idle worker, in which no memory is mapped then. `None` if it has ended. Later if it has yet to forget memory.
    fn give_back(&mut self, tenant: TenantId) -> Result<Option<Box<TenantWorker>>, Later> {
        let Some(own) = self.slots.get_mut(tenant) else { return Ok(None) };
        let forgot = own.forget_memory(&self.mailboxes.window, self.tickets.passed());
        if forgot.and_then(|()| own.look(Instant::now() + LOOK)).is_err() {
            self.kill(tenant);
            return Ok(None);
        }
        if own.owes_since().is_some() {
            self.wait_for(tenant);
            return Err(Later);
        }
        if own.resume().is_err() {
            self.kill(tenant);
            return Ok(None);
        }
        Ok(self.slots.take(tenant).map(|own| own.held))
    }

    /// A queue waits until a worker has forgotten memory.
    fn wait_for(&mut self, tenant: TenantId) -> Start {
        if let Some(own) = self.slots.get_mut(tenant) {
            own.waited_for = true;
        }
        self.look_again_at(Instant::now());
        Start::Waits
    }

    /// Has the engine called at this time.
    fn look_again_at(&self, at: Instant) {
        let left = at.saturating_duration_since(Instant::now());
        let left = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        self.mailboxes.set_alarm(self.engine, self.mailboxes.chip.now().saturating_add(left));
    }

    /// Sends a batch to an idle worker.
    fn dispatch(
        &mut self,
        tenant: TenantId,
        queue: &Arc<HwQueue>,
        mmu: &Mmu<'_>,
        batch: &Batch,
    ) -> Result<Dispatched, Violation> {
        let Some(own) = self.slots.get_mut(tenant) else {
            return Ok(Dispatched::Ended);
        };
        // Each is asked for, to note its use.
        let mut is_loaded = true;
        batch.modules().for_each(|module| is_loaded &= own.held.has(module));
        if !is_loaded {
            return Ok(Dispatched::Lacks);
        }
        self.make_way(queue.id);
        let Some(own) = self.slots.get_mut(tenant) else {
            return Ok(Dispatched::Ended);
        };
        match send_batch(own, &self.mailboxes, queue, mmu, (batch, self.tickets.passed())) {
            Ok(false) => {
                self.wait_for(tenant);
                Ok(Dispatched::Waits)
            }
            Ok(true) => {
                self.running = Some(tenant);
                Ok(Dispatched::Begun(own.take_off(queue)))
            }
            Err(Lost::Worker(error)) if !matches!(error, WorkerError::Impossible(_)) => {
                tracing::debug!(%error, "an idle worker is replaced");
                self.kill(tenant);
                Ok(Dispatched::Ended)
            }
            Err(lost) => Err(lost.of_kernels(|index| batch.number(index))),
        }
    }

    /// Waits for a slice of time until a batch is executed, and serves its page faults. For a batch that has the engine
    /// alone, the engine sleeps until there is something to do.
    ///
    /// # Errors
    /// What ended the batch. Its worker is killed.
    pub fn wait(
        &mut self,
        in_flight: InFlight,
        mmu: &Mmu<'_>,
        batch: &Batch,
        others: Option<Others<'_>>,
    ) -> Result<Wait<()>, Violation> {
        let number = |index| batch.number(index);
        let lost = Violation::new(FaultReason::KERNEL_LOST, number(0).into());
        let tenant = batch.space.as_ref().map(|space| space.tenant.id).ok_or(lost)?;
        match self.await_answer(in_flight, tenant, mmu, others) {
            Ok(Wait::GoesOn(in_flight)) => Ok(Wait::GoesOn(in_flight)),
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
        in_flight: InFlight,
        tenant: TenantId,
        mmu: &Mmu<'_>,
        others: Option<Others<'_>>,
    ) -> Result<Wait<Box<[u8]>>, Lost> {
        match self.await_answer(in_flight, tenant, mmu, others)? {
            Wait::GoesOn(in_flight) => Ok(Wait::GoesOn(in_flight)),
            Wait::Done(Answer::Task(answer)) => Ok(Wait::Done(answer)),
            Wait::Done(Answer::Batch) => Err(Lost::Gone),
        }
    }

    fn await_answer(
        &mut self,
        in_flight: InFlight,
        tenant: TenantId,
        mmu: &Mmu<'_>,
        others: Option<Others<'_>>,
    ) -> Result<Wait<Answer>, Lost> {
        if self.running != Some(tenant) {
            self.stop_running();
        }
        let waited = match self.slots.get_mut(tenant) {
            Some(own) => {
                self.running = Some(tenant);
                let (slice, others) = own.slice(others);
                let start = Instant::now();
                let slice = (start + slice, others, self.tickets.passed());
                let served = serve(own, mmu, &self.mailboxes, slice);
                let waited = start.elapsed();
                own.had_a_turn(waited);
                self.waited += waited;
                served
            }
            None => Err(Lost::Gone),
        };
        match waited {
            Ok(None) => Ok(Wait::GoesOn(in_flight)),
            Ok(Some(answer)) => {
                drop(in_flight);
                self.complete(tenant);
                Ok(Wait::Done(answer))
            }
            Err(lost) => {
                self.kill(tenant);
                Err(lost)
            }
        }
    }

    /// A worker has done what its queue waited for.
    fn complete(&mut self, tenant: TenantId) {
        self.running = None;
        let Some(own) = self.slots.get_mut(tenant) else { return };
        let Some(rest) = own.complete() else {
            // It goes on, and whoever waits for it waits on.
            self.running = Some(tenant);
            return;
        };
        own.held.last_use.stamp(self.mailboxes.chip.now());
        let (is_waited_for, is_recalled) = (std::mem::take(&mut own.waited_for), own.recalled);
        if is_recalled {
            // Its process has another one when its turn comes.
            self.kill(tenant);
        }
        if is_waited_for {
            // The queues that wait are looked at after this turn.
            self.mailboxes.call(self.engine);
        }
        if !is_recalled {
            self.look_again_at(rest);
        }
    }

    /// Kills a worker. The manager reaps it.
    fn kill(&mut self, tenant: TenantId) {
        self.running.take_if(|running| *running == tenant);
        let Some(own) = self.slots.take(tenant) else { return };
        let guest = own.held.tenant.guest.id;
        if tenant.role.remembers() {
            own.held.tenant.lose();
        }
        let exit = self.tickets.die(guest, own.owes_since());
        let worker = own.held.worker;
        worker.process().kill();
        self.mailboxes.order(Order::Reap { engine: self.engine, tenant, worker, exit });
    }

    /// Kills all workers that `which` chooses.
    fn kill_all(&mut self, which: impl Fn(&EngineWorker) -> bool) {
        let chosen = self.slots.iter().filter(|(_, own)| which(own)).map(|(tenant, _)| tenant);
        for tenant in chosen.collect::<Vec<_>>() {
            self.kill(tenant);
        }
    }

    /// Kills the workers whose queues no longer wait for them.
    fn reap(&mut self) {
        self.kill_all(EngineWorker::is_abandoned);
    }

    /// Another queue has a turn: stops the worker that executes something, unless it is this queue's.
    pub fn make_way(&mut self, queue: HwQueueId) {
        let Some(running) = self.running else { return };
        let Some(own) = self.slots.get(running) else { return };
        if own.queue.as_ref().is_none_or(|own| own.id != queue) {
            self.stop_running();
        }
    }

    fn stop_running(&mut self) {
        let Some(running) = self.running.take() else { return };
        let Some(own) = self.slots.get_mut(running) else { return };
        if own.stop().is_err() {
            return self.kill(running);
        }
        if let Some(at) = own.next_look() {
            self.look_again_at(at);
        }
    }

    /// Between two turns: kills workers whose queues are gone, takes workers off queues that may not run, makes workers
    /// forget memory that their guests no longer have, and looks at what workers do. `charge` is told what they take at
    /// others' cost: their guests have fewer turns then.
    ///
    /// For the guests of workers that have not forgotten, and of killed workers that may still exist, no later ticket passes.
    /// The engine's attention is raised when it may.
    pub fn settle(&mut self, port: &EnginePort, charge: impl FnMut(&Partition, Duration)) {
        self.reap();
        self.kill_all(|own| own.held.tenant.has_ended());
        self.tell(charge, |own, window, since| {
            if own.queue.as_ref().is_some_and(|queue| !queue.membership.may_run()) {
                own.leave(window, since)
            } else if own.is_outdated() {
                own.forget_memory(window, since)
            } else {
                Ok(())
            }
        });
        self.withhold(port);
    }

    /// The engine has settled after it read this ticket, and passes it.
    pub fn pass(&mut self, ticket: u64) {
        self.tickets.pass(ticket);
    }

    /// Tells workers what `tell` does, and looks at all of them, for a moment at those that forget memory. Kills those that
    /// take too long.
    fn tell(
        &mut self,
        mut charge: impl FnMut(&Partition, Duration),
        tell: impl Fn(&mut EngineWorker, &Range<u64>, Ticket) -> Result<(), WorkerError>,
    ) {
        let start = Instant::now();
        let mut late = Vec::new();
        let mut until = start;
        for (tenant, own) in self.slots.iter_mut() {
            let owed = own.owes_since();
            if let Err(error) = tell(own, &self.mailboxes.window, self.tickets.passed()) {
                late.push((tenant, error));
            }
            if owed.is_none() && own.owes_since().is_some() {
                until = start + LOOK;
            }
        }
        let mut next: Option<Instant> = None;
        for (tenant, own) in self.slots.iter_mut() {
            let (owed, began) = (own.owes_since().is_some(), Instant::now());
            match own.look(until) {
                Ok(()) => next = next.into_iter().chain(own.next_look()).min(),
                Err(error) => late.push((tenant, error)),
            }
            let waited = if owed { began.elapsed() } else { Duration::ZERO };
            let used = own.take_excess().unwrap_or_default() + waited;
            if let Some(guest) = own.guest()
                && !used.is_zero()
            {
                charge(guest, used);
            }
            if owed && own.owes_since().is_none() && !own.is_busy() {
                // The queues that wait are looked at after this.
                if std::mem::take(&mut own.waited_for) {
                    self.mailboxes.call(self.engine);
                }
            }
        }
        self.waited += start.elapsed();
        for (tenant, error) in late {
            if let Some(own) = self.slots.get(tenant) {
                let guest = own.held.tenant.guest.id.0;
                tracing::warn!(guest, %error, "a worker is killed");
            }
            self.running.take_if(|running| *running == tenant);
            self.kill(tenant);
            // Its queue finds that it is gone.
            self.mailboxes.call(self.engine);
        }
        if let Some(at) = next {
            self.look_again_at(at);
        }
    }

    /// Says for which guests tickets have not passed, if that has changed.
    fn withhold(&mut self, port: &EnginePort) {
        let owed = self.slots.iter();
        let owed = owed.filter_map(|(_, own)| Some((own.held.tenant.guest.id, own.owes_since()?)));
        self.tickets.withhold(owed, &self.mailboxes.chip, port);
    }

    /// Whether the worker of a queue that may not run has yet to forget its memory. The engine's attention is raised when it
    /// has.
    pub fn is_leaving(&self, queue: HwQueueId) -> bool {
        self.slots.iter().any(|(_, own)| {
            own.owes_since().is_some() && own.queue.as_ref().is_some_and(|own| own.id == queue)
        })
    }

    /// Takes notes of the manager's.
    pub fn take_notes(&mut self) {
        while let Some(note) = self.mailboxes.take_note(self.engine) {
            match note {
                Note::Ready(held) => self.slots.arrive(held),
                Note::Failed(tenant, failure) => self.slots.fail(tenant, failure),
                Note::GiveUp(tenant) => {
                    let Some(own) = self.slots.get_mut(tenant) else { continue };
                    own.recalled = true;
                    if !own.is_busy() {
                        self.kill(tenant);
                    }
                }
            }
        }
        self.kill_all(|own| own.held.tenant.has_ended());
        self.slots.forget_failures();
    }

    /// Whether there is a worker, alive or dying.
    pub fn has_any(&self) -> bool {
        !self.slots.is_empty() || self.tickets.has_dying()
    }

    /// Makes workers ask for all memory anew, so that it counts as accessed.
    pub fn look_again(&mut self, charge: impl FnMut(&Partition, Duration)) {
        self.tell(charge, EngineWorker::forget_memory);
    }
}

/// A worker has yet to forget memory.
struct Later;
