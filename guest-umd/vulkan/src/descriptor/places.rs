// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which bytes of a pool are free.

use std::ops::Range;

/// Ranges of free bytes, in order, none of which touch.
#[derive(Debug)]
pub(super) struct Places {
    free: Vec<Range<usize>>,
}

impl Places {
    /// So many bytes, all of them free.
    pub(super) fn new(bytes: usize) -> Self {
        Self { free: Some(0..bytes).filter(|range| range.start < range.end).into_iter().collect() }
    }

    /// Takes so many bytes from the first range that has them. Returns where they begin.
    pub(super) fn take(&mut self, bytes: usize) -> Option<usize> {
        let at = self.free.iter().position(|range| range.len() >= bytes)?;
        let range = self.free.get_mut(at)?;
        let start = range.start;
        range.start += bytes;
        if range.start == range.end {
            self.free.remove(at);
        }
        Some(start)
    }

    /// Takes back what [`Self::take`] gave.
    pub(super) fn give_back(&mut self, given: Range<usize>) {
        let at = self.free.partition_point(|range| range.start < given.start);
        self.free.insert(at, given);
        self.join(at);
        if let Some(before) = at.checked_sub(1) {
            self.join(before);
        }
    }

    /// Joins a range with the next, if they touch.
    fn join(&mut self, at: usize) {
        let next = self.free.get(at + 1).cloned();
        if let (Some(range), Some(next)) = (self.free.get_mut(at), next)
            && range.end == next.start
        {
            range.end = next.end;
            self.free.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_given_once_and_joined_when_they_come_back() {
        let mut places = Places::new(256);
        let taken: Vec<_> = (0..4).map(|_| places.take(64).unwrap()).collect();
        assert_eq!(taken, [0, 64, 128, 192]);
        assert_eq!(places.take(64), None);
        places.give_back(0..64);
        places.give_back(128..192);
        assert_eq!(places.take(128), None, "they do not touch");
        places.give_back(64..128);
        assert_eq!(places.free.iter().collect::<Vec<_>>(), [&(0..192)]);
        assert_eq!(places.take(192), Some(0));
        places.give_back(192..256);
        places.give_back(0..192);
        assert_eq!(places.free.iter().collect::<Vec<_>>(), [&(0..256)]);
        assert_eq!(Places::new(0).take(64), None);
    }
}
