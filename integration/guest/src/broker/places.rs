// SPDX-License-Identifier: MIT OR Apache-2.0

//! Places: of programs in the broker, and of their requests on the device.
//!
//! The device takes so many requests of a guest at once, and some take long, such as the end of a queue whose work hangs. So a
//! place for a request is kept for each user who has a program and no request in flight: no user waits for what another one's
//! requests wait for. The other places are for whoever comes first.

use super::limits::{Limits, UserLimits};
use crate::listener::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The places, and who has how many.
#[derive(Debug)]
pub(super) struct Places {
    limits: Limits,
    state: Mutex<State>,
    /// A program has gone, or a request is done.
    left: Condvar,
}

#[derive(Debug)]
struct State {
    /// Requests that the device takes beside those in flight.
    free: usize,
    /// Those who have a program.
    users: BTreeMap<u32, User>,
}

#[derive(Debug, Default)]
struct User {
    programs: usize,
    in_flight: usize,
}

/// A program's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    user: u32,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    /// All are taken.
    #[error("there are {0} programs, as many as may be: broker.programs")]
    Programs(usize),
    /// The user has all that one may have.
    #[error(
        "this user has {0} programs, as many as it may have: default.programs, or its [[user]]"
    )]
    OfUser(usize),
}

impl State {
    fn user(&mut self, user: u32) -> &mut User {
        self.users.entry(user).or_default()
    }

    /// Whether a request of this user's may begin: beside the places that are kept for others.
    fn may_begin(&mut self, user: u32) -> bool {
        if self.user(user).in_flight == 0 {
            return self.free > 0;
        }
        let kept = self.users.values().filter(|of| of.in_flight == 0).count();
        self.free > kept
    }
}

impl Places {
    /// Places under these limits, on a device that takes so many requests at once.
    pub(super) fn new(limits: &Limits, requests: usize) -> Arc<Self> {
        let state = State { free: requests, users: BTreeMap::new() };
        Arc::new(Self { limits: limits.clone(), state: Mutex::new(state), left: Condvar::new() })
    }

    /// No code panics while it holds the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a program goes, or so long.
    pub(super) fn await_one_that_goes(&self, most: Duration) {
        // Waits for `Place::drop`. To return early does no harm.
        drop(self.left.wait_timeout(self.lock(), most));
    }

    /// Takes a place for a program of this user.
    pub(super) fn take(self: &Arc<Self>, peer: Peer) -> Result<Place, Full> {
        let (programs, of_user) = (self.limits.programs, self.limits.of(peer.user).programs);
        let mut state = self.lock();
        if state.users.values().map(|of| of.programs).sum::<usize>() >= programs {
            return Err(Full::Programs(programs));
        }
        let own = &mut state.user(peer.user).programs;
        if *own >= of_user {
            return Err(Full::OfUser(of_user));
        }
        *own += 1;
        Ok(Place { places: Arc::clone(self), user: peer.user })
    }
}

impl Place {
    /// What the program may have.
    pub(super) fn limits(&self) -> &UserLimits {
        self.places.limits.of(self.user)
    }

    /// Acts when a request of this user's may be in flight.
    pub(super) fn in_flight<T>(&self, act: impl FnOnce() -> T) -> T {
        self.begin();
        let done = act();
        self.end();
        done
    }

    /// Waits for `Self::end` of others, and for their `drop`.
    fn begin(&self) {
        let mut state = self.places.lock();
        while !state.may_begin(self.user) {
            state = self.places.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.free -= 1;
        state.user(self.user).in_flight += 1;
    }

    fn end(&self) {
        let mut state = self.places.lock();
        state.free += 1;
        state.user(self.user).in_flight -= 1;
        drop(state);
        self.places.left.notify_all();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        let own = state.user(self.user);
        own.programs -= 1;
        // Its programs' requests are done.
        if own.programs == 0 {
            state.users.remove(&self.user);
        }
        drop(state);
        // Nothing is kept for it any more, and what it had is free.
        self.places.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    fn places(programs: usize, of_user: usize, requests: usize) -> Arc<Places> {
        let each = UserLimits { programs: of_user, ..Limits::default().each };
        Places::new(&Limits { programs, each, ..Limits::default() }, requests)
    }

    fn take(places: &Arc<Places>, user: u32) -> Result<Place, Full> {
        places.take(Peer { user, process: 1 })
    }

    /// Begins as many requests as may be; returns how many.
    fn begin(place: &Place) -> usize {
        let may = || place.places.lock().may_begin(place.user);
        std::iter::repeat_with(may).take_while(|may| *may).map(|_| place.begin()).count()
    }

    #[test]
    fn a_user_cannot_take_the_places_of_others_and_gives_back_what_it_had() {
        let places = places(3, 2, 1);
        let [first, _second] = [take(&places, 7).unwrap(), take(&places, 7).unwrap()];
        assert_eq!(take(&places, 7).unwrap_err(), Full::OfUser(2));
        let other = take(&places, 8).unwrap();
        assert_eq!(take(&places, 9).unwrap_err(), Full::Programs(3));
        drop(first);
        take(&places, 7).unwrap();
        drop(other);
        assert_eq!(places.lock().users.keys().collect::<Vec<_>>(), [&7]);
    }

    #[test]
    fn a_user_of_whom_something_else_is_said_has_that() {
        let each = UserLimits { programs: 1, ..Limits::default().each };
        let users = [(8, UserLimits { programs: 2, weight: 7, ..each })].into();
        let places = Places::new(&Limits { programs: 9, each, users }, 1);
        let [first, second, third] = [7, 8, 8].map(|user| take(&places, user).unwrap());
        assert_eq!([7, 8].map(|user| take(&places, user).unwrap_err()), [1, 2].map(Full::OfUser));
        assert_eq!([first, second, third].map(|of| of.limits().weight), [each.weight, 7, 7]);
    }

    #[test]
    fn a_place_is_kept_for_each_user_who_has_a_program_and_no_request() {
        let places = places(4, 2, 5);
        let [one, two, _two, three] = [1, 2, 2, 3].map(|user| take(&places, user).unwrap());
        assert_eq!(begin(&one), 3, "two are kept");
        assert_eq!(begin(&two), 1, "its own, and one is kept");
        assert_eq!(begin(&three), 1);
        assert!([1, 2, 3].iter().all(|user| !places.lock().may_begin(*user)));
    }

    #[test]
    fn a_user_alone_has_all_places_and_the_end_of_anothers_programs_frees_what_was_kept() {
        let places = places(2, 2, 3);
        let [one, other] = [1, 2].map(|user| take(&places, user).unwrap());
        assert_eq!(begin(&one), 2);
        drop(other);
        assert_eq!(begin(&one), 1);
        assert_eq!(begin(&one), 0);
    }

    #[test]
    fn who_waits_goes_on_when_another_request_is_done() {
        let places = places(1, 1, 1);
        let place = take(&places, 1).unwrap();
        let (begun, is_begun) = channel();
        let (end, is_ended) = channel::<()>();
        thread::scope(|threads| {
            let place = &place;
            threads.spawn(move || {
                place.in_flight(|| {
                    begun.send(()).unwrap();
                    is_ended.recv().unwrap();
                });
            });
            is_begun.recv().unwrap();
            let second = threads.spawn(move || place.in_flight(|| true));
            end.send(()).unwrap();
            assert!(second.join().unwrap());
        });
        assert_eq!(places.lock().free, 1);
    }
}
