// SPDX-License-Identifier: MIT OR Apache-2.0

//! Engines tell which parts of a picture they drew, and whoever composes frames of it takes that.
//!
//! An engine draws and then marks; who takes a mark sees what was drawn before it. So a mark that is taken too early for
//! something that is drawn is followed by another one.
//!
//! Which pictures are watched changes while engines draw. The watcher publishes another picture, puts a full fence, and
//! then reads all of the picture. An engine draws, puts a full fence, and then looks whether what is watched is still what
//! it was before the drawing. So either the engine sees that it is not, and marks everything of what is watched then, or
//! the watcher reads what was drawn.

use super::sync::{AtomicU64, Ordering, fence};

/// Rows of marks.
pub const ROWS: usize = 64;

/// The marks of one picture: 64 rows of 64 cells.
#[derive(Debug)]
pub struct Marks([AtomicU64; ROWS]);

impl Default for Marks {
    fn default() -> Self {
        Self::new()
    }
}

impl Marks {
    /// Nothing is drawn.
    #[must_use]
    pub fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Engine, after it drew into these cells of a row. Pairs with [`Self::take`].
    pub fn mark(&self, row: usize, cells: u64) {
        if let Some(word) = self.0.get(row) {
            word.fetch_or(cells, Ordering::Release);
        }
    }

    /// Takes a row's marks, before what was drawn there is read. Pairs with [`Self::mark`].
    #[must_use]
    pub fn take(&self, row: usize) -> u64 {
        let Some(word) = self.0.get(row) else { return 0 };
        // Relaxed: a mark that comes now is taken the next time.
        if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::Acquire) }
    }
}

/// The number of changes of what is watched.
#[derive(Debug)]
pub struct Watching(AtomicU64);

impl Default for Watching {
    fn default() -> Self {
        Self::new()
    }
}

impl Watching {
    /// Nothing was watched yet.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Watcher, after it published what is watched, and before it reads that. Pairs with [`Self::is_still`].
    pub fn change(&self) {
        self.0.fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Engine, before it loads what is watched, and draws.
    #[must_use]
    #[inline]
    pub fn begin(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Engine, after it drew: whether the same is watched as at the begin. Pairs with [`Self::change`].
    #[must_use]
    pub fn is_still(&self, begun: u64) -> bool {
        fence(Ordering::SeqCst);
        // Relaxed: the two fences order what is watched as well.
        self.0.load(Ordering::Relaxed) == begun
    }
}
