// SPDX-License-Identifier: MIT OR Apache-2.0

//! A worker that an engine owns.

use super::ahead::Ahead;
use super::patience::Patience;
use crate::gpu::engine::others::{Nap, Others};
use crate::gpu::memory::mmu::{Access, Mmu};
use crate::gpu::memory::shareable::Extent;
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::workers::tenant_worker::TenantWorker;
use bellhop_host_kmd::hardware::Ticket;
use bellhop_protocol::event::FaultReason;
use bellhop_worker::owner::{Event, Fault, Memory, WorkerError};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an engine waits for a worker before it looks for other work.
const SLICE: Duration = Duration::from_micros(100);
/// As `SLICE`, at most, for what has run for long while no other queue had work, if the engine cannot sleep: each look costs
/// the worker what the engine's thread and its cache lines take.
const LONG_SLICE: Duration = Duration::from_micros(400);
/// The part of the time that something has run for which the engine waits without another look.
const PART: u32 = 8;
/// How long an engine sleeps, at most, until its worker says something: what the worker uses is then measured.
const NAP: Duration = MEASURED;
/// What each thread of a worker may use of processors before the worker has forgotten its memory, once an engine looks at that: its own
/// thread does so while kernels run. Beyond that, it is killed. Only its guest waits meanwhile.
const MOST_TO_FORGET: Duration = Duration::from_millis(100);
/// What a worker may use of processors before it has stopped, once an engine looks at that: hardly anything is left to do for one that
/// stops.
const MOST_TO_STOP: Duration = Duration::from_millis(25);
/// How soon an engine looks again whether a worker has forgotten its memory.
const SOON: Duration = Duration::from_millis(1);
/// How long a worker may have nothing to do before it is stopped. To stop it and to have it go on takes longer than a short
/// kernel, but little of so long a time.
const REST: Duration = Duration::from_millis(10);
/// How often it is measured what a worker uses beside the engine's turns.
const MEASURED: Duration = Duration::from_millis(10);
/// The most mappings of a worker, in the middle of what Linux allows a process (65,530). Beyond that, all are forgotten,
/// as a TLB that is full forgets.
const MOST_MAPPINGS: u32 = 1 << 15;
/// The most events that wait while a worker forgets its memory: one of each thread that may fault, and one more.
const MOST_DEFERRED: usize = 65;
/// What a worker may use beside the engine's turns each time that this is measured: it receives, answers and falls asleep.
const LEAST_EXCESS: Duration = Duration::from_millis(1);

/// Proof that a queue's packet waits for a worker. If it is dropped before the worker is done, the worker is killed.
#[derive(Debug)]
pub struct InFlight {
    /// Held for its count alone.
    _alive: Arc<()>,
}

/// What a worker's process was told last.
///
/// Nothing that one can poll tells when a process has stopped, a process can take as long as it likes in a system call, and
/// one that was taken over can undo a stop with each of its threads before the last has stopped. So an engine never waits
/// for a stop, and nothing depends on one: a worker forgets its memory first, and then reaches none of it, whether it stops
/// or not. What is left is the time of processors, and a worker that takes that is found out later and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// To run.
    Run,
    /// To stop.
    Stop(Patience),
    /// To stop, and it was seen to have stopped.
    Stopped,
}

/// What a worker has yet to answer.
#[derive(Debug, Clone, Copy)]
struct Owed {
    /// Number of answers.
    answers: u32,
    /// The last ticket that had passed for its guest.
    since: Ticket,
    /// How long the engine waits for them.
    patience: Patience,
}

/// What a worker uses of processors.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// When it was measured last.
    at: Instant,
    /// What the process had used by then.
    process: Duration,
    /// What the engine's turns account for since.
    turns: Duration,
}

