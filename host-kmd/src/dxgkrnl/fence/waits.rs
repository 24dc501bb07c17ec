// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waits of the CPU, for itself or for a queue: each for one fence, for all of several or for any of them.
//!
//! Source: native GPU fence object, "Existing monitored fence synchronization object" and
//! "Monitored value".

use bellhop_protocol::control::Handle;
use bellhop_protocol::handoff::fence::NOT_MONITORED;
use std::collections::{BTreeMap, BTreeSet};

/// Names a wait of a guest. Ids order waits by when they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitId(u64);

#[cfg(test)]
impl WaitId {
    /// An id for a test that has no waits.
    pub(crate) fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// One condition of a wait: a fence and the value that it must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The process's name for the fence.
    pub(crate) handle: Handle,
    /// The value.
    pub(crate) value: u64,
}

/// The waiting party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A CPU, which knows the wait by this cookie; an event tells it that the wait ended.
    Cpu(u64),
    /// A HW queue. The wait holds its software queue.
    Queue(Handle),
    /// A flip of the guest, by its number.
    Flip(u64),
}

/// A wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    process: u32,
    owner: Owner,
    /// Whether one fence is enough.
    any: bool,
    since: u64,
    /// The global fences, by slot, that have not reached the values that the wait needs.
    fences: BTreeMap<u32, Needed>,
}

impl Wait {
    /// Creates a wait without fences: for any of those added later, or for all of them.
    pub(crate) fn new(process: u32, owner: Owner, any: bool) -> Self {
        Self { process, owner, any, since: 0, fences: BTreeMap::new() }
    }

    /// Records when it begins, on the adapter's clock; 0 if no tool traces.
    pub(crate) fn begin(&mut self, now: u64) {
        self.since = now;
    }

    /// The process that waits.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// The waiting party: a CPU or a queue.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// When it began, on the adapter's clock; 0 if no tool traced then.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// The global fences, by slot, that have not reached the values that the wait needs.
    pub(crate) fn fences(&self) -> &BTreeMap<u32, Needed> {
        &self.fences
    }

    /// Drops the wait and returns the fences that it still needed.
    pub(crate) fn into_fences(self) -> BTreeMap<u32, Needed> {
        self.fences
    }

    /// Adds a fence, even one that was added before.
    pub(crate) fn add(&mut self, fence: u32, needed: Needed) {
        let entry = self.fences.entry(fence).or_insert(needed);
        // A wait for any needs the least of its values, a wait for all the greatest.
        let enough = if self.any { u64::min } else { u64::max };
        entry.value = enough(needed.value, entry.value);
    }

    /// A fence has reached the value that the wait needs. Returns whether the wait is satisfied.
    pub(crate) fn reach(&mut self, fence: u32) -> bool {
        self.fences.remove(&fence);
        self.any || self.fences.is_empty()
    }

    /// A fence will never reach the value that the wait needs. Returns whether other fences can still satisfy the
    /// wait.
    fn lose(&mut self, fence: u32) -> bool {
        self.fences.remove(&fence);
        self.any && !self.fences.is_empty()
    }
}

/// The unsatisfied waits of one guest, by id and by cookie. Cookies need not be unique.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    by_id: BTreeMap<WaitId, Wait>,
    /// (process, cookie, wait)
    by_cookie: BTreeSet<(u32, u64, WaitId)>,
    begun: u64,
}

impl Waits {
    /// Begins a wait.
    pub(crate) fn add(&mut self, wait: Wait) -> WaitId {
        self.begun += 1;
        let id = WaitId(self.begun);
        if let Owner::Cpu(cookie) = wait.owner {
            self.by_cookie.insert((wait.process, cookie, id));
        }
        self.by_id.insert(id, wait);
        id
    }

    /// A process's oldest wait with this cookie.
    pub(crate) fn oldest(&self, process: u32, cookie: u64) -> Option<WaitId> {
        let with_cookie = (process, cookie, WaitId(0))..=(process, cookie, WaitId(u64::MAX));
        self.by_cookie.range(with_cookie).next().map(|(.., id)| *id)
    }

    /// A wait.
    pub(crate) fn get(&self, id: WaitId) -> Option<&Wait> {
        self.by_id.get(&id)
    }

    /// Ends a wait.
    pub(crate) fn remove(&mut self, id: WaitId) -> Option<Wait> {
        let wait = self.by_id.remove(&id)?;
        if let Owner::Cpu(cookie) = wait.owner {
            self.by_cookie.remove(&(wait.process, cookie, id));
        }
        Some(wait)
    }

    /// A fence has reached the value that a wait needs: ends and returns the wait if it is satisfied.
    pub(crate) fn reach(&mut self, id: WaitId, fence: u32) -> Option<Wait> {
        let is_satisfied = self.by_id.get_mut(&id)?.reach(fence);
        is_satisfied.then(|| self.remove(id)).flatten()
    }

