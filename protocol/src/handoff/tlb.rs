// SPDX-License-Identifier: MIT OR Apache-2.0

//! Remembering translations and flushing them.
//!
//! An engine says that it uses an address space and then reads its entries, which it may remember;
//! the changer of an entry looks which engines use the space, and has them flush. Each side puts a
//! full fence between its two steps, so either the engine reads the new entry, or it is seen to use
//! the space. An engine that only ever used other spaces is left alone.
//!
//! That is the full fences' work alone, so the rest is relaxed.
//!
//! What an engine remembers it remembers under a number of the guest's, which a flush advances: so a flush
//! costs the guest's neighbours nothing that they remember.
//!
//! Source: `FLUSH_TLB` of `DxgkDdiBuildPagingBuffer`.

use super::sync::{AtomicU64, Ordering, fence};

/// How often what is remembered of one guest was to be forgotten.
#[derive(Debug)]
pub struct Flushes(AtomicU64);

impl Default for Flushes {
    fn default() -> Self {
        Self::new()
    }
}

impl Flushes {
    /// Not once.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Called after a change of where the guest's memory is: nothing that was remembered before counts in a turn
    /// that begins after this. Every engine is then called, and has begun no turn before that when it
    /// answers. Returns the new number.
    pub fn advance(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Release) + 1
    }

    /// Engine, before each turn: the number. Acquires what came before each [`Self::advance`].
    #[must_use]
    #[inline]
    pub fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Which engines may remember entries of an address space.
#[derive(Debug)]
pub struct TlbUsers(AtomicU64);

impl Default for TlbUsers {
    fn default() -> Self {
        Self::new()
    }
}

impl TlbUsers {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Makes it that of a new address space, which no engine knows yet.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Engine `engine`: is about to read entries. Once is enough for all that it reads after.
    #[inline]
    pub fn enter(&self, engine: u32) {
        let bit = 1 << engine;
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// The engines that may remember what entries were before the caller changed them, one bit each.
    #[must_use]
    pub fn after_change(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }
}
