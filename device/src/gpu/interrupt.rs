//! Interrupts: engines raise, the control plane takes.
//!
//! A bounded queue holds what was raised. A fence is in it at most once, however often a guest
//! signals it, and a HW queue faults once; should it be full all the same, a flag says to scan
//! everything. So nothing is lost and nothing grows.
//!
//! Source: native GPU fence object, "Native fence signaled interrupt".

use super::event::Event;
use super::fence_table::Fence;
use bellhop_host_kmd::hardware::{Fault, GuestId, HwQueueId};
use crossbeam_queue::ArrayQueue;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What an engine raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// A fence passed its MonitoredValue.
    Fence {
        /// Whose.
        guest: GuestId,
        /// Which.
        slot: u32,
    },
    /// A HW queue has logged signals that somebody waits for.
    Logged {
        /// Whose.
        guest: GuestId,
        /// Which.
        queue: HwQueueId,
    },
    /// A HW queue holds a fault.
    Fault(HwQueueId),
    /// A kernel-mode submission of a HW queue is done.
    Completed(HwQueueId),
    /// A HW queue that was pre-empted has stopped.
    Preempted(HwQueueId),
    /// A HW queue makes no progress. One that finds no room is raised again later.
    Hung(HwQueueId, Fault),
}

/// What was raised without saying for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scans {
    /// Some ticket passed.
    pub quiesced: bool,
    /// Something became of a doorbell's page.
    pub rotated: bool,
    /// Any monitored fence may have been signaled.
    pub fences: bool,
    /// Any HW queue of these engines may have logged such signals, one bit each.
    pub logs: u64,
    /// Any HW queue may hold a fault.
    pub faults: bool,
    /// Any HW queue may have completed a submission, or have stopped.
    pub queues: bool,
    /// Some engine told of itself.
    pub engine_states: bool,
    /// Some paging buffer is done with.
    pub paging: bool,
}

/// The interrupt line and what is behind it.
#[derive(Debug)]
pub struct Interrupts {
    raised: ArrayQueue<Raised>,
    quiesced: AtomicBool,
    rotated: AtomicBool,
    scan_fences: AtomicBool,
    scan_logs: AtomicU64,
    scan_faults: AtomicBool,
    scan_queues: AtomicBool,
    engine_states: AtomicBool,
    paging: AtomicBool,
    /// The event is signaled and nobody has taken since.
    line: AtomicBool,
    event: Event,
}

