// SPDX-License-Identifier: MIT OR Apache-2.0

//! The newest packets of a ring, in the cache line of the doorbell that announces them.
//!
//! A ring of a doorbell moves the doorbell's line from the guest's processor to the engine's. The line has room for
//! more than the write pointer, so the guest copies there what it has just put into the ring, and the engine finds
//! it without asking for another line:
//!
//! ```text
//!  word 0          1        2 to 7
//!  write pointer   start    the ring's words from `start` on, up to the write pointer
//! ```
//!
//! The ring stays authoritative. The guest may overwrite the line for the next ring while the engine still reads it,
//! so the engine believes the copy only if it is that of the write pointer that it read. The guest never changes a
//! word of the copy that a write pointer has announced, unless it has stored another start first, and that start is
//! no less than each write pointer stored before. So the engine loads the start last: if the words were overwritten,
//! the start is at or behind the engine's write pointer, and the copy holds nothing.

use super::sync::{AtomicU64, Ordering, fence};
use super::words::WORD;

/// Words of the line: a cache line.
pub const LINE_WORDS: usize = 8;
/// Words of the ring that the line can hold.
pub const COPY_WORDS: usize = LINE_WORDS - 2;

/// The line of a doorbell that one queue alone rings.
#[derive(Debug, Clone, Copy)]
pub struct DoorbellLine<'a> {
    words: &'a [AtomicU64; LINE_WORDS],
}

impl<'a> DoorbellLine<'a> {
    /// The line, of which the first word is the doorbell's.
    #[must_use]
    #[inline]
    pub const fn new(words: &'a [AtomicU64; LINE_WORDS]) -> Self {
        Self { words }
    }

    /// Guest: the copy begins anew, at this position of the ring, which is no less than any write pointer that was
    /// rung. The line holds nothing until [`Self::copy`] and the next ring.
    ///
    /// The release fence pairs with the acquire fence in [`Self::read`]: an engine that reads a word that is copied
    /// after this reads this start, or a later one.
    #[inline]
    pub fn begin(&self, start: u64) {
        let [_, word, ..] = self.words;
        word.store(start, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// Guest: copies words of the ring, the first of which is `index` words behind the start. They must lie behind the
    /// last write pointer that was rung. Words for which the line has no room are left out.
    ///
    /// Relaxed: the next ring ([`DoorbellWords::ring`](super::doorbell::DoorbellWords::ring)) releases them.
    #[inline(always)]
    pub fn copy<const N: usize>(&self, index: usize, words: [u64; N]) {
        let [_, _, copy @ ..] = self.words;
        let room = copy.get(index..).unwrap_or_default();
        for (to, word) in room.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// Engine: reads the line, in which `written` was rung: [`DoorbellWords::look`](super::doorbell::DoorbellWords::look)
    /// has returned that, and so acquired the words before it. The engine has read the ring up to `position`.
    #[inline]
    pub fn read(&self, written: u64, position: u64, to: &mut LineCopy) {
        let [_, start, copy @ ..] = self.words;
        for (to, word) in to.words.iter_mut().zip(copy) {
            *to = word.load(Ordering::Relaxed);
        }
        // Pairs with the release fence in `begin`.
        fence(Ordering::Acquire);
        let start = start.load(Ordering::Relaxed);
        let (first, end) = (position.wrapping_sub(start), written.wrapping_sub(start));
        // A hostile guest may have stored any start, and what it gets is words of its own, or none.
        let is_copy = first < end && end <= (COPY_WORDS * WORD) as u64;
        if is_copy && (first | end).is_multiple_of(WORD as u64) {
            to.position = position;
            (to.first, to.end) = ((first / WORD as u64) as usize, (end / WORD as u64) as usize);
        } else {
            to.end = 0;
        }
    }
}

/// What an engine has read of a line: packets of the ring from one position on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineCopy {
    position: u64,
    first: usize,
    /// 0 if there are none.
    end: usize,
    words: [u64; COPY_WORDS],
}

impl LineCopy {
    /// No packets.
    pub const NONE: Self = Self { position: 0, first: 0, end: 0, words: [0; COPY_WORDS] };

    /// The words of the ring from `position` on, if the engine has read no further since it read the line; else none.
    #[must_use]
    #[inline]
    pub fn at(&self, position: u64) -> &[u64] {
        match self.words.get(self.first..self.end) {
            Some(words) if self.position == position => words,
            _ => &[],
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WORDS: [u64; COPY_WORDS] = [10, 11, 12, 13, 14, 15];

    fn words(start: u64) -> [AtomicU64; LINE_WORDS] {
        let [a, b, c, d, e, f] = WORDS;
        [0, start, a, b, c, d, e, f].map(AtomicU64::new)
    }

    /// What an engine at `position` reads in a line after a ring with this write pointer.
    fn read(line: DoorbellLine<'_>, written: u64, position: u64) -> LineCopy {
        let mut copy = LineCopy { position, first: 0, end: 3, words: [9; COPY_WORDS] };
        line.read(written, position, &mut copy);
        copy
    }

    /// As [`read`], in a line with this start.
    fn found(start: u64, written: u64, position: u64) -> alloc::vec::Vec<u64> {
        read(DoorbellLine::new(&words(start)), written, position).at(position).to_vec()
    }

    #[test]
    fn a_copy_holds_what_lies_between_its_start_and_the_write_pointer() {
        assert_eq!(found(4096, 4096 + 24, 4096), [10, 11, 12]);
        assert_eq!(found(4096, 4096 + 24, 4096 + 16), [12]);
        assert_eq!(found(4096, 4096 + 24, 4096 + 24), [0; 0]);
        assert_eq!(found(4096, 4096 + 48, 4096), WORDS);
    }

    #[test]
    fn what_a_copy_cannot_hold_is_not_in_it() {
        for (start, written, position) in [
            // Before the copy, behind it, and at no word.
            (4096, 4120, 4088),
            (4096, 4120, 4128),
            (4096, 4120, 4100),
            // More than fits, an end before the start, and misaligned ends.
            (4096, 4096 + 56, 4096),
            (4096, 4088, 4096),
            (4096, 4097, 4096),
            (4097, 4121, 4104),
            (0, u64::MAX, 0),
            (u64::MAX, 0, u64::MAX),
        ] {
            assert_eq!(found(start, written, position), [0; 0], "{start} {written} {position}");
        }
        assert_eq!(LineCopy::NONE.at(0), [0; 0]);
    }

    #[test]
    fn a_copy_is_for_an_engine_that_has_read_no_further() {
        let words = words(64);
        let copy = read(DoorbellLine::new(&words), 64 + 48, 64);
        assert_eq!(copy.at(64), WORDS);
        assert_eq!(copy.at(64 + 24), [0; 0]);
        assert_eq!(copy.at(0), [0; 0]);
    }

    #[test]
    fn the_line_takes_two_submissions_and_no_more() {
        let words: [AtomicU64; LINE_WORDS] = core::array::from_fn(|_| AtomicU64::new(0));
        let line = DoorbellLine::new(&words);
        let found = |written, position| read(line, written, position).at(position).to_vec();
        line.begin(64);
        line.copy(0, [1, 2, 3]);
        assert_eq!(found(64 + 24, 64), [1, 2, 3]);
        line.copy(3, [4, 5, 6]);
        assert_eq!(found(64 + 48, 64 + 24), [4, 5, 6]);
        line.copy(6, [7, 8]);
        assert_eq!(found(64 + 48, 64), [1, 2, 3, 4, 5, 6]);
    }
}
