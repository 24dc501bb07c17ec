// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much memory an engine maps ahead of a worker's kernels.
//!
//! A miss stops a thread until the engine has woken, looked the address up, and the worker has mapped it: longer than most
//! kernels take for the memory itself. Kernels often go through memory in order, each thread through a part of its own. So
//! the engine remembers where the latest misses ended. One that begins there goes on, and what follows it is mapped with it,
//! more each time.

use std::ops::Range;

/// Places where memory is gone through at once.
const STREAMS: usize = 8;
/// Extents that are mapped with the second miss of a stream, and the most with one miss.
const FIRST: u32 = 4;
const MOST: u32 = 8;

#[derive(Debug, Default, Clone, Copy)]
struct Stream {
    /// The address after the last that is mapped; 0 if there is no stream.
    next: u64,
    /// Extents that were mapped ahead last.
    extents: u32,
}

/// Where a worker's misses ended.
#[derive(Debug, Default)]
pub struct Ahead {
    streams: [Stream; STREAMS],
    /// The index of the stream that the next new one replaces.
    oldest: usize,
}

impl Ahead {
    /// This range was missed and is mapped. Returns how many of the extents behind it are to be mapped.
    pub fn missed(&mut self, range: &Range<u64>) -> u32 {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.next == range.start) {
            let extents = (2 * stream.extents).clamp(FIRST, MOST);
            *stream = Stream { next: range.end, extents };
            return extents;
        }
        if let Some(oldest) = self.streams.get_mut(self.oldest) {
            *oldest = Stream { next: range.end, extents: 0 };
        }
        self.oldest = (self.oldest + 1) % STREAMS;
        0
    }

    /// What is behind a missed range, up to this address, is mapped as well.
    pub fn mapped(&mut self, missed: &Range<u64>, end: u64) {
        let stream = self.streams.iter_mut().find(|stream| stream.next == missed.end);
        stream.into_iter().for_each(|stream| stream.next = end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 2 << 20;
    const START: u64 = 1 << 32;

    fn block(number: u64) -> Range<u64> {
        let start = START + number * BLOCK;
        start..start + BLOCK
    }

    /// Goes through this many blocks in order, and counts the misses.
    fn misses(ahead: &mut Ahead, blocks: Range<u64>) -> u64 {
        let (mut next, mut misses) = (blocks.start, 0);
        while next < blocks.end {
            let missed = block(next);
            next += 1 + u64::from(ahead.missed(&missed));
            ahead.mapped(&missed, block(next).start);
            misses += 1;
        }
        misses
    }

    #[test]
    fn memory_that_is_gone_through_in_order_is_mapped_ahead_and_more_of_it_each_time() {
        let mut ahead = Ahead::default();
        // 1, then 1 + 4, then 1 + 8 each.
        assert_eq!(misses(&mut ahead, 0..33), 5);
    }

    #[test]
    fn threads_that_go_through_parts_of_their_own_do_not_disturb_each_other() {
        let mut ahead = Ahead::default();
        let mut at = [0; STREAMS];
        for _ in 0..3 {
            for (part, next) in at.iter_mut().enumerate() {
                let missed = block(part as u64 * 1000 + *next);
                *next += 1 + u64::from(ahead.missed(&missed));
                ahead.mapped(&missed, block(part as u64 * 1000 + *next).start);
            }
        }
        assert_eq!(at, [1 + 5 + 9; STREAMS]);
    }

    #[test]
    fn nothing_is_mapped_ahead_of_misses_in_no_order() {
        let mut ahead = Ahead::default();
        for number in (0..100).map(|number| number * 7 % 100 * 3) {
            assert_eq!(ahead.missed(&block(number)), 0);
        }
    }
}
