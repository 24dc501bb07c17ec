// SPDX-License-Identifier: MIT OR Apache-2.0

//! A doorbell word that is a hint: the ring buffer control is authoritative.
//!
//! Two kinds of doorbell are hints. A *global* doorbell is one word for all HW queues of a guest: another queue's
//! ring may overwrite a ring before an engine has looked. A *rotated* doorbell's page may receive late stores of
//! its previous queue, or miss one. So the engine learns from the word only that something may have happened, and
//! then looks at the write pointers ([`RingPointers::written`](super::doorbell::RingPointers::written)) of the
//! queues that may have rung it. Before it sleeps, it arms their statuses and looks at all those pointers once
//! more. That alone prevents lost rings: the guest puts a full fence between its write pointer and its load of the
//! status.
//!
//! Source: user-mode work submission, "Global doorbells" ("a form of a polling mechanism to fetch
//! work if multiple hardware queues are ... ringing the same global doorbell").

use super::doorbell::DoorbellWords;
use super::sync::{AtomicU64, Ordering, fence};
use crate::doorbell::ConnectionStatus;

/// The word of a global or a rotated doorbell.
#[derive(Debug, Clone, Copy)]
pub struct HintWord<'a> {
    word: &'a AtomicU64,
}

impl<'a> HintWord<'a> {
    /// A doorbell's word.
    #[must_use]
    pub const fn new(word: &'a AtomicU64) -> Self {
        Self { word }
    }

    /// Guest: rings a global doorbell after it published the queue's write pointer. `value` was never stored
    /// before; `queue` holds the queue's status.
    ///
    /// One full fence, before the store, does two things. It pairs with the one in [`Self::changed`]: an engine
    /// that reads this value, *or one that overwrote it*, finds the write pointer. And it pairs with
    /// [`DoorbellWords::after_arming`] and [`DoorbellWords::disconnect`]: an engine that misses this queue's write
    /// pointer in its last look has armed or disconnected a status that is read here.
    #[must_use = "a ring that found the doorbell disconnected did not submit anything"]
    #[inline]
    pub fn ring(&self, value: u64, queue: &DoorbellWords<'_>) -> ConnectionStatus {
        fence(Ordering::SeqCst);
        self.word.store(value, Ordering::Relaxed);
        queue.status()
    }

    /// Engine: returns whether the word differs from `last`, and updates `last`. After true, the engine looks at
    /// the write pointers of all queues that may have rung.
    ///
    /// The full fence pairs with the one in [`Self::ring`]; for the ring of a rotated doorbell,
    /// [`DoorbellWords::ring`], it makes this load an acquire.
    #[must_use = "a queue rang"]
    #[inline]
    pub fn changed(&self, last: &mut u64) -> bool {
        let now = self.word.load(Ordering::Relaxed);
        if now == *last {
            return false;
        }
        *last = now;
        fence(Ordering::SeqCst);
        true
    }
}
