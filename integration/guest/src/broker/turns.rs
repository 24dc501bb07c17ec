// SPDX-License-Identifier: MIT OR Apache-2.0

//! Turns: whose request is in flight on the device.
//!
//! The device takes so many requests of a guest at once, and some take long, such as the end of a queue whose work hangs. So
//! a place is kept for each user who has a program and no request in flight: no user waits for what another one's requests
//! wait for. The other places are for whoever comes first.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The turns of all programs.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: usize,
    users: BTreeMap<u32, User>,
}

/// A user with programs or requests.
#[derive(Debug, Default)]
struct User {
    programs: usize,
    in_flight: usize,
}

impl State {
    /// Places that are kept for others.
    fn kept_from(&self, user: u32) -> usize {
        let others = self.users.iter().filter(|(other, _)| **other != user);
        others.filter(|(_, of)| of.programs > 0 && of.in_flight == 0).count()
    }

    fn may_begin(&self, user: u32) -> bool {
        let is_first = self.users.get(&user).is_none_or(|of| of.in_flight == 0);
        self.free > if is_first { 0 } else { self.kept_from(user) }
    }

    fn forget_if_unused(&mut self, user: u32) {
        let is_unused = |of: &User| of.programs == 0 && of.in_flight == 0;
        if self.users.get(&user).is_some_and(is_unused) {
            self.users.remove(&user);
        }
    }
}

impl Turns {
    /// Turns on a device that takes so many requests at once.
    pub(super) fn new(requests: usize) -> Self {
        let state = State { free: requests, users: BTreeMap::new() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// No code panics while it holds the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program of this user has come.
    pub(super) fn add_program(&self, user: u32) {
        self.lock().users.entry(user).or_default().programs += 1;
    }

    /// A program of this user has gone.
    pub(super) fn remove_program(&self, user: u32) {
        let mut state = self.lock();
        if let Some(of) = state.users.get_mut(&user) {
            of.programs -= 1;
        }
        state.forget_if_unused(user);
        // A place may no longer be kept.
        self.changed.notify_all();
    }

    /// Acts for this user when it is its turn.
    pub(super) fn with<T>(&self, user: u32, act: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        while !state.may_begin(user) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.free -= 1;
        state.users.entry(user).or_default().in_flight += 1;
        drop(state);
        let done = act();
        let mut state = self.lock();
        state.free += 1;
        if let Some(of) = state.users.get_mut(&user) {
            of.in_flight -= 1;
        }
        state.forget_if_unused(user);
        self.changed.notify_all();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins as many requests as may be, up to `most`; returns how many.
    fn begin(turns: &Turns, user: u32, most: usize) -> usize {
        let mut state = turns.lock();
        let mut begun = 0;
        while begun < most && state.may_begin(user) {
            state.free -= 1;
            state.users.entry(user).or_default().in_flight += 1;
            begun += 1;
        }
        begun
    }

    #[test]
    fn a_place_is_kept_for_each_user_who_has_a_program_and_no_request() {
        let turns = Turns::new(5);
        [1, 2, 2, 3].iter().for_each(|user| turns.add_program(*user));
        assert_eq!(begin(&turns, 1, 9), 3, "two are kept");
        assert_eq!(begin(&turns, 2, 9), 1, "its own, and one is kept");
        assert_eq!(begin(&turns, 3, 9), 1);
        assert_eq!(begin(&turns, 3, 1), 0);
    }

    #[test]
    fn a_user_alone_has_all_places_and_the_end_of_another_ones_programs_frees_what_was_kept() {
        let turns = Turns::new(3);
        turns.add_program(1);
        turns.add_program(2);
        assert_eq!(begin(&turns, 1, 9), 2);
        turns.remove_program(2);
        assert_eq!(begin(&turns, 1, 9), 1);
        turns.lock().users.clear();
        turns.lock().free = 3;
        assert_eq!(turns.with(7, || 5), 5);
        assert!(
            turns.lock().users.is_empty(),
            "a program that has gone may still end its processes"
        );
    }

    #[test]
    fn who_waits_goes_on_when_another_request_is_done() {
        let turns = Turns::new(1);
        turns.add_program(1);
        let (begun, is_begun) = std::sync::mpsc::channel();
        let (end, is_ended) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|threads| {
            let turns = &turns;
            threads.spawn(move || {
                turns.with(1, || {
                    begun.send(()).unwrap();
                    is_ended.recv().unwrap();
                });
            });
            is_begun.recv().unwrap();
            let second = threads.spawn(move || turns.with(1, || true));
            end.send(()).unwrap();
            assert!(second.join().unwrap());
        });
        assert_eq!(turns.lock().free, 1);
    }
}