/// A worker that an engine owns.
#[derive(Debug)]
pub struct EngineWorker {
    /// The worker.
    pub held: Box<TenantWorker>,
    /// The guest. Known while memory is mapped or something is executed.
    partition: Option<Arc<Partition>>,
    /// The guest's number of flushes when memory was mapped, if some is.
    mapped: Option<u64>,
    mappings: u32,
    ahead: Ahead,
    /// The queue whose packets it executes.
    pub queue: Option<Arc<HwQueue>>,
    in_flight: Arc<()>,
    /// Whether it was told of what follows the task that it executes.
    is_followed: bool,
    /// When the batch that it executes was sent to it, or the last one was done.
    since: Instant,
    /// Whether it is to stop once it owes nothing.
    rests: bool,
    told: Told,
    owed: Option<Owed>,
    used: Option<Use>,
    /// Whether something else ended the engine's last sleep.
    was_disturbed: bool,
    /// Events that came while the engine waited for another.
    deferred: VecDeque<Event>,
    /// Whether another queue waits until it executes nothing, or owes nothing.
    pub waited_for: bool,
    /// Whether it is to end when it executes nothing.
    pub recalled: bool,
}

impl EngineWorker {
    /// A worker in which nothing is mapped.
    pub fn new(held: Box<TenantWorker>) -> Self {
        Self {
            held,
            partition: None,
            mapped: None,
            mappings: 0,
            ahead: Ahead::default(),
            queue: None,
            in_flight: Arc::new(()),
            is_followed: false,
            since: Instant::now(),
            rests: false,
            told: Told::Run,
            owed: None,
            used: None,
            was_disturbed: false,
            deferred: VecDeque::new(),
            waited_for: false,
            recalled: false,
        }
    }

    /// Whether a packet waits for it.
    pub fn is_busy(&self) -> bool {
        Arc::strong_count(&self.in_flight) > 1
    }

    /// Whether the packet that it executed was dropped.
    pub fn is_abandoned(&self) -> bool {
        self.queue.is_some() && !self.is_busy()
    }

    /// A queue's packet begins to wait for it.
    pub fn take_off(&mut self, queue: &Arc<HwQueue>) -> InFlight {
        self.queue = Some(Arc::clone(queue));
        self.held.last_use.begin();
        self.since = Instant::now();
        InFlight { _alive: Arc::clone(&self.in_flight) }
    }

    /// Tells it of the task that follows the one that it executes, both a queue's. `None` if it takes none: another queue waits for it,
    /// it is to end or forgets memory, or memory has to be mapped before it begins.
    ///
    /// # Errors
    /// If it has ended.
    pub fn follow(
        &mut self,
        queue: &HwQueue,
        task: &[u8],
    ) -> Result<Option<InFlight>, WorkerError> {
        let is_of_queue = self.queue.as_ref().is_some_and(|own| own.id == queue.id);
        let may_stay = !self.waited_for && !self.recalled && self.told == Told::Run;
        let has_memory =
            self.owed.is_none() && !self.is_outdated() && !self.held.worker.needs_memory_first();
        if self.is_followed || !self.is_busy() || !is_of_queue || !may_stay || !has_memory {
            return Ok(None);
        }
        self.held.worker.follow(task)?;
        self.is_followed = true;
        Ok(Some(InFlight { _alive: Arc::clone(&self.in_flight) }))
    }

