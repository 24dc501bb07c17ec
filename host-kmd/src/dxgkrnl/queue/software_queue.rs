// SPDX-License-Identifier: MIT OR Apache-2.0

//! The work of a kernel-mode queue while the queue cannot continue: its *software queue*, VidSch's software context.
//!
//! The GPU cannot wait for monitored fences: "the operating system implements this functionality on the CPU by
//! holding off GPU work that's dependent on the waited value, and only releasing it to the GPU when the value is
//! signaled". So everything behind a pending wait is held here, in order. A signal takes effect when everything
//! before it is done on the GPU; what is behind it is held until then: "when packet is at head of SWContext, vidsch
//! updates fence value directly from CPU".
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and "Cross-adapter
//! wait/signal combinations".

use crate::dxgkrnl::fence::waits::WaitId;
use crate::hardware::{Fault, GuestId};
use bellhop_protocol::control::Handle;
use std::collections::{BTreeSet, VecDeque};

/// A held entry.
#[derive(Debug)]
enum Held<S, C> {
    Wait(WaitId),
    Signal(S),
    Submission(C),
}

/// A released entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ready<S, C> {
    /// Takes effect now.
    Signal(S),
    /// Goes to the hardware now.
    Submission(C),
}

/// The held entries of one queue, oldest first: signals and submissions, and waits between them.
#[derive(Debug)]
pub(crate) struct SoftwareQueue<S, C> {
    held: VecDeque<Held<S, C>>,
    /// The waits that are over. A set, because a guest may have many waits end at once.
    over: BTreeSet<WaitId>,
}

impl<S, C> Default for SoftwareQueue<S, C> {
    fn default() -> Self {
        Self { held: VecDeque::new(), over: BTreeSet::new() }
    }
}

impl<S, C> SoftwareQueue<S, C> {
    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether a signal or a submission is held.
    pub(crate) fn has_work(&self) -> bool {
        self.held.iter().any(|held| !matches!(held, Held::Wait(_)))
    }

    /// Number of held waits, signals and submissions.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Holds later entries until a wait is over.
    pub(crate) fn push_wait(&mut self, wait: WaitId) {
        self.held.push_back(Held::Wait(wait));
    }

    /// Holds a signal until its turn.
    pub(crate) fn push_signal(&mut self, signal: S) {
        self.held.push_back(Held::Signal(signal));
    }

    /// Holds a submission until its turn.
    pub(crate) fn push_submission(&mut self, submission: C) {
        self.held.push_back(Held::Submission(submission));
    }

    /// Puts back a submission that the hardware has no room for: it is next again.
    pub(crate) fn put_back(&mut self, submission: C) {
        self.held.push_front(Held::Submission(submission));
    }

    /// Marks a held wait as over.
    pub(crate) fn end_wait(&mut self, wait: WaitId) {
        self.over.insert(wait);
    }

    /// Drops waits at the head that are over, then takes the next entry that can be released. `is_idle` means that
    /// the hardware has done all its work, so a signal may take effect.
    pub(crate) fn next(&mut self, is_idle: bool) -> Option<Ready<S, C>> {
        while let Some(Held::Wait(wait)) = self.held.front()
            && self.over.remove(wait)
        {
            self.held.pop_front();
        }
        let goes_on = |held: &mut Held<S, C>| match held {
            Held::Wait(_) => false,
            Held::Signal(_) => is_idle,
            Held::Submission(_) => true,
        };
        match self.held.pop_front_if(goes_on)? {
            Held::Signal(signal) => Some(Ready::Signal(signal)),
            Held::Submission(submission) => Some(Ready::Submission(submission)),
            Held::Wait(_) => None,
        }
    }

    /// Drops everything. Returns the pending waits, and the submissions.
    pub(crate) fn abandon(&mut self) -> (Vec<WaitId>, Vec<C>) {
        let over = std::mem::take(&mut self.over);
        let (mut waits, mut submissions) = (Vec::new(), Vec::new());
        for held in self.held.drain(..) {
            match held {
                Held::Wait(wait) if !over.contains(&wait) => waits.push(wait),
                Held::Submission(submission) => submissions.push(submission),
                Held::Wait(_) | Held::Signal(_) => {}
            }
        }
        (waits, submissions)
    }
}

