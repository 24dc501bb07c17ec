// SPDX-License-Identifier: MIT OR Apache-2.0

//! Priorities of contexts, and shares of processes.

use bellhop_protocol::control::process::DEFAULT_WEIGHT;

/// Priority of a context's work among the other contexts of its process, and of those that share its part: -7 to 7, as in
/// `D3DKMTSetContextSchedulingPriority`. Greater comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SchedulingPriority(i8);

impl SchedulingPriority {
    /// Number of priorities.
    pub const COUNT: usize = 15;
    /// The lowest priority.
    pub const MIN: Self = Self(-7);
    /// The highest priority.
    pub const MAX: Self = Self(7);

    /// The priority with this number; `None` if there is none.
    #[must_use]
    pub fn new(number: i32) -> Option<Self> {
        let number = i8::try_from(number).ok()?;
        (Self::MIN.0..=Self::MAX.0).contains(&number).then_some(Self(number))
    }

    /// Its number, -7 to 7.
    #[must_use]
    pub const fn number(self) -> i8 {
        self.0
    }

    /// Its rank from 0, the lowest.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0 - Self::MIN.0) as usize
    }
}

/// The part of its guest's engine time that a process may use while other processes of the guest have work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessShare {
    /// Processes of the guest with this number use one part together; 0 for those of which nothing is said.
    pub group: u32,
    /// The part, relative to those of others; not 0.
    pub weight: u32,
}

impl Default for ProcessShare {
    fn default() -> Self {
        Self { group: 0, weight: DEFAULT_WEIGHT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_fifteen_and_the_one_in_the_middle_is_what_a_context_begins_with() {
        let all: Vec<_> = (-100..100).filter_map(SchedulingPriority::new).collect();
        assert_eq!(all.len(), SchedulingPriority::COUNT);
        assert!(all.iter().enumerate().all(|(index, priority)| priority.index() == index));
        assert_eq!((all[0], all[14]), (SchedulingPriority::MIN, SchedulingPriority::MAX));
        assert_eq!(all[7], SchedulingPriority::default());
    }
}