    /// How long an engine waits for it before it looks for other work; and these, if it sleeps until they want the engine.
    ///
    /// It sleeps once the work has taken a moment, since short work ends sooner than an engine falls asleep and wakes; and
    /// not twice in a row if others ended the first sleep: to fall asleep takes longer the more doorbells there are, and a
    /// guest can ring as often as it likes.
    pub fn slice<'o>(&mut self, others: Option<Others<'o>>) -> (Duration, Option<Others<'o>>) {
        let flown = self.since.elapsed();
        let was_disturbed = std::mem::take(&mut self.was_disturbed);
        match others {
            Some(others) if flown >= SLICE && !was_disturbed => {
                (NAP.min(others.longest_nap), Some(others))
            }
            Some(_) => ((flown / PART).clamp(SLICE, LONG_SLICE), None),
            None => (SLICE, None),
        }
    }

    /// Its next event, until this time at the latest. With `others`, the engine sleeps meanwhile, and there is none if they
    /// may want the engine.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn hear(
        &mut self,
        until: Instant,
        others: Option<Others<'_>>,
    ) -> Result<Option<Event>, WorkerError> {
        let Some(others) = others else { return self.next(until) };
        // What has come already, or was deferred, is no reason to fall asleep.
        if let Some(event) = self.next(Instant::now())? {
            return Ok(Some(event));
        }
        self.was_disturbed = others.nap(self.held.worker.socket(), until) == Nap::Disturbed;
        self.next(Instant::now())
    }

    /// What its queue waited for is done. Returns when it is to rest, unless it goes on with what follows.
    pub fn complete(&mut self) -> Option<Instant> {
        self.since = Instant::now();
        if std::mem::take(&mut self.is_followed) {
            return None;
        }
        self.queue = None;
        Some(self.since + REST)
    }

    /// Stops all its threads, once it owes nothing. Returns at once.
    ///
    /// # Errors
    /// If it has ended.
    pub fn stop(&mut self) -> Result<(), WorkerError> {
        self.rests = true;
        self.tell()
    }

    /// Lets its threads go on.
    ///
    /// # Errors
    /// If it has ended.
    pub fn resume(&mut self) -> Result<(), WorkerError> {
        self.rests = false;
        self.tell()
    }

    /// Tells the process what it does not know yet.
    fn tell(&mut self) -> Result<(), WorkerError> {
        let (process, stops) = (self.held.worker.process(), self.rests && self.owed.is_none());
        match self.told {
            Told::Run if stops => {
                process.stop()?;
                self.told = Told::Stop(Patience::since(Instant::now()));
            }
            Told::Stop(_) | Told::Stopped if !stops => {
                process.resume()?;
                self.told = Told::Run;
            }
            _ => {}
        }
        Ok(())
    }

    /// Its next event, until this time at the latest.
    ///
    /// # Errors
    /// If it has ended, or sent nonsense.
    pub fn next(&mut self, until: Instant) -> Result<Option<Event>, WorkerError> {
        if let Some(event) = self.deferred.pop_front() {
            return Ok(Some(event));
        }
        // It answers no more of these than it was asked.
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.held.worker.next(Some(left))? {
                Some(Event::Unmapped(_)) => self.has_forgotten()?,
                event => return Ok(event),
            }
        }
    }

    /// It has answered.
    fn has_forgotten(&mut self) -> Result<(), WorkerError> {
        if let Some(owed) = &mut self.owed {
            owed.answers = owed.answers.saturating_sub(1);
            if owed.answers > 0 {
                return Ok(());
            }
        }
        self.owed = None;
        self.tell()
    }

    /// Looks whether it has done what it was told, until this time at the latest if it owes something.
    ///
    /// # Errors
    /// If it has ended, sent nonsense, or takes too long.
    pub fn look(&mut self, until: Instant) -> Result<(), WorkerError> {
        while self.owed.is_some() {
            let left = until.saturating_duration_since(Instant::now());
            match self.held.worker.next(Some(left))? {
                Some(Event::Unmapped(_)) => self.has_forgotten()?,
                Some(_) if self.deferred.len() >= MOST_DEFERRED => {
                    return Err(WorkerError::OutOfTurn("too much"));
                }
                Some(event) => self.deferred.push_back(event),
                None => break,
            }
        }
        let now = Instant::now();
        let worker = &self.held.worker;
        if let Some(owed) = &mut self.owed
            && owed.patience.has_begun(now)
        {
            let most = MOST_TO_FORGET * worker.processors();
            if owed.patience.is_over(now, processor_time(worker.id()), most) {
                return Err(WorkerError::Late("forget its memory"));
            }
        }
        if let Told::Stop(patience) = &mut self.told
            && patience.has_begun(now)
        {
            if worker.process().has_stopped()? {
                self.told = Told::Stopped;
            } else if patience.is_over(now, processor_time(worker.id()), MOST_TO_STOP) {
                return Err(WorkerError::Late("stop"));
            }
        }
        if self.told == Told::Run && self.is_idle() && self.since + REST <= now {
            self.stop()?;
        }
        Ok(())
    }

    /// Whether it has nothing to do.
    fn is_idle(&self) -> bool {
        !self.is_busy() && self.owed.is_none()
    }

    /// When to look again, if that helps.
    pub fn next_look(&self) -> Option<Instant> {
        match self.told {
            _ if self.owed.is_some() => Some(Instant::now() + SOON),
            Told::Stop(patience) => Some(patience.next_look(Instant::now())),
            Told::Run if self.is_idle() => Some(self.since + REST),
            Told::Run => Some(Instant::now() + MEASURED),
            Told::Stopped => None,
        }
    }

    /// The last ticket that has passed for its guest, if it may still reach memory that was taken since.
    pub fn owes_since(&self) -> Option<Ticket> {
        self.owed.map(|owed| owed.since)
    }

    /// The engine has waited for it for so long.
    pub fn had_a_turn(&mut self, time: Duration) {
        if let Some(used) = &mut self.used {
            used.turns += time.saturating_mul(self.held.worker.processors());
        }
    }

    /// What it has used of processors beside the engine's turns, if it is time to measure that. A worker that computes though
    /// it has nothing to do, or is told to stop, does so at the cost of its guest.
    pub fn take_excess(&mut self) -> Option<Duration> {
        let at = Instant::now();
        if self.used.is_some_and(|used| at.saturating_duration_since(used.at) < MEASURED) {
            return None;
        }
        let process = processor_time(self.held.worker.id())?;
        let before = self.used.replace(Use { at, process, turns: Duration::ZERO })?;
        let used = process.saturating_sub(before.process);
        // An engine also serves faults in a turn, and looks for other work between two.
        let excess = used.saturating_sub(before.turns + before.turns / 8);
        (excess > LEAST_EXCESS).then_some(excess)
    }

    /// The guest, if memory was ever mapped.
    pub fn guest(&self) -> Option<&Partition> {
        self.partition.as_deref()
    }

    /// Whether memory is mapped that the guest has flushed since.
    pub fn is_outdated(&self) -> bool {
        let flushes = self.partition.as_ref().map(|partition| partition.flushes());
        self.mapped.is_some() && self.mapped != flushes
    }

    /// Tells it to forget all memory: no access reaches it once the worker owes nothing. It runs until it has answered; what
    /// its kernels reach meanwhile is still the guest's. `since` is the last ticket that has passed.
    ///
    /// # Errors
    /// If it has ended.
    pub fn forget_memory(&mut self, window: &Range<u64>, since: Ticket) -> Result<(), WorkerError> {
        self.mappings = 0;
        if self.mapped.take().is_none() {
            return Ok(());
        }
        self.held.worker.unmap(window.clone())?;
        let patience = Patience::since(Instant::now());
        let owed = self.owed.get_or_insert(Owed { answers: 0, since, patience });
        owed.answers += 1;
        self.tell()
    }

    /// Takes a worker off its queue, which may not run: it forgets its memory, and stops. So it needs to do nothing when
    /// memory is taken from its guest later.
    ///
    /// # Errors
    /// If it has ended.
    pub fn leave(&mut self, window: &Range<u64>, since: Ticket) -> Result<(), WorkerError> {
        self.forget_memory(window, since)?;
        self.stop()
    }

    /// Before memory is mapped for a turn: has what is outdated forgotten. What is mapped after that stays.
    ///
    /// # Errors
    /// As [`Self::forget_memory`].
    pub fn catch_up(
        &mut self,
        partition: &Arc<Partition>,
        flushes: u64,
        window: &Range<u64>,
        since: Ticket,
    ) -> Result<(), WorkerError> {
        if self.mapped.is_some_and(|mapped| mapped != flushes) || self.mappings >= MOST_MAPPINGS {
            self.forget_memory(window, since)?;
        }
        if self.partition.is_none() {
            self.partition = Some(Arc::clone(partition));
        }
        Ok(())
    }

    /// Maps what a thread waits for, and what it probably reaches next.
    ///
    /// # Errors
    /// The fault of the guest's, or the end of the worker.
    pub fn answer(&mut self, fault: Fault, mmu: &Mmu<'_>, window: &Range<u64>) -> Result<(), Lost> {
        let access = if fault.store { Access::Write } else { Access::Read };
        let extent = mmu.extent(fault.address, access, window)?;
        let memory = memory_of(&extent);
        (self.mapped, self.mappings) = (Some(mmu.flushes()), self.mappings + 1);
        self.held.worker.answer(fault, &memory)?;
        let missed = extent.address..extent.address.saturating_add(extent.length);
        let mut end = missed.end;
        for _ in 0..self.ahead.missed(&missed) {
            if self.mappings >= MOST_MAPPINGS || !window.contains(&end) {
                break;
            }
            // Nobody has reached this yet, so it is no fault if there is nothing.
            let Ok(next) = mmu.extent(end, access, window) else { break };
            self.mappings += 1;
            self.held.worker.map(&memory_of(&next))?;
            end = next.address.saturating_add(next.length).max(end.saturating_add(1));
        }
        self.ahead.mapped(&missed, end);
        Ok(())
    }

    /// Maps a range before the worker reaches it.
    ///
    /// # Errors
    /// As [`Self::answer`]; the worker's end is `Impossible` if there are more runs than it can have mapped.
    pub fn map(
        &mut self,
        [start, length]: [u64; 2],
        mmu: &Mmu<'_>,
        window: &Range<u64>,
    ) -> Result<(), Lost> {
        let end = start.saturating_add(length);
        let mut at = start;
        while at < end {
            // A guest chooses how scattered its memory is, and the engine executes nothing else meanwhile.
            if self.mappings >= MOST_MAPPINGS {
                return Err(WorkerError::Impossible("its memory has too many pieces").into());
            }
            let extent = mmu.extent(at, Access::Read, window)?;
            let memory = memory_of(&extent);
            (self.mapped, self.mappings) = (Some(mmu.flushes()), self.mappings + 1);
            self.held.worker.map(&memory)?;
            at = extent.address.saturating_add(extent.length);
        }
        Ok(())
    }
}

