// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts: engines raise them, the control plane takes them.
//!
//! A bounded queue holds interrupts. A fence is in it at most once, however often a guest signals the fence, and a
//! HW queue faults once. If the queue is still full, a cause asks the control plane to scan. Nothing is lost and
//! nothing grows.
//!
//! Source: native GPU fence object, "Native fence signaled interrupt".

use super::event::Event;
use super::fence::table::Fence;
use bellhop_host_kmd::hardware::{Fault, GuestId, HwQueueId};
use bellhop_protocol::handoff::pending::{InterruptLine, PendingSet};
use crossbeam_queue::ArrayQueue;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// An interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// A fence passed its MonitoredValue.
    Fence {
        /// The guest.
        guest: GuestId,
        /// The fence's slot.
        slot: u32,
    },
    /// A HW queue logged signals with a CPU waiter.
    Logged {
        /// The guest.
        guest: GuestId,
        /// The queue.
        queue: HwQueueId,
    },
    /// A HW queue holds a fault.
    Fault(HwQueueId),
    /// A kernel-mode submission of a HW queue completed.
    Completed(HwQueueId),
    /// A pre-empted HW queue has stopped.
    Preempted(HwQueueId),
    /// A HW queue makes no progress. The engine raises this again later if there is no room.
    Hung(HwQueueId, Fault),
}

/// Causes of interrupts that are not in the queue.
pub mod cause {
    /// All engines passed some ticket.
    pub const QUIESCED: u64 = 1 << 0;
    /// A doorbell's page was moved, or the VMM refused to move it.
    pub const ROTATED: u64 = 1 << 1;
    /// Any monitored fence may have been signaled.
    pub const FENCES: u64 = 1 << 2;
    /// Any HW queue may hold a fault.
    pub const FAULTS: u64 = 1 << 3;
    /// Any HW queue may have completed a submission, or have stopped.
    pub const QUEUES: u64 = 1 << 4;
    /// An engine reported its state.
    pub const ENGINE_STATES: u64 = 1 << 5;
    /// An engine is past some paging buffer.
    pub const PAGING: u64 = 1 << 6;
    /// The compiler of kernels has said something.
    pub const KERNELS: u64 = 1 << 7;
    /// A guest's display has something to report.
    pub const DISPLAY: u64 = 1 << 8;
}

/// What the control plane must scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scans {
    /// Bits of [`cause`].
    pub causes: u64,
    /// Engines with HW queues that may have logged signals with a CPU waiter, one bit each.
    pub logs: u64,
}

impl Scans {
    /// Returns whether the line was raised for this [`cause`].
    pub fn has(self, cause: u64) -> bool {
        self.causes & cause != 0
    }
}

/// The interrupt line and the interrupts behind it.
#[derive(Debug)]
pub struct Interrupts {
    raised: ArrayQueue<Raised>,
    /// Engines with queue logs that did not fit into `raised`, one bit each.
    scan_logs: PendingSet,
    line: InterruptLine,
    /// Signaled once each time the line is raised.
    event: Event,
}

