// SPDX-License-Identifier: MIT OR Apache-2.0

//! The work list: what remains to do before an input is handled.
//!
//! A rule that changes what another rule waits for leaves a value here. The kernel takes values until none is left.
//! The list hands them out by kind, so the effects of an input do not depend on the order in which rules left them.

use crate::dxgkrnl::queue::software_queue::Released;
use crate::hardware::GuestId;
use std::collections::{BTreeSet, VecDeque};

/// A rule that may have work to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Resumes the contexts that were suspended for lack of power.
    PowerUp,
    /// Checks for hangs, and takes the next step of recoveries that are stuck.
    Recoveries,
    /// Checks in page tables what engines use.
    Migration,
    /// Answers requests to connect that have ended.
    Connects,
    /// Begins and continues a guest's paging: VidMm may have decided something, or engines may have made progress.
    Paging(GuestId),
    /// Gives the hardware a guest's flips, or resets its display.
    Display(GuestId),
    /// Answers those who wait for agents, and agents that wait for programs.
    Agents,
    /// Continues software queues.
    SoftwareQueues,
    /// Takes the device a step closer to D3.
    PowerDown,
    /// Continues terminations.
    Terminations,
    /// Frees what engines have forgotten.
    Retirements,
}

/// One piece of work.
#[derive(Debug)]
pub(crate) enum Work {
    /// Runs a rule.
    Look(Rule),
    /// Continues a software queue, or loses its queue.
    Release(Released),
}

/// All remaining work.
#[derive(Debug, Default)]
pub(crate) struct WorkList {
    rules: BTreeSet<Rule>,
    released: VecDeque<Released>,
}

impl WorkList {
    /// Something happened that a rule may wait for.
    pub(crate) fn wake(&mut self, rule: Rule) {
        self.rules.insert(rule);
    }

    /// Something happened that a software queue may wait for.
    pub(crate) fn release(&mut self, released: Released) {
        self.released.push_back(released);
        self.rules.insert(Rule::SoftwareQueues);
    }

    /// Takes the next piece of work.
    pub(crate) fn pop(&mut self) -> Option<Work> {
        loop {
            match *self.rules.first()? {
                Rule::SoftwareQueues => match self.released.pop_front() {
                    Some(released) => return Some(Work::Release(released)),
                    None => self.rules.remove(&Rule::SoftwareQueues),
                },
                rule => {
                    self.rules.remove(&rule);
                    return Some(Work::Look(rule));
                }
            };
        }
    }

    /// Whether no work is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.released.is_empty() && self.rules.iter().all(|rule| *rule == Rule::SoftwareQueues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::control::Handle;

    fn released(handle: u64) -> Released {
        Released { guest: GuestId(1), process: 1, hw_queue: Handle(handle), fault: None }
    }

    #[test]
    fn a_rule_that_is_woken_twice_looks_once_and_each_guest_s_paging_is_a_rule_of_its_own() {
        let mut work = WorkList::default();
        for guest in [2, 1, 2] {
            work.wake(Rule::Paging(GuestId(guest)));
        }
        let looks = std::iter::from_fn(|| match work.pop()? {
            Work::Look(rule) => Some(rule),
            Work::Release(_) => None,
        });
        let expected = [1, 2].map(|guest| Rule::Paging(GuestId(guest)));
        assert_eq!(looks.collect::<Vec<_>>(), expected);
        assert!(work.is_empty());
    }

    #[test]
    fn queues_are_released_in_their_order_and_before_what_waits_for_them() {
        let mut work = WorkList::default();
        work.wake(Rule::Terminations);
        work.release(released(7));
        work.release(released(5));
        for handle in [7, 5] {
            let Some(Work::Release(Released { hw_queue, .. })) = work.pop() else { panic!() };
            assert_eq!(hw_queue, Handle(handle));
        }
        assert!(!work.is_empty());
        assert!(matches!(work.pop(), Some(Work::Look(Rule::Terminations))));
        assert!(work.pop().is_none() && work.is_empty());
    }
}
