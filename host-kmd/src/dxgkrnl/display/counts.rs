// SPDX-License-Identifier: MIT OR Apache-2.0

//! What became of a source's flips.

use bellhop_protocol::event::FlipOutcome;

/// Counts of a source's flips, over all commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FlipCounts {
    /// Flips that were shown.
    pub(crate) shown: u64,
    /// VSYNCs between those at which the picture before was shown once more.
    pub(crate) missed: u64,
    /// Flips that were dropped for newer ones.
    pub(crate) dropped: u64,
    /// Flips that were lost.
    pub(crate) lost: u64,
    /// The VSYNC at which the last one was shown.
    last: Option<u64>,
}

impl FlipCounts {
    /// A flip has ended, when the source had this many VSYNCs since its commit.
    pub(crate) fn end(&mut self, outcome: FlipOutcome, vsync: u64) {
        let count = match outcome {
            FlipOutcome::SHOWN => {
                // VSYNCs are counted anew after a commit.
                let since = self.last.and_then(|last| vsync.checked_sub(last)).unwrap_or(0);
                self.missed = self.missed.saturating_add(since.saturating_sub(1));
                self.last = Some(vsync);
                &mut self.shown
            }
            FlipOutcome::DROPPED => &mut self.dropped,
            _ => &mut self.lost,
        };
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vsyncs_without_a_new_picture_are_missed_but_not_across_a_commit() {
        let mut counts = FlipCounts::default();
        for vsync in [5, 6, 9, 9, 2] {
            counts.end(FlipOutcome::SHOWN, vsync);
        }
        counts.end(FlipOutcome::DROPPED, 2);
        counts.end(FlipOutcome::LOST, 2);
        let FlipCounts { shown, missed, dropped, lost, .. } = counts;
        assert_eq!([shown, missed, dropped, lost], [5, 2, 1, 1]);
    }
}
