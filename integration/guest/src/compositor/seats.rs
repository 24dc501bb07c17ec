// SPDX-License-Identifier: MIT OR Apache-2.0

//! How many windows there may be: of all users, and of each.

use crate::listener::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most windows.
const ALL: usize = 64;
/// Most windows of a user.
const OF_USER: usize = 16;

/// Windows of each user.
#[derive(Debug, Default)]
pub(super) struct Seats {
    windows: Mutex<BTreeMap<u32, usize>>,
    /// A window has gone.
    left: Condvar,
}

/// The place of a window, until it is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    user: u32,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a window goes, or so long.
    pub(super) fn await_one_that_goes(&self, most: Duration) {
        // Waits for `Seat::drop`. To return early does no harm.
        drop(self.left.wait_timeout(self.lock(), most));
    }

    /// A place for a window of this user's, unless it or all have as many as may be.
    pub(super) fn take(seats: &Arc<Self>, peer: Peer) -> Option<Seat> {
        let user = peer.user;
        let mut all = seats.lock();
        let own = all.get(&user).copied().unwrap_or_default();
        if own >= OF_USER || all.values().sum::<usize>() >= ALL {
            return None;
        }
        all.insert(user, own + 1);
        drop(all);
        Some(Seat { seats: Arc::clone(seats), user })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.seats.lock();
        if let Some(own) = all.get_mut(&self.user) {
            *own -= 1;
        }
        all.retain(|_, own| *own > 0);
        drop(all);
        self.seats.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_cannot_take_the_places_of_others_and_gives_back_what_it_had() {
        let seats = Arc::default();
        let take = |user| Seats::take(&seats, Peer { user, process: 1 });
        let mut of_one: Vec<_> = (0..OF_USER).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_none());
        let _others: Vec<_> =
            (2..5).flat_map(|user| (0..OF_USER).map(move |_| user)).map(take).collect();
        assert!(take(9).is_none(), "all are taken");
        of_one.pop();
        assert!(take(9).is_some());
    }
}
