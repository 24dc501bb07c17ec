// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names that cannot be guessed.

use std::hash::{BuildHasher, RandomState};

/// Makes names that cannot be guessed.
#[derive(Debug, Default)]
pub(crate) struct Namer {
    pub(crate) state: RandomState,
    /// How many names there were.
    pub(crate) named: u64,
}

impl Namer {
    /// A name, not 0, that is not taken. Far fewer than there are numbers may be.
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
    fn no_two_names_are_the_same_and_none_is_0() {
        let mut namer = Namer::default();
        let mut names = BTreeSet::new();
        for _ in 0..1000 {
            let name = namer.next(|name| names.contains(&name));
            assert!(name != 0 && names.insert(name));
        }
        // Another guest's are others.
        let other = Namer::default().next(|_| false);
        assert!(!names.contains(&other));
    }
}