impl Interrupts {
    /// No interrupts, with room for `capacity`.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            raised: ArrayQueue::new(capacity),
            scan_logs: PendingSet::new(),
            line: InterruptLine::new(),
            event: Event::new()?,
        })
    }

    /// Readable while there is something to take.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Control plane, before [`Self::take`]: makes the descriptor unreadable.
    pub fn acknowledge(&self) {
        self.event.clear();
    }

    /// Engine: calls `first` and raises that a fence passed its MonitoredValue. Does neither and returns false if
    /// the fence is already pending.
    pub fn raise_fence(&self, guest: GuestId, fence: &Fence<'_>, first: impl FnOnce()) -> bool {
        if !fence.interrupt.mark() {
            return false;
        }
        first();
        if self.raised.push(Raised::Fence { guest, slot: fence.slot }).is_err() {
            // Engines that found the fence pending meanwhile rely on this call.
            fence.interrupt.take();
            self.raise_for(cause::FENCES);
        } else {
            self.raise();
        }
        true
    }

    /// Engine `engine`: raises that one of its HW queues logged signals with a CPU waiter. Returns false if the
    /// interrupt did not fit; it then requests a scan instead.
    pub fn raise_logged(&self, guest: GuestId, queue: HwQueueId, engine: u32) -> bool {
        let fits = self.raised.push(Raised::Logged { guest, queue }).is_ok();
        if !fits {
            self.scan_logs.mark(1 << engine);
        }
        self.raise();
        fits
    }

    /// Engine: raises that a HW queue holds a fault.
    pub fn raise_fault(&self, queue: HwQueueId) {
        self.push_or_scan(Raised::Fault(queue), cause::FAULTS);
    }

    /// Engine: raises that a kernel-mode submission completed; the queue tells which.
    pub fn raise_completed(&self, queue: HwQueueId) {
        self.push_or_scan(Raised::Completed(queue), cause::QUEUES);
    }

    /// Engine: raises that a HW queue has stopped.
    pub fn raise_preempted(&self, queue: HwQueueId) {
        self.push_or_scan(Raised::Preempted(queue), cause::QUEUES);
    }

    /// Engine: raises that a HW queue makes no progress. The engine repeats it, so that a dropped one is not lost.
    pub fn raise_hung(&self, queue: HwQueueId, fault: Fault) {
        if self.raised.push(Raised::Hung(queue, fault)).is_ok() {
            self.raise();
        }
    }

    /// Raises the line with an interrupt, or for a scan if the interrupt does not fit.
    fn push_or_scan(&self, raised: Raised, cause: u64) {
        match self.raised.push(raised) {
            Ok(()) => self.raise(),
            Err(_) => self.raise_for(cause),
        }
    }

    /// Engine: raises that all engines passed a ticket.
    pub fn raise_quiesced(&self) {
        self.raise_for(cause::QUIESCED);
    }

    /// The thread that moves doorbell pages, under the rotation's lock: raises that there is a report.
    pub fn raise_rotated(&self) {
        self.raise_for(cause::ROTATED);
    }

    /// Engine: raises that its port holds a report.
    pub fn raise_engine_states(&self) {
        self.raise_for(cause::ENGINE_STATES);
    }

    /// Engine: raises that it is past a paging buffer.
    pub fn raise_paging(&self) {
        self.raise_for(cause::PAGING);
    }

    /// The manager of workers or the control plane: raises that the compiler has said something.
    pub fn raise_kernels(&self) {
        self.raise_for(cause::KERNELS);
    }

    /// Whoever changed a display, after the change: raises that it has something to report.
    pub fn raise_display(&self) {
        self.raise_for(cause::DISPLAY);
    }

    fn raise(&self) {
        if self.line.raise() {
            self.event.signal();
        }
    }

    fn raise_for(&self, cause: u64) {
        if self.line.raise_for(cause) {
            self.event.signal();
        }
    }

    /// Control plane: takes the interrupts and calls `each` with each of them.
    ///
    /// It takes at most the queue's capacity, or engines could keep it here indefinitely. The remaining interrupts
    /// were raised after the line was lowered, and have signaled the event again.
    pub fn take(&self, mut each: impl FnMut(Raised)) -> Scans {
        // The line first: an engine adds an interrupt before it raises the line.
        let causes = self.line.take();
        let scans = Scans { causes, logs: self.scan_logs.take() };
        for _ in 0..self.raised.capacity() {
            match self.raised.pop() {
                Some(raised) => each(raised),
                None => break,
            }
        }
        scans
    }
}

#[cfg(test)]
mod tests {
    use super::super::fence::table::tests::table_with_fence;
    use super::*;
    use bellhop_protocol::handoff::fence::FenceCell;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    const GUEST: GuestId = GuestId(1);

