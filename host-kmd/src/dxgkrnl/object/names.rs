// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names that cannot be guessed.

use std::hash::{BuildHasher, RandomState};

/// Makes names that cannot be guessed.
#[derive(Debug, Default)]
pub(crate) struct Namer {
    state: RandomState,
    /// Number of names tried so far, including taken ones.
    named: u64,
}

impl Namer {
    /// Returns an unused name, never 0. The loop ends: taken names are far fewer than numbers.
    pub(crate) fn next(&mut self, is_taken: impl Fn(u64) -> bool) -> u64 {
        loop {
            self.named += 1;
            let name = self.state.hash_one(self.named);
            if name != 0 && !is_taken(name) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_not_0() {
        let mut namer = Namer::default();
        let mut names = BTreeSet::new();
        for _ in 0..1000 {
            let name = namer.next(|name| names.contains(&name));
            assert!(name != 0 && names.insert(name));
        }
        // Another namer makes other names.
        let other = Namer::default().next(|_| false);
        assert!(!names.contains(&other));
    }
}
