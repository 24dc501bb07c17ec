// SPDX-License-Identifier: MIT OR Apache-2.0

//! Caching translations and flushing them.
//!
//! An engine stores that it uses an address space and then reads its entries, which it may cache; the control
//! plane, after it changes an entry, loads which engines use the space and makes them flush. Each side puts a full
//! fence between its two steps, so either the engine reads the new entry, or it is seen to use the space. Engines
//! that only ever used other spaces are left alone.
//!
//! The full fences alone ensure that, so the rest is relaxed.
//!
//! Engines tag cached translations with a number of the guest's, which a flush advances: a flush therefore costs
//! the guest's neighbours none of their cached translations.
//!
//! Source: `FLUSH_TLB` of `DxgkDdiBuildPagingBuffer`.

use super::sync::{AtomicU64, Ordering, fence};

/// Number of flushes of one guest's translations.
#[derive(Debug)]
pub struct Flushes(AtomicU64);

impl Default for Flushes {
    fn default() -> Self {
        Self::new()
    }
}

impl Flushes {
    /// No flush yet.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Called after guest memory has moved: translations cached before are not used in turns that begin after this.
    /// Every engine must then be called; when it answers, its earlier turns have ended. Returns the new number.
    pub fn advance(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Release) + 1
    }

    /// Engine, before each turn: the number. Acquires what preceded each [`Self::advance`].
    #[must_use]
    #[inline]
    pub fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The engines that may have cached entries of an address space.
#[derive(Debug)]
pub struct TlbUsers(AtomicU64);

impl Default for TlbUsers {
    fn default() -> Self {
        Self::new()
    }
}

impl TlbUsers {
    /// No engine.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Resets it for a new address space, which no engine knows yet.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Engine `engine`: must precede its first read of an entry.
    #[inline]
    pub fn enter(&self, engine: u32) {
        let bit = 1 << engine;
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// The engines that may cache entries from before the caller's change, one bit each.
    #[must_use]
    pub fn after_change(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed)
    }
}
