// SPDX-License-Identifier: MIT OR Apache-2.0

//! What changed of a source since a version of it: so that a frame is composed where it is stale, and nowhere else.
//!
//! Damage comes from what the host does or sees by itself, never from what a guest says: a flip changes everything, a
//! pointer what it lies over, and a look what differs from the look before. Damage that were too small would show the
//! guest's own viewers an old part of its own picture, no byte of anything else; and a capture begins with buffers of
//! which everything is stale.

use super::cells::Cells;
use std::collections::VecDeque;

/// Most changes of parts that are remembered. Whoever has missed more gets everything.
const REMEMBERED: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Damage {
    /// The version of what is seen now; grows with each change.
    version: u64,
    /// The version at which everything changed last.
    whole: u64,
    /// The newest changes of parts, the oldest first.
    parts: VecDeque<(u64, Cells)>,
    /// The version from which on `parts` has all of them.
    known_from: u64,
}

impl Damage {
    /// Everything is new at this version.
    pub fn new(version: u64) -> Self {
        Self { version, whole: version, parts: VecDeque::new(), known_from: version }
    }

    /// The version of what is seen now.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The version at which everything changed last.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Everything changes.
    pub fn change_all(&mut self) {
        self.begin_anew(self.version + 1);
    }

    /// Everything changes, with a version that is no other's.
    pub fn begin_anew(&mut self, version: u64) {
        *self = Self::new(version);
    }

    /// Some cells change.
    pub fn change(&mut self, cells: Cells) {
        self.version += 1;
        self.parts.push_back((self.version, cells));
        if self.parts.len() > REMEMBERED
            && let Some((version, _)) = self.parts.pop_front()
        {
            self.known_from = version;
        }
    }

    /// The cells that changed after a version; `None` if everything may have.
    pub fn since(&self, version: u64) -> Option<Cells> {
        if version < self.known_from {
            return None;
        }
        let mut cells = Cells::NONE;
        let later = self.parts.iter().filter(|(of, _)| *of > version);
        later.for_each(|(_, changed)| cells.add(changed));
        Some(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> Cells {
        let mut words = [0; 64];
        words[number] = 1;
        Cells::from_words(words)
    }

    #[test]
    fn what_changed_since_a_version_is_known_unless_that_was_long_ago() {
        let mut damage = Damage::new(5);
        assert_eq!((damage.since(5), damage.since(4)), (Some(Cells::NONE), None));
        damage.change(row(1));
        damage.change(row(2));
        let mut both = row(1);
        both.add(&row(2));
        assert_eq!(
            [5, 6, 7].map(|version| damage.since(version)),
            [both, row(2), Cells::NONE].map(Some)
        );
        assert_eq!((damage.whole(), damage.version()), (5, 7));
        for _ in 0..REMEMBERED {
            damage.change(row(3));
        }
        assert_eq!((damage.since(6), damage.since(7)), (None, Some(row(3))));
        damage.change_all();
        assert_eq!((damage.since(damage.version() - 1), damage.whole()), (None, damage.version()));
    }
}
