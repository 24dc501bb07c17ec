// SPDX-License-Identifier: MIT OR Apache-2.0

//! The progress of a packet that is executed in steps.

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The step processed this many bytes.
    Moved(usize),
    /// The operation is done.
    Finished,
    /// The operation goes on elsewhere, and the turn is over.
    TurnIsOver,
    /// The operation cannot begin yet. The engine's attention is raised when it may.
    Waits,
}

/// How much of a range is done.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    /// Bytes that are done.
    pub done: u64,
    length: u64,
}

impl Cursor {
    /// A range of `length` bytes, of which none is done.
    pub const fn new(length: u64) -> Self {
        Self { done: 0, length }
    }

    /// How many bytes come next, at most `limit`; `None` if all are done.
    pub fn next(&self, limit: usize) -> Option<usize> {
        let left = self.length.saturating_sub(self.done);
        let next = usize::try_from(left).unwrap_or(usize::MAX).min(limit);
        (next != 0).then_some(next)
    }

    /// Counts bytes that were done.
    pub fn advance(&mut self, bytes: usize) -> Progress {
        self.done = self.done.saturating_add(bytes as u64);
        Progress::Moved(bytes)
    }

    /// Counts all bytes as done.
    pub fn finish(&mut self) {
        self.done = self.length;
    }
}
