// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's side of a doorbell's line, which carries the newest submission to the engine.

use crate::link::words::{WordArray, Words};
use bellhop_protocol::handoff::doorbell_line::{COPY_WORDS, DoorbellLine, LINE_WORDS};
use bellhop_protocol::handoff::words::WORD;

/// More words than a line holds.
const CLOSED: usize = COPY_WORDS + 1;

/// A doorbell's line, and how much of the ring it holds: the ring's newest packets, or nothing.
pub(crate) struct Line {
    words: WordArray<LINE_WORDS>,
    /// Words of the ring that it holds, up to the ring's write pointer; [`CLOSED`] if it lacks the newest.
    held: usize,
}

impl Line {
    /// The line of a doorbell that has not rung; `None` if these are not a line's words.
    pub(crate) fn new(words: Words) -> Option<Self> {
        Some(Self { words: words.array()?, held: CLOSED })
    }

    #[inline]
    fn line(&self) -> DoorbellLine<'_> {
        DoorbellLine::new(self.words.get())
    }

    /// Copies packets that were put into the ring at `position`, the last so far. They follow those in the line if both
    /// fit. The next ring announces them.
    #[inline(always)]
    pub(crate) fn copy<const N: usize>(&mut self, position: u64, packets: [u64; N]) {
        let Some(last) = COPY_WORDS.checked_sub(N) else {
            return self.close_at(position.wrapping_add((N * WORD) as u64));
        };
        if self.held > last {
            self.held = 0;
            self.line().begin(position);
        }
        self.line().copy(self.held, packets);
        self.held += N;
    }

    /// The ring has newer packets than the line.
    #[inline(always)]
    pub(crate) fn close(&mut self) {
        self.held = CLOSED;
    }

    /// The doorbell is about to ring with this write pointer: the line holds nothing, unless it holds all up to there.
    #[inline]
    pub(crate) fn ring(&mut self, write_pointer: u64) {
        if self.held == CLOSED {
            self.close_at(write_pointer);
        }
    }

    /// Stores any start and any copy.
    #[cfg(feature = "raw")]
    pub(crate) fn overwrite(&mut self, start: u64, copy: [u64; COPY_WORDS]) {
        self.held = CLOSED;
        self.line().begin(start);
        self.line().copy(0, copy);
    }

    /// The line holds nothing before this write pointer, nor behind it.
    pub(crate) fn close_at(&mut self, write_pointer: u64) {
        self.held = CLOSED;
        self.line().begin(write_pointer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::handoff::doorbell_line::LineCopy;
    use std::sync::Arc;
    use vm_memory::MmapRegion;

    /// A line, and what an engine reads of it after a ring.
    fn line() -> (Line, impl Fn(u64, u64) -> Vec<u64>) {
        let region = Arc::new(MmapRegion::new(4096).unwrap());
        let words = || Words::new(Arc::clone(&region), 64, 64).unwrap();
        let device = words().array().unwrap();
        let read = move |write_pointer, position| {
            let mut copy = LineCopy::NONE;
            DoorbellLine::new(device.get()).read(write_pointer, position, &mut copy);
            copy.at(position).to_vec()
        };
        (Line::new(words()).unwrap(), read)
    }

    #[test]
    fn submissions_follow_each_other_until_the_line_is_full() {
        let (mut line, read) = line();
        line.copy(0, [1, 2, 3]);
        line.ring(24);
        assert_eq!(read(24, 0), [1, 2, 3]);
        line.copy(24, [4, 5, 6]);
        line.ring(48);
        assert_eq!(read(48, 24), [4, 5, 6]);
        assert_eq!(read(48, 0), [1, 2, 3, 4, 5, 6]);
        line.copy(48, [7, 8, 9]);
        line.ring(72);
        assert_eq!(read(72, 48), [7, 8, 9]);
        assert_eq!(read(72, 24), [0; 0]);
    }

    #[test]
    fn what_was_not_copied_is_in_the_ring_alone() {
        let (mut line, read) = line();
        line.copy(0, [1, 2, 3]);
        // A submission is rung for with another one, and only that one is copied.
        line.close();
        line.copy(48, [7, 8, 9]);
        line.ring(72);
        assert_eq!(read(72, 24), [0; 0]);
        assert_eq!(read(72, 48), [7, 8, 9]);
        // One is rung for without a copy, and one is too long for the line.
        line.close();
        line.ring(96);
        assert_eq!(read(96, 72), [0; 0]);
        line.copy(96, [1; COPY_WORDS + 1]);
        assert_eq!(read(152, 96), [0; 0]);
        line.ring(152);
        assert_eq!(read(152, 96), [0; 0]);
        line.copy(152, [1; COPY_WORDS]);
        line.ring(200);
        assert_eq!(read(200, 152), [1; COPY_WORDS]);
    }

    #[test]
    fn other_words_are_no_line() {
        let region = Arc::new(MmapRegion::new(4096).unwrap());
        for length in [56, 72] {
            assert!(Line::new(Words::new(Arc::clone(&region), 0, length).unwrap()).is_none());
        }
    }
}
