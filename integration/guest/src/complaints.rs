// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs do wrong, for the log. Who does it on and on fills no log.

use crate::output::note;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often something went wrong.
#[derive(Debug, Default)]
pub(crate) struct Complaints(AtomicU64);

impl Complaints {
    /// Counts this, and writes a line for the first, the second, the fourth, and so on.
    pub(crate) fn note(&self, text: impl Display) {
        if let Some(count) = self.count() {
            note(format_args!("{text} (so often so far: {count})"));
        }
    }

    /// Counts one; returns the number where that is to be told.
    fn count(&self) -> Option<u64> {
        let count = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        count.is_power_of_two().then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_complaints_are_few_lines() {
        let complaints = Complaints::default();
        let told: Vec<_> = (0..1_000_000).filter_map(|_| complaints.count()).collect();
        assert_eq!(told.len(), 20);
        assert_eq!(told[..4], [1, 2, 4, 8]);
    }
}
