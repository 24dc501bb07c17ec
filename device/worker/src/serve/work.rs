// SPDX-License-Identifier: MIT OR Apache-2.0

//! What tells apart the work that comes to a device.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Some dispatches, as far as their time depends on it: what each executes, and of how many groups.
pub struct Work {
    /// Whether it has one work group at a time.
    is_narrow: bool,
    hasher: DefaultHasher,
}

impl Work {
    /// No dispatches.
    pub fn new() -> Self {
        Self { is_narrow: true, hasher: DefaultHasher::new() }
    }

    /// Adds a dispatch. Its number of groups may be unknown.
    pub fn add(&mut self, what: impl Hash, groups: Option<[u32; 3]>) {
        self.is_narrow &= groups.is_some_and(|groups| groups.iter().all(|count| *count <= 1));
        (what, groups).hash(&mut self.hasher);
    }

    /// Whether it has one work group at a time.
    pub fn is_narrow(&self) -> bool {
        self.is_narrow
    }

    /// A number that other work hardly has.
    pub fn number(&self) -> u64 {
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_one_group_at_a_time_is_narrow_and_unknown_numbers_are_not() {
        let work = |groups: &[Option<[u32; 3]>]| {
            let mut work = Work::new();
            groups.iter().for_each(|groups| work.add(7_u64, *groups));
            (work.is_narrow(), work.number())
        };
        assert!(work(&[]).0);
        assert!(work(&[Some([1; 3]), Some([1, 0, 1])]).0);
        assert!(!work(&[Some([1; 3]), Some([1, 1, 2])]).0);
        assert!(!work(&[None]).0);
        assert_ne!(work(&[Some([1, 1, 2])]), work(&[Some([1, 1, 3])]));
        assert_eq!(work(&[Some([1, 1, 2])]), work(&[Some([1, 1, 2])]));
    }
}
