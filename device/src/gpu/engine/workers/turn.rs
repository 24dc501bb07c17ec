// SPDX-License-Identifier: MIT OR Apache-2.0

//! What an engine says to one of its workers in a turn, and hears from it.

use super::batch::Batch;
use super::engine_worker::{EngineWorker, Lost};
use crate::gpu::engine::others::Others;
use crate::gpu::memory::mmu::{Access, Mmu};
use crate::gpu::memory::violation::Violation;
use crate::gpu::shared::hw_queue::HwQueue;
use crate::gpu::workers::mailboxes::Mailboxes;
use bellhop_host_kmd::hardware::Ticket;
use bellhop_protocol::event::FaultReason;
use bellhop_worker::owner::{Event, WorkerError};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an engine waits, between two turns, for all workers together that it has told to forget memory: some take less.
pub(super) const LOOK: Duration = Duration::from_micros(200);

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
pub(super) enum Answer {
    /// It executed a batch.
    Batch,
    /// What came of a task, in the role's words.
    Task(Box<[u8]>),
}

/// Prepares a worker for a queue's work: it runs, and has nothing mapped that the guest flushed. Returns false if it has yet
/// to forget that.
fn ready(
    own: &mut EngineWorker,
    mailboxes: &Mailboxes,
    queue: &HwQueue,
    mmu: &Mmu<'_>,
    passed: Ticket,
) -> Result<bool, WorkerError> {
    own.resume()?;
    own.catch_up(&queue.partition, mmu.flushes(), &mailboxes.window, passed)?;
    if own.owes_since().is_some() {
        own.look(Instant::now() + LOOK)?;
    }
    Ok(own.owes_since().is_none())
}

/// Sends a batch to an idle worker. Returns false if the worker has yet to forget memory.
pub(super) fn send_batch(
    own: &mut EngineWorker,
    mailboxes: &Mailboxes,
    queue: &HwQueue,
    mmu: &Mmu<'_>,
    (batch, passed): (&Batch, Ticket),
) -> Result<bool, Lost> {
    if !ready(own, mailboxes, queue, mmu, passed)? {
        return Ok(false);
    }
    if own.held.worker.needs_memory_first() {
        for range in batch.descriptors() {
            // A read-only page is mapped as such, and the device's store to it fails.
            own.map(*range, mmu, &mailboxes.window)?;
        }
    }
    own.held.worker.dispatch(&batch.to_dispatch())?;
    Ok(true)
}

/// Sends a task to an idle worker. Returns false if the worker has yet to forget memory.
pub(super) fn send_task(
    own: &mut EngineWorker,
    mailboxes: &Mailboxes,
    queue: &HwQueue,
    mmu: &Mmu<'_>,
    (task, passed): (Task<'_>, Ticket),
) -> Result<bool, Lost> {
    if !ready(own, mailboxes, queue, mmu, passed)? {
        return Ok(false);
    }
    for (address, length, access) in task.ranges {
        look_up([*address, *length], *access, mmu, &mailboxes.window)?;
    }
    own.held.worker.task(task.bytes)?;
    Ok(true)
}

/// Looks up a range that a worker is about to reach.
pub(super) fn look_up(
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

/// Serves a worker until a time. Returns its answer, if it has one. With `others`, sleeps while the worker says nothing,
/// and returns early if there may be other work.
pub(super) fn serve(
    own: &mut EngineWorker,
    mmu: &Mmu<'_>,
    mailboxes: &Mailboxes,
    (end, others, passed): (Instant, Option<Others<'_>>, Ticket),
) -> Result<Option<Answer>, Lost> {
    let Some(partition) = own.queue.as_ref().map(|queue| Arc::clone(&queue.partition)) else {
        return Err(Lost::Gone);
    };
    own.resume()?;
    while let Some(event) = own.hear(end, others)? {
        match event {
            Event::Done => return Ok(Some(Answer::Batch)),
            Event::Answer(answer) => return Ok(Some(Answer::Task(answer))),
            Event::Fault(fault) => {
                own.catch_up(&partition, mmu.flushes(), &mailboxes.window, passed)?;
                own.answer(fault, mmu, &mailboxes.window)?;
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