/// Why a worker does not do what its queue waits for.
#[derive(Debug)]
pub enum Lost {
    /// The guest has no such memory: its queue is lost, as with any packet.
    Fault(Violation),
    /// The worker has ended or sent nonsense, or is asked for something impossible.
    Worker(WorkerError),
    /// The worker was killed before, for another reason.
    Gone,
    /// The dispatch of this index was invalid, or Vulkan failed.
    NotDone(u32),
}

/// What a worker is to map there.
fn memory_of<'e>(extent: &'e Extent<'_>) -> Memory<'e> {
    Memory {
        address: extent.address,
        length: extent.length,
        file: extent.file.as_fd(),
        offset: extent.offset,
        writable: extent.writable,
    }
}

impl From<Violation> for Lost {
    fn from(violation: Violation) -> Self {
        Self::Fault(violation)
    }
}

impl From<WorkerError> for Lost {
    fn from(error: WorkerError) -> Self {
        Self::Worker(error)
    }
}

impl Lost {
    /// The violation of a queue whose kernels are lost by it; `number` returns the number of the kernel with an index.
    pub fn of_kernels(self, number: impl Fn(u32) -> u32) -> Violation {
        let (reason, index) = match self {
            Self::Fault(violation) => return violation,
            Self::NotDone(index) => (FaultReason::KERNEL_FAILED, index),
            Self::Worker(WorkerError::Impossible(_)) => (FaultReason::KERNEL_FAILED, 0),
            Self::Worker(_) | Self::Gone => (FaultReason::KERNEL_LOST, 0),
        };
        let number = number(index);
        tracing::debug!(lost = ?self, number, "kernels are lost");
        Violation::new(reason, number.into())
    }
}

/// What a process has used of processors. `None` if it is not known.
fn processor_time(process: u32) -> Option<Duration> {
    // Linux gives the number to no other process before this one was waited for.
    let clock = clock_getcpuclockid(Pid::from_raw(process.cast_signed())).ok()?;
    Some(clock.now().ok()?.into())
}