    /// A fence that a wait needs was closed: ends and returns the wait if it can never be satisfied.
    pub(crate) fn lose(&mut self, id: WaitId, fence: u32) -> Option<Wait> {
        let goes_on = self.by_id.get_mut(&id)?.lose(fence);
        (!goes_on).then(|| self.remove(id)).flatten()
    }
}

/// The waits for one fence, by value.
#[derive(Debug, Default)]
pub(crate) struct Waiters(BTreeSet<(u64, WaitId)>);

impl Waiters {
    /// Adds a wait that needs the fence at `value`.
    pub(crate) fn add(&mut self, value: u64, wait: WaitId) {
        self.0.insert((value, wait));
    }

    /// Removes a wait that needs the fence at `value`.
    pub(crate) fn remove(&mut self, value: u64, wait: WaitId) {
        self.0.remove(&(value, wait));
    }

    /// Takes a wait for a value that `current` has reached, lowest value first.
    pub(crate) fn take_reached(&mut self, current: u64) -> Option<WaitId> {
        let &(value, wait) = self.0.first()?;
        (value <= current).then(|| {
            self.0.pop_first();
            wait
        })
    }

    /// The required MonitoredValue: the least waited value minus 1.
    pub(crate) fn monitored(&self) -> u64 {
        // A wait for 0 is satisfied before it is added.
        self.0.first().map_or(NOT_MONITORED, |(value, _)| value.saturating_sub(1))
    }

    /// The waits with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, WaitId)> {
        self.0.iter().copied()
    }

    /// Number of waits.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: u32 = 3;
    const A: u32 = 1;
    const B: u32 = 2;

    fn wait(cookie: u64, any: bool, fences: &[(u32, u64)]) -> Wait {
        let mut wait = Wait::new(PROCESS, Owner::Cpu(cookie), any);
        for (fence, value) in fences {
            wait.add(*fence, Needed { handle: Handle(9), value: *value });
        }
        wait
    }

    fn values(wait: &Wait) -> Vec<(u32, u64)> {
        wait.fences.iter().map(|(fence, needed)| (*fence, needed.value)).collect()
    }

    #[test]
    fn the_monitored_value_is_one_less_than_the_least_waited_one() {
        let mut waiters = Waiters::default();
        assert_eq!(waiters.monitored(), NOT_MONITORED);
        waiters.add(50, WaitId(2));
        waiters.add(42, WaitId(1));
        assert_eq!(waiters.monitored(), 41);
        assert_eq!(waiters.take_reached(41), None);
        assert_eq!(waiters.take_reached(42), Some(WaitId(1)));
        assert_eq!(waiters.monitored(), 49);
        waiters.remove(50, WaitId(2));
        assert_eq!(waiters.monitored(), NOT_MONITORED);
    }

    #[test]
    fn of_a_fence_that_is_named_twice_all_need_the_greater_value_and_any_the_lesser() {
        let named = [(A, 5), (B, 1), (A, 3)];
        assert_eq!(values(&wait(0, false, &named)), [(A, 5), (B, 1)]);
        assert_eq!(values(&wait(0, true, &named)), [(A, 3), (B, 1)]);
    }

    #[test]
    fn a_wait_for_all_ends_with_the_last_fence_and_one_for_any_with_the_first() {
        let mut waits = Waits::default();
        let all = waits.add(wait(7, false, &[(A, 1), (B, 1)]));
        let any = waits.add(wait(7, true, &[(A, 1), (B, 1)]));
        assert_eq!(waits.reach(all, B), None);
        assert!(waits.reach(any, B).is_some());
        assert!(waits.reach(all, A).is_some());
        assert_eq!(waits.oldest(PROCESS, 7), None);
    }

    #[test]
    fn a_wait_without_a_fence_that_it_must_have_is_forgotten() {
        let mut waits = Waits::default();
        let all = waits.add(wait(7, false, &[(A, 1), (B, 1)]));
        let any = waits.add(wait(7, true, &[(A, 1), (B, 1)]));
        assert!(waits.lose(all, A).is_some());
        assert_eq!(waits.lose(any, A), None);
        assert!(waits.lose(any, B).is_some());
        assert_eq!(waits.oldest(PROCESS, 7), None);
    }

    #[test]
    fn the_oldest_wait_with_a_cookie_is_the_one_that_it_names() {
        let mut waits = Waits::default();
        let first = waits.add(wait(7, false, &[(A, 1)]));
        let second = waits.add(wait(7, false, &[(A, 1)]));
        assert_eq!(waits.oldest(PROCESS, 7), Some(first));
        assert!(waits.remove(first).is_some());
        assert_eq!(waits.oldest(PROCESS, 7), Some(second));
        assert_eq!(waits.oldest(PROCESS, 8), None);
        assert_eq!(waits.oldest(PROCESS + 1, 7), None);
    }
}
