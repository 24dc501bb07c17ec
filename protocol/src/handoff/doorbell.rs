// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ring and arm, ring and disconnect, ring and connect.
//!
//! The guest stores to the doorbell word and then loads the status word; the host stores to the status word and
//! then loads the doorbell word. Each side puts a full fence between its store and its load, so at least one of the
//! two sees the other: either the host looks at the ring, or the guest reads a status that tells it what to do.
//!
//! Source: user-mode work submission, "Work submission pseudocode in UMD" and "Victimizing doorbell
//! pseudocode in KMD".

use super::sync::{AtomicU64, Ordering, fence};
use crate::doorbell::{ConnectionStatus, DoorbellStatus, LoggingLevel};

/// The two words of a logical doorbell that guest and host share.
///
/// The host decides nothing from the status word: a guest that scribbles over it loses only its own rings.
#[derive(Debug, Clone, Copy)]
pub struct DoorbellWords<'a> {
    doorbell: &'a AtomicU64,
    status: &'a AtomicU64,
}

impl<'a> DoorbellWords<'a> {
    /// The words of one doorbell.
    #[must_use]
    pub const fn new(doorbell: &'a AtomicU64, status: &'a AtomicU64) -> Self {
        Self { doorbell, status }
    }

    /// Guest: rings with the ring's write pointer and returns the doorbell's status.
    ///
    /// The release store publishes the ring's content to [`Self::look`]. The full fence pairs with those in
    /// [`Self::after_arming`] and [`Self::disconnect`]; it also keeps write-combining stores to the ring ahead of
    /// the caller's next stores.
    #[must_use = "a ring that found the doorbell disconnected did not submit anything"]
    #[inline]
    pub fn ring(&self, write_pointer: u64) -> ConnectionStatus {
        self.doorbell.store(write_pointer, Ordering::Release);
        fence(Ordering::SeqCst);
        self.status()
    }

    /// Either side: the current status. Acquires what the host did before [`Self::connect`] or
    /// [`Self::disconnect`]: a reader of a lost queue's status sees the queue's fences as the host left them.
    #[must_use]
    #[inline]
    pub fn status(&self) -> ConnectionStatus {
        DoorbellStatus(self.status.load(Ordering::Acquire)).connection()
    }

    /// Guest: the logging level. The host updates it with each connect, so load it after connecting.
    #[must_use]
    pub fn logging_level(&self) -> LoggingLevel {
        DoorbellStatus(self.status.load(Ordering::Relaxed)).logging_level()
    }

    /// Engine: the value rung last. Acquires what the guest wrote before [`Self::ring`].
    #[must_use]
    #[inline]
    pub fn look(&self) -> u64 {
        Self::look_at(self.doorbell)
    }

    /// Engine: as [`Self::look`], from the doorbell word alone.
    #[must_use]
    #[inline]
    pub fn look_at(doorbell: &AtomicU64) -> u64 {
        doorbell.load(Ordering::Acquire)
    }

    /// Engine, before it sleeps: asks the guest to notify after its next ring. Leaves a doorbell alone that was
    /// disconnected meanwhile. [`Self::after_arming`] must follow.
    pub fn arm(&self) {
        self.replace(ConnectionStatus::CONNECTED, ConnectionStatus::CONNECTED_NOTIFY);
    }

    /// Engine: follows [`Self::arm`] of all its doorbells and precedes a last look at each.
    ///
    /// Pairs with the fence in [`Self::ring`]: if the last look misses a guest's ring, the guest reads
    /// `CONNECTED_NOTIFY`.
    pub fn after_arming() {
        fence(Ordering::SeqCst);
    }

    /// Engine, awake again: the guest need not notify any more.
    pub fn disarm(&self) {
        self.replace(ConnectionStatus::CONNECTED_NOTIFY, ConnectionStatus::CONNECTED);
    }

    /// Host: publishes that the doorbell is watched. The caller has made the engine watch it, and afterwards makes
    /// it look at the ring's write pointer once: a thread may have rung before the watch began and read `CONNECTED`
    /// here only because another thread connected.
    pub fn connect(&self, status: impl Into<DoorbellStatus>) {
        self.status.store(status.into().0, Ordering::Release);
    }

    /// Host: announces that the watch is about to end, for `reason`. The caller then stops the watch and makes the
    /// engine look at the ring's write pointer once.
    ///
    /// The fence pairs with the one in [`Self::ring`]: a guest that still reads a connected status
    /// has rung before that last look.
    pub fn disconnect(&self, reason: impl Into<DoorbellStatus>) {
        // An exchange, as in `replace`: the models do not order a plain store against those.
        self.status.swap(reason.into().0, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Changes only `from` to `to`: a disconnect in between must win.
    ///
    /// Relaxed: the engine hands over only the status, and the exchange continues the release sequence of the
    /// [`Self::connect`] that it found.
    fn replace(&self, from: ConnectionStatus, to: ConnectionStatus) {
        let mut word = self.status.load(Ordering::Relaxed);
        // The exchange fails if the logging level changes in between, which is rare, or if a hostile guest writes
        // the word. Such a guest misses only its own rings.
        for _ in 0..4 {
            if DoorbellStatus(word).connection() != from {
                return;
            }
            let new = word & !u64::from(u32::MAX) | u64::from(to.0);
            match self.status.compare_exchange(word, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}

/// The two pointers in a ring buffer control.
#[derive(Debug, Clone, Copy)]
pub struct RingPointers<'a> {
    write: &'a AtomicU64,
    read: &'a AtomicU64,
}

impl<'a> RingPointers<'a> {
    /// The pointers of one ring buffer control.
    #[must_use]
    pub const fn new(write: &'a AtomicU64, read: &'a AtomicU64) -> Self {
        Self { write, read }
    }

    /// Guest: makes the packets before `position` visible. Pairs with [`Self::written`].
    #[inline]
    pub fn publish(&self, position: u64) {
        self.write.store(position, Ordering::Release);
    }

    /// Engine: the guest's write pointer. Acquires the packets before it.
    #[must_use]
    #[inline]
    pub fn written(&self) -> u64 {
        self.write.load(Ordering::Acquire)
    }

    /// Engine: releases everything before `position`, which the guest may now overwrite.
    #[inline]
    pub fn consume(&self, position: u64) {
        Self::consume_at(self.read, position);
    }

    /// Engine: as [`Self::consume`], on the read pointer alone.
    #[inline]
    pub fn consume_at(read: &AtomicU64, position: u64) {
        read.store(position, Ordering::Release);
    }

    /// Guest: the engine's read pointer. Pairs with [`Self::consume`].
    #[must_use]
    #[inline]
    pub fn consumed(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }
}
