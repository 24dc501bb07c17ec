// SPDX-License-Identifier: MIT OR Apache-2.0

//! A guest's paging: the queued buffers of its system context, and its progress.
//!
//! The control plane fills a buffer and queues it; the engine executes it, reports a failure if there was one, and
//! then its progress. A buffer is reused when the engine is past it. The fence is private to the host: no guest can
//! see or access it.

use super::interrupt::Interrupts;
use crate::gpu::memory::host_memory::PAGING_BUFFERS;
use bellhop_host_kmd::hardware::Fault;
use bellhop_protocol::handoff::publication;
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A paging buffer that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagingFault {
    /// The fence of its submission.
    pub fence: u64,
    /// The fault.
    pub fault: Fault,
}

/// One guest's paging.
#[derive(Debug)]
pub struct Paging {
    /// The fence of the last buffer that the engine is past.
    completed: AtomicU64,
    /// Faults of buffers. An untaken fault still occupies its buffer, so there is always room.
    faults: ArrayQueue<PagingFault>,
    /// The fence of the abandoned buffer; 0, which no buffer has, if there is none.
    abandoned: AtomicU64,
    /// The control plane's state; no engine ever takes this lock.
    books: Mutex<Books>,
}

/// The control plane's state.
#[derive(Debug, Default)]
struct Books {
    /// Fences of the buffers not yet reported as done, oldest first.
    queued: VecDeque<u64>,
    /// The buffer to fill next.
    next: u64,
}

/// The progress of paging buffers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The buffers that failed.
    pub faults: Vec<PagingFault>,
    /// The fence up to which all buffers are done, if it advanced.
    pub completed: Option<u64>,
}

impl Paging {
    /// Nothing is queued.
    pub fn new() -> Self {
        Self {
            completed: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            faults: ArrayQueue::new(PAGING_BUFFERS as usize),
            books: Mutex::default(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Control plane: a buffer for packets that will be queued with this fence; `None` if all are in use.
    pub fn take_buffer(&self, fence: u64) -> Option<u64> {
        let mut books = self.books();
        if books.queued.len() as u64 >= PAGING_BUFFERS {
            return None;
        }
        let buffer = books.next;
        books.next = (buffer + 1) % PAGING_BUFFERS;
        books.queued.push_back(fence);
        Some(buffer)
    }

    /// Engine: reports that the buffer of this fence failed. [`Self::complete`] follows.
    pub fn fail(&self, fence: u64, fault: Fault) {
        // Cannot be full: see `faults`.
        let _ = self.faults.push(PagingFault { fence, fault });
    }

    /// Engine: reports that it is past the buffer of this fence.
    pub fn complete(&self, fence: u64, interrupts: &Interrupts) {
        // Releases to `report` the effects of the packets, their fault, and the last read of the buffer.
        publication::publish(&self.completed, fence);
        interrupts.raise_paging();
    }

    /// Control plane, before it kicks the queue: abandons the buffer of this fence. Relaxed: the kick hands it
    /// over, and it hands over nothing itself.
    pub fn abandon(&self, fence: u64) {
        self.abandoned.store(fence, Ordering::Relaxed);
    }

    /// Engine, when it is kicked: takes the fence of the abandoned buffer.
    pub fn take_abandoned(&self) -> Option<u64> {
        let fence = self.abandoned.swap(0, Ordering::Relaxed);
        (fence != 0).then_some(fence)
    }

    /// Control plane: the fence of the last queued buffer, if the engine is not past it.
    pub fn last_queued(&self) -> Option<u64> {
        let last = self.books().queued.back().copied()?;
        (last > self.completed()).then_some(last)
    }

    /// The fence of the last buffer that the engine is past. Pairs with [`Self::complete`].
    pub fn completed(&self) -> u64 {
        publication::read(&self.completed)
    }

    /// Control plane: the events since the last call.
    pub fn report(&self) -> Report {
        let mut books = self.books();
        // First: the faults of all buffers that this covers are then visible. Pairs with `complete`.
        let completed = self.completed();
        let faults = std::iter::from_fn(|| self.faults.pop()).collect();
        let before = books.queued.len();
        books.queued.retain(|fence| *fence > completed);
        Report { faults, completed: (books.queued.len() < before).then_some(completed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::event::FaultReason;
    use bellhop_protocol::packet::Opcode;

    const FAULT: Fault = Fault {
        reason: FaultReason::UNKNOWN_PACKET,
        opcode: Opcode(0x7777),
        address: 1,
        read_pointer: 2,
    };

    #[test]
    fn a_buffer_is_used_again_when_the_engine_is_past_it_and_not_before() {
        let (paging, interrupts) = (Paging::new(), Interrupts::new(1).unwrap());
        for fence in 1..=PAGING_BUFFERS {
            assert_eq!(paging.take_buffer(fence * 10), Some(fence - 1));
        }
        assert_eq!(paging.take_buffer(1000), None);
        assert_eq!(paging.report(), Report::default());
        paging.complete(20, &interrupts);
        assert_eq!(paging.report(), Report { faults: vec![], completed: Some(20) });
        assert_eq!(paging.report(), Report::default());
        assert_eq!(paging.take_buffer(1000), Some(0));
        assert_eq!(paging.take_buffer(1010), Some(1));
        assert_eq!(paging.take_buffer(1020), None);
    }

    #[test]
    fn a_failed_buffer_is_reported_before_it_counts_as_done() {
        let (paging, interrupts) = (Paging::new(), Interrupts::new(1).unwrap());
        paging.take_buffer(1).unwrap();
        paging.take_buffer(2).unwrap();
        paging.fail(1, FAULT);
        paging.complete(1, &interrupts);
        paging.complete(2, &interrupts);
        let faults = vec![PagingFault { fence: 1, fault: FAULT }];
        assert_eq!(paging.report(), Report { faults, completed: Some(2) });
    }
}