impl Interrupts {
    /// No interrupts, and room for `capacity`.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            raised: ArrayQueue::new(capacity),
            quiesced: AtomicBool::new(false),
            rotated: AtomicBool::new(false),
            scan_fences: AtomicBool::new(false),
            scan_logs: AtomicU64::new(0),
            scan_faults: AtomicBool::new(false),
            scan_queues: AtomicBool::new(false),
            engine_states: AtomicBool::new(false),
            paging: AtomicBool::new(false),
            line: AtomicBool::new(false),
            event: Event::new()?,
        })
    }

    /// Readable when there is something to take.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Control plane, before [`Self::take`]: makes the descriptor unreadable.
    pub fn acknowledge(&self) {
        self.event.clear();
    }

    /// Engine: a fence passed its MonitoredValue. False when that was raised already and is not
    /// taken yet.
    pub fn raise_fence(&self, guest: GuestId, fence: Fence<'_>) -> bool {
        // Pairs with the exchange in `lower_fence`: if this finds an interrupt pending, whoever
        // takes that one sees the CurrentValue stored before this.
        if fence.interrupt_pending.swap(true, Ordering::AcqRel) {
            return false;
        }
        if self.raised.push(Raised::Fence { guest, slot: fence.slot }).is_err() {
            // Acquires from engines that found it pending meanwhile, and hands over to `take`.
            fence.interrupt_pending.swap(false, Ordering::AcqRel);
            self.scan_fences.store(true, Ordering::Release);
        }
        self.assert_line();
        true
    }

    /// Engine `engine`: a HW queue of its has logged signals that somebody waits for. False when it did not
    /// fit, and is not pending.
    pub fn raise_logged(&self, guest: GuestId, queue: HwQueueId, engine: u32) -> bool {
        let fits = self.raised.push(Raised::Logged { guest, queue }).is_ok();
        if !fits {
            // Releases the log to `take`.
            self.scan_logs.fetch_or(1 << engine, Ordering::AcqRel);
        }
        self.assert_line();
        fits
    }

    /// Engine: a HW queue holds a fault.
    pub fn raise_fault(&self, queue: HwQueueId) {
        if self.raised.push(Raised::Fault(queue)).is_err() {
            // Releases the fault to `take`.
            self.scan_faults.store(true, Ordering::Release);
        }
        self.assert_line();
    }

    /// Engine: a kernel-mode submission of a HW queue is done, which the queue says when asked.
    pub fn raise_completed(&self, queue: HwQueueId) {
        self.raise_queue(Raised::Completed(queue));
    }

    /// Engine: a HW queue has stopped.
    pub fn raise_preempted(&self, queue: HwQueueId) {
        self.raise_queue(Raised::Preempted(queue));
    }

    /// Engine: a HW queue makes no progress. It says so again and again, so none is lost for good.
    pub fn raise_hung(&self, queue: HwQueueId, fault: Fault) {
        if self.raised.push(Raised::Hung(queue, fault)).is_ok() {
            self.assert_line();
        }
    }

    fn raise_queue(&self, raised: Raised) {
        if self.raised.push(raised).is_err() {
            // Releases what the queue holds to `take`.
            self.scan_queues.store(true, Ordering::Release);
        }
        self.assert_line();
    }

    /// Engine: a ticket passed.
    pub fn raise_quiesced(&self) {
        self.quiesced.store(true, Ordering::Release);
        self.assert_line();
    }

    /// Whoever moves doorbells' pages: something became of one. Under the lock that guards what.
    pub fn raise_rotated(&self) {
        self.rotated.store(true, Ordering::Release);
        self.assert_line();
    }

    /// Engine: has told of itself, in its port.
    pub fn raise_engine_states(&self) {
        self.engine_states.store(true, Ordering::Release);
        self.assert_line();
    }

    /// Engine: is past some paging buffer.
    pub fn raise_paging(&self) {
        self.paging.store(true, Ordering::Release);
        self.assert_line();
    }

    /// Pairs with the exchange in `take`: either that follows, and then sees what was raised
    /// before this, or this signals again.
    fn assert_line(&self) {
        if !self.line.swap(true, Ordering::AcqRel) {
            self.event.signal();
        }
    }

    /// Control plane: takes what was raised, handing each to `each`.
    ///
    /// Takes no more than the queue holds, or engines could keep it here for good. What is left
    /// then was raised after the line was lowered, and has signaled the event again.
    pub fn take(&self, mut each: impl FnMut(Raised)) -> Scans {
        self.line.swap(false, Ordering::AcqRel);
        let scans = Scans {
            quiesced: self.quiesced.swap(false, Ordering::AcqRel),
            rotated: self.rotated.swap(false, Ordering::AcqRel),
            fences: self.scan_fences.swap(false, Ordering::AcqRel),
            logs: self.scan_logs.swap(0, Ordering::AcqRel),
            faults: self.scan_faults.swap(false, Ordering::AcqRel),
            queues: self.scan_queues.swap(false, Ordering::AcqRel),
            engine_states: self.engine_states.swap(false, Ordering::AcqRel),
            paging: self.paging.swap(false, Ordering::AcqRel),
        };
        for _ in 0..self.raised.capacity() {
            match self.raised.pop() {
                Some(raised) => each(raised),
                None => break,
            }
        }
        scans
    }

    /// Control plane, before it looks at a fence that it took: the next signal raises again.
    pub fn lower_fence(fence: Fence<'_>) {
        fence.interrupt_pending.swap(false, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fence_table::tests::table_with_fence;
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
            assert!(interrupts.raise_fence(GUEST, fence));
            for _ in 0..100 {
                assert!(!interrupts.raise_fence(GUEST, fence));
            }
            assert!(is_readable(&interrupts));
            interrupts.acknowledge();
            assert_eq!(take(&interrupts), (vec![raised], Scans::default()));
            Interrupts::lower_fence(fence);
        }
    }

    #[test]
    fn what_does_not_fit_is_told_as_a_scan() {
        let interrupts = Interrupts::new(1).unwrap();
        let (fences, bar) = table_with_fence(0);
        assert!(interrupts.raise_fence(GUEST, fences.global(0, &bar).unwrap()));
        assert!(interrupts.raise_fence(GUEST, fences.global(1, &bar).unwrap()));
        interrupts.raise_fault(HwQueueId(5));
        interrupts.raise_completed(HwQueueId(5));
        let (taken, scans) = take(&interrupts);
        assert_eq!(taken, [Raised::Fence { guest: GUEST, slot: 0 }]);
        assert_eq!(scans, Scans { fences: true, faults: true, queues: true, ..Scans::default() });
        // The fence that did not fit is not pending: it can be raised again.
        assert!(interrupts.raise_fence(GUEST, fences.global(1, &bar).unwrap()));
        assert_eq!(take(&interrupts).0, [Raised::Fence { guest: GUEST, slot: 1 }]);
    }

    #[test]
    fn a_log_that_does_not_fit_is_told_as_a_scan_of_its_engine_and_can_be_raised_again() {
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
        // Engines signal as fast as they can; the taker must end up having seen the last value.
        let interrupts = Interrupts::new(2).unwrap();
        let (fences, bar) = table_with_fence(0);
        let fence = fences.global(1, &bar).unwrap();
        FenceCell::monitor([(fence.cell, 0)]);
        const LAST: u64 = 20_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..=LAST {
                    if fence.cell.signal(fence.published, value).unwrap().interrupt {
                        interrupts.raise_fence(GUEST, fence);
                    }
                }
            });
            let mut seen = 0;
            while seen < LAST {
                let fd = interrupts.fd();
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
                interrupts.acknowledge();
                let scans = interrupts.take(|_| {
                    Interrupts::lower_fence(fence);
                    seen = seen.max(fence.cell.current());
                });
                if scans.fences {
                    seen = seen.max(fence.cell.current());
                }
            }
        });
    }
}