    fn is_readable(interrupts: &Interrupts) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let fd = interrupts.fd();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    fn take(interrupts: &Interrupts) -> (Vec<Raised>, Scans) {
        let mut taken = Vec::new();
        let scans = interrupts.take(|raised| taken.push(raised));
        (taken, scans)
    }

    #[test]
    fn a_fence_is_raised_once_until_it_is_taken_and_then_again() {
        let interrupts = Interrupts::new(4).unwrap();
        let (fences, bar) = table_with_fence(0);
        let fence = fences.global(1, &bar).unwrap();
        let raised = Raised::Fence { guest: GUEST, slot: 1 };
        for _ in 0..2 {
            assert!(!is_readable(&interrupts));
            assert!(interrupts.raise_fence(GUEST, &fence, || ()));
            for _ in 0..100 {
                assert!(!interrupts.raise_fence(GUEST, &fence, || ()));
            }
            assert!(is_readable(&interrupts));
            interrupts.acknowledge();
            assert_eq!(take(&interrupts), (vec![raised], Scans::default()));
            fence.interrupt.take();
        }
    }

    #[test]
    fn what_does_not_fit_becomes_a_scan() {
        let interrupts = Interrupts::new(1).unwrap();
        let (fences, bar) = table_with_fence(0);
        assert!(interrupts.raise_fence(GUEST, &fences.global(0, &bar).unwrap(), || ()));
        assert!(interrupts.raise_fence(GUEST, &fences.global(1, &bar).unwrap(), || ()));
        interrupts.raise_fault(HwQueueId(5));
        interrupts.raise_completed(HwQueueId(5));
        let (taken, scans) = take(&interrupts);
        assert_eq!(taken, [Raised::Fence { guest: GUEST, slot: 0 }]);
        let causes = cause::FENCES | cause::FAULTS | cause::QUEUES;
        assert_eq!(scans, Scans { causes, logs: 0 });
        // The fence that did not fit is not pending: it can be raised again.
        assert!(interrupts.raise_fence(GUEST, &fences.global(1, &bar).unwrap(), || ()));
        assert_eq!(take(&interrupts).0, [Raised::Fence { guest: GUEST, slot: 1 }]);
    }

    #[test]
    fn a_log_that_does_not_fit_becomes_a_scan_of_its_engine_and_can_be_raised_again() {
        let interrupts = Interrupts::new(1).unwrap();
        interrupts.raise_fault(HwQueueId(5));
        assert!(!interrupts.raise_logged(GUEST, HwQueueId(6), 3));
        let (taken, scans) = take(&interrupts);
        assert_eq!(taken, [Raised::Fault(HwQueueId(5))]);
        assert_eq!(scans, Scans { logs: 1 << 3, ..Scans::default() });
        assert!(interrupts.raise_logged(GUEST, HwQueueId(6), 3));
        let logged = Raised::Logged { guest: GUEST, queue: HwQueueId(6) };
        assert_eq!(take(&interrupts), (vec![logged], Scans::default()));
    }

    #[test]
    fn every_value_signaled_is_seen_after_some_take() {
        // Engines signal as fast as they can; in the end the taker must have seen the last value.
        let interrupts = Interrupts::new(2).unwrap();
        let (fences, bar) = table_with_fence(0);
        let fence = fences.global(1, &bar).unwrap();
        FenceCell::monitor([(fence.cell, 0)]);
        const LAST: u64 = 20_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..=LAST {
                    if fence.cell.signal(fence.published(), value).unwrap().interrupt {
                        interrupts.raise_fence(GUEST, &fence, || ());
                    }
                }
            });
            let mut seen = 0;
            while seen < LAST {
                let fd = interrupts.fd();
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
                interrupts.acknowledge();
                let scans = interrupts.take(|_| {
                    fence.interrupt.take();
                    seen = seen.max(fence.cell.current());
                });
                if scans.has(cause::FENCES) {
                    seen = seen.max(fence.cell.current());
                }
            }
        });
    }
}
