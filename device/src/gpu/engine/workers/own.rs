// SPDX-License-Identifier: MIT OR Apache-2.0

//! A worker that an engine owns.

use crate::gpu::memory::mmu::{Access, Mmu};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::shared::partition::Partition;
use crate::gpu::workers::held::Held;
use bellhop_protocol::event::FaultReason;
use bellhop_worker::owner::{Event, Fault, Memory, WorkerError};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a worker may take to forget its memory: its own thread does so while kernels run. Beyond that, it is killed.
const PATIENCE: Duration = Duration::from_millis(100);
/// The most mappings of a worker, in the middle of what Linux allows a process (65,530). Beyond that, all are forgotten,
/// as a TLB that is full forgets.
const MOST_MAPPINGS: u32 = 1 << 15;

/// Proof that a queue's packet waits for a worker. If it is dropped before the worker is done, the worker is killed.
#[derive(Debug)]
pub struct Flight {
    /// Held for its count alone.
    _alive: Arc<()>,
}

/// A worker that an engine owns.
#[derive(Debug)]
pub struct Own {
    /// The worker.
    pub held: Box<Held>,
    /// The guest. Known while memory is mapped or something is executed.
    partition: Option<Arc<Partition>>,
    /// The guest's number of flushes when memory was mapped, if some is.
    mapped: Option<u64>,
    mappings: u32,
    /// The queue whose packets it executes.
    pub queue: Option<Arc<HwQueue>>,
    flight: Arc<()>,
    /// When the batch that it executes, or the last one, was sent to it.
    took_off: Instant,
    /// Whether it was told to stop.
    stopped: bool,
    /// Whether it has stopped.
    halted: bool,
    /// Events that came while the engine waited for another.
    deferred: VecDeque<Event>,
    /// Whether another queue waits until it executes nothing.
    pub waited_for: bool,
    /// Whether it is to end when it executes nothing.
    pub recalled: bool,
}

impl Own {
    /// A worker in which nothing is mapped.
    pub fn new(held: Box<Held>) -> Self {
        Self {
            held,
            partition: None,
            mapped: None,
            mappings: 0,
            queue: None,
            flight: Arc::new(()),
            took_off: Instant::now(),
            stopped: false,
            halted: false,
            deferred: VecDeque::new(),
            waited_for: false,
            recalled: false,
        }
    }

    /// Whether a packet waits for it.
    pub fn is_busy(&self) -> bool {
        Arc::strong_count(&self.flight) > 1
    }

    /// Whether the packet that it executed was dropped.
    pub fn is_abandoned(&self) -> bool {
        self.queue.is_some() && !self.is_busy()
    }

    /// A queue's packet begins to wait for it.
    pub fn take_off(&mut self, queue: &Arc<HwQueue>) -> Flight {
        self.queue = Some(Arc::clone(queue));
        self.held.last_use.begin();
        self.took_off = Instant::now();
        Flight { _alive: Arc::clone(&self.flight) }
    }

    /// How long ago its batch was sent to it.
    pub fn flown_for(&self) -> Duration {
        self.took_off.elapsed()
    }

    /// Stops all its threads. Returns at once.
    ///
    /// # Errors
    /// If it has ended.
    pub fn stop(&mut self) -> Result<(), WorkerError> {
        if !std::mem::replace(&mut self.stopped, true) {
            self.held.worker.stop()?;
        }
        Ok(())
    }

    /// Stops all its threads, and waits until they have stopped, or it has ended. Linux stops a running thread by an
    /// interrupt.
    ///
    /// # Errors
    /// If it has ended.
    pub fn halt(&mut self) -> Result<(), WorkerError> {
        self.stop()?;
        if !std::mem::replace(&mut self.halted, true) {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // Fails only if the process was waited for, and then it has ended.
            let _ = waitid(WaitId::PidFd(self.held.worker.process()), options);
        }
        Ok(())
    }

    /// Lets its threads go on.
    ///
    /// # Errors
    /// If it has ended.
    pub fn resume(&mut self) -> Result<(), WorkerError> {
        self.halted = false;
        if std::mem::take(&mut self.stopped) {
            self.held.worker.resume()?;
        }
        Ok(())
    }

    /// Its next event, until this time at the latest.
    ///
    /// # Errors
    /// If it has ended, or sent nonsense.
    pub fn next(&mut self, until: Instant) -> Result<Option<Event>, WorkerError> {
        match self.deferred.pop_front() {
            Some(event) => Ok(Some(event)),
            None => {
                let left = until.saturating_duration_since(Instant::now());
                self.held.worker.next(Some(left))
            }
        }
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

    /// Takes back all memory, and waits until no access reaches it.
    ///
    /// # Errors
    /// If it has ended, or takes too long.
    pub fn forget_memory(&mut self, window: &Range<u64>) -> Result<(), WorkerError> {
        self.mappings = 0;
        if self.mapped.take().is_none() {
            return Ok(());
        }
        let worker = &mut self.held.worker;
        worker.unmap(window.clone())?;
        if self.stopped {
            // It runs until it has answered; what its kernels reach meanwhile is still the guest's.
            worker.resume()?;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match worker.next(Some(left))? {
                Some(Event::Unmapped(_)) => break,
                Some(event) => self.deferred.push_back(event),
                None => return Err(WorkerError::Impossible("it does not forget its memory")),
            }
        }
        let (was_stopped, was_halted) =
            (std::mem::take(&mut self.stopped), std::mem::take(&mut self.halted));
        if was_halted {
            self.halt()
        } else if was_stopped {
            self.stop()
        } else {
            Ok(())
        }
    }

    /// Before memory is mapped for a turn: forgets what is outdated.
    ///
    /// # Errors
    /// As [`Self::forget_memory`].
    pub fn catch_up(
        &mut self,
        partition: &Arc<Partition>,
        flushes: u64,
        window: &Range<u64>,
    ) -> Result<(), WorkerError> {
        if self.mapped.is_some_and(|mapped| mapped != flushes) || self.mappings >= MOST_MAPPINGS {
            self.forget_memory(window)?;
        }
        if self.partition.is_none() {
            self.partition = Some(Arc::clone(partition));
        }
        Ok(())
    }

    /// Maps what a thread waits for.
    ///
    /// # Errors
    /// The fault of the guest's, or the end of the worker.
    pub fn answer(&mut self, fault: Fault, mmu: &Mmu<'_>, window: &Range<u64>) -> Result<(), Lost> {
        let access = if fault.store { Access::Write } else { Access::Read };
        let extent = mmu.extent(fault.address, access, window)?;
        let memory = Memory {
            address: extent.address,
            length: extent.length,
            file: extent.file.as_fd(),
            offset: extent.offset,
            writable: extent.writable,
        };
        (self.mapped, self.mappings) = (Some(mmu.flushes()), self.mappings + 1);
        Ok(self.held.worker.answer(fault, &memory)?)
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
            let memory = Memory {
                address: extent.address,
                length: extent.length,
                file: extent.file.as_fd(),
                offset: extent.offset,
                writable: extent.writable,
            };
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