/// A signal of a fence. Slot and serial number name the fence even after the process has closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldSignal {
    pub(crate) slot: u32,
    pub(crate) serial: u64,
    pub(crate) value: u64,
    /// When it was queued, on the adapter's clock; 0 if no tool traced then.
    pub(crate) queued: u64,
}

/// A queue that may continue its software queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Released {
    pub(crate) guest: GuestId,
    pub(crate) process: u32,
    pub(crate) hw_queue: Handle,
    /// Why the queue is lost, if it is: it waited for a fence that is gone.
    pub(crate) fault: Option<Fault>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An entry given to a queue.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Given {
        Wait(usize),
        Signal(usize),
        Submission(usize),
    }

    /// A step of the test.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Wait,
        Signal,
        Submission,
        /// One of the waits ends, unless it has.
        EndWait(usize),
        /// The hardware finishes its oldest submission.
        Complete,
        /// Whether the hardware has room from now on.
        Room(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0..8u8, any::<usize>()).prop_map(|(kind, which)| match kind {
            0 => Step::Wait,
            1 => Step::Signal,
            2 | 3 => Step::Submission,
            4 | 5 => Step::EndWait(which),
            6 => Step::Complete,
            _ => Step::Room(which % 2 == 0),
        })
    }

    /// The number of entries of `given` that should have come out since the start.
    fn expected(given: &[Given], over: &[bool], completed: usize, room: bool, out: usize) -> usize {
        let (mut come_out, mut submitted) = (0, 0);
        for packet in given {
            match *packet {
                Given::Wait(wait) if !over[wait] => break,
                Given::Wait(_) => continue,
                Given::Signal(_) if submitted > completed => break,
                Given::Submission(_) if !room && come_out >= out => break,
                Given::Submission(_) => submitted += 1,
                Given::Signal(_) => {}
            }
            come_out += 1;
        }
        come_out
    }

    proptest! {
        /// Everything comes out in order, neither earlier nor later than it may.
        #[test]
        fn a_software_queue_is_in_order_loses_nothing_and_releases_nothing_early(
            steps in proptest::collection::vec(step(), 0..120),
        ) {
            let mut queue = SoftwareQueue::<usize, usize>::default();
            let (mut given, mut over, mut out) = (Vec::new(), Vec::new(), Vec::new());
            let (mut submitted, mut completed, mut room) = (0, 0, true);
            for step in steps {
                let number = given.len();
                match step {
                    Step::Wait => {
                        queue.push_wait(WaitId::numbered(over.len() as u64));
                        given.push(Given::Wait(over.len()));
                        over.push(false);
                    }
                    Step::Signal => {
                        queue.push_signal(number);
                        given.push(Given::Signal(number));
                    }
                    Step::Submission => {
                        queue.push_submission(number);
                        given.push(Given::Submission(number));
                    }
                    Step::EndWait(which) if !over.is_empty() => {
                        let wait = which % over.len();
                        if !std::mem::replace(&mut over[wait], true) {
                            queue.end_wait(WaitId::numbered(wait as u64));
                        }
                    }
                    Step::EndWait(_) => {}
                    Step::Complete => completed = submitted.min(completed + 1),
                    Step::Room(has_room) => room = has_room,
                }
                while let Some(ready) = queue.next(submitted == completed) {
                    match ready {
                        Ready::Signal(number) => out.push(Given::Signal(number)),
                        Ready::Submission(number) if room => {
                            submitted += 1;
                            out.push(Given::Submission(number));
                        }
                        Ready::Submission(number) => {
                            queue.put_back(number);
                            break;
                        }
                    }
                }
                let visible = given.iter().copied().filter(|given| !matches!(given, Given::Wait(_)));
                let visible: Vec<_> = visible.collect();
                prop_assert_eq!(&out[..], &visible[..out.len()]);
                prop_assert_eq!(out.len(), expected(&given, &over, completed, room, out.len()));
                let held = visible.len() - out.len();
                prop_assert!(queue.len() >= held);
            }
            let left = over.iter().filter(|over| !**over).count();
            let (waits, submissions) = queue.abandon();
            prop_assert_eq!(waits.len(), left);
            prop_assert_eq!(submissions.len() + submitted, given.iter().filter(|given| {
                matches!(given, Given::Submission(_))
            }).count());
        }
    }
}
