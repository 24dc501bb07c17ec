// SPDX-License-Identifier: MIT OR Apache-2.0

//! Places for programs: so many together, and so many of each user.

use super::listener::Peer;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What programs may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Programs at once.
    pub programs: usize,
    /// Programs of one user at once.
    pub programs_of_user: usize,
    /// Processes on the device of each program.
    pub processes: usize,
    /// Requests in flight of each program, at least 2.
    pub requests: usize,
    /// Bytes of memory for allocations of each program.
    pub memory: u64,
    /// Doorbells of each program.
    pub doorbells: u32,
    /// Fences of each program.
    pub fences: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            programs: 16,
            programs_of_user: 8,
            processes: 16,
            requests: 8,
            memory: 64 << 20,
            doorbells: 64,
            fences: 256,
        }
    }
}

/// The places, and who has how many.
#[derive(Debug)]
pub(super) struct Places {
    limits: Limits,
    taken: Mutex<HashMap<u32, usize>>,
    /// A program has gone.
    left: Condvar,
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
    #[error("there are {0} programs, as many as may be: --programs")]
    Programs(usize),
    /// The user has all that one may have.
    #[error("this user has {0} programs, as many as one may have: --programs-of-user")]
    OfUser(usize),
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self { limits: *limits, taken: Mutex::default(), left: Condvar::new() })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// No code panics while it holds the lock, so a poisoned table is whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a program goes, or so long.
    pub(super) fn await_one_that_goes(&self, most: Duration) {
        // Waits for `Place::drop`. To return early does no harm.
        drop(self.left.wait_timeout(self.lock(), most));
    }

    /// Takes a place for a program of this user.
    pub(super) fn take(self: &Arc<Self>, peer: Peer) -> Result<Place, Full> {
        let Limits { programs, programs_of_user, .. } = self.limits;
        let mut taken = self.lock();
        if taken.values().sum::<usize>() >= programs {
            return Err(Full::Programs(programs));
        }
        let own = taken.entry(peer.user).or_default();
        if *own >= programs_of_user {
            return Err(Full::OfUser(programs_of_user));
        }
        *own += 1;
        Ok(Place { places: Arc::clone(self), user: peer.user })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(own) = taken.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.user);
            }
        }
        drop(taken);
        // Wakes `await_one_that_goes`.
        self.places.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_cannot_take_the_places_of_others_and_gives_back_what_it_had() {
        let limits = Limits { programs: 3, programs_of_user: 2, ..Limits::default() };
        let places = Places::new(&limits);
        let take = |user| places.take(Peer { user, process: 1 });
        let [first, _second] = [take(7).unwrap(), take(7).unwrap()];
        assert_eq!(take(7).unwrap_err(), Full::OfUser(2));
        let other = take(8).unwrap();
        assert_eq!(take(9).unwrap_err(), Full::Programs(3));
        drop(first);
        take(7).unwrap();
        drop(other);
        assert_eq!(places.lock().keys().collect::<Vec<_>>(), [&7]);
    }
}
