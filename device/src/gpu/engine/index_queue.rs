// SPDX-License-Identifier: MIT OR Apache-2.0

//! FIFO queues of indices, for a schedule.
//!
//! The links between indices are stored by index, outside the queues. Therefore an index is in one queue at most,
//! and only [`Links::add`] allocates.

/// No index.
pub const NONE: u32 = u32::MAX;

/// The end of the queue at which an index enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The index is served next: it continues what it began.
    Front,
    /// The index is served after all others in the queue.
    Back,
}

/// The successor of each index.
#[derive(Debug, Default)]
pub struct Links(Vec<u32>);

impl Links {
    /// Makes room for an index.
    pub fn add(&mut self, number: u32) {
        if self.0.len() <= number as usize {
            self.0.resize(number as usize + 1, NONE);
        }
    }

    #[inline]
    fn behind(&self, number: u32) -> u32 {
        self.0.get(number as usize).copied().unwrap_or(NONE)
    }

    #[inline]
    fn set_behind(&mut self, number: u32, next: u32) {
        if let Some(link) = self.0.get_mut(number as usize) {
            *link = next;
        }
    }
}

/// A FIFO of indices. All methods of one queue take one and the same [`Links`].
#[derive(Debug, Clone, Copy)]
pub struct IndexQueue {
    first: u32,
    last: u32,
}

impl IndexQueue {
    /// An empty queue.
    pub const EMPTY: Self = Self { first: NONE, last: NONE };

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.first == NONE
    }

    /// Adds an index, which has a link and is in no queue.
    #[inline]
    pub fn push(&mut self, links: &mut Links, number: u32, end: End) {
        let Self { first, last } = *self;
        match end {
            End::Front => {
                links.set_behind(number, first);
                self.first = number;
            }
            End::Back => {
                links.set_behind(number, NONE);
                links.set_behind(last, number);
                self.last = number;
            }
        }
        if first == NONE {
            *self = Self { first: number, last: number };
        }
    }

    /// Removes the first index.
    #[inline]
    pub fn pop(&mut self, links: &mut Links) -> Option<u32> {
        let first = self.first;
        if first == NONE {
            return None;
        }
        self.first = links.behind(first);
        if self.first == NONE {
            self.last = NONE;
        }
        Some(first)
    }

    /// Removes each index for which `stays` is false.
    pub fn retain(&mut self, links: &mut Links, mut stays: impl FnMut(u32) -> bool) {
        let mut left = std::mem::replace(self, Self::EMPTY);
        while let Some(number) = left.pop(links) {
            #[cfg(test)]
            super::visits::note();
            if stays(number) {
                self.push(links, number, End::Back);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn lines_are_deques(
            steps in proptest::collection::vec((0u32..8, 0usize..2, 0u8..4), 0..200),
        ) {
            let mut links = Links::default();
            (0..8).for_each(|number| links.add(number));
            let mut lines = [IndexQueue::EMPTY; 2];
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (number, line, step) in steps {
                let stands = model.iter().any(|line| line.contains(&number));
                match step {
                    0 if !stands => {
                        lines[line].push(&mut links, number, End::Back);
                        model[line].push_back(number);
                    }
                    1 if !stands => {
                        lines[line].push(&mut links, number, End::Front);
                        model[line].push_front(number);
                    }
                    2 => prop_assert_eq!(lines[line].pop(&mut links), model[line].pop_front()),
                    3 => {
                        lines[line].retain(&mut links, |other| other != number);
                        model[line].retain(|other| *other != number);
                    }
                    _ => {}
                }
                prop_assert_eq!(lines[line].is_empty(), model[line].is_empty());
            }
        }
    }
}
