// SPDX-License-Identifier: MIT OR Apache-2.0

//! How frames ended: shown, dropped or lost.

use crate::link::display_events::Flipped;
use bellhop_protocol::event::FlipOutcome;
use std::collections::VecDeque;
use std::time::Instant;

/// Most frames that are kept until the program takes them.
const MOST: usize = 1024;

/// How a frame ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The number of its flip.
    pub flip: u64,
    /// When it was presented.
    pub presented: Instant,
    /// How it ended.
    pub outcome: FlipOutcome,
    /// The VSYNC at which it was shown, counted from the commit.
    pub vsync: u64,
    /// When it was shown, in ticks of the clock that [`Adapter::gpu_clock`](crate::Adapter::gpu_clock) reads.
    pub time: u64,
    /// VSYNCs at which the frame before it was shown once more.
    pub missed: u64,
}

/// How many frames ended in each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameStatistics {
    /// Frames that were presented.
    pub presented: u64,
    /// Frames that were shown.
    pub shown: u64,
    /// Frames that a later one replaced before they were shown.
    pub dropped: u64,
    /// Frames that were lost with their source, or with a reset.
    pub lost: u64,
    /// VSYNCs at which the frame before was shown once more.
    pub missed: u64,
}

/// Frames, counted.
#[derive(Debug, Default)]
pub(super) struct Book {
    totals: FrameStatistics,
    frames: VecDeque<Frame>,
    /// The VSYNC at which the last frame was shown.
    last: Option<u64>,
}

impl Book {
    pub(super) fn presented(&mut self) {
        self.totals.presented += 1;
    }

    pub(super) fn ended(&mut self, presented: Instant, ended: &Flipped) {
        let Flipped { flip, outcome, count: vsync, time, .. } = *ended;
        let mut missed = 0;
        match outcome {
            FlipOutcome::SHOWN => {
                self.totals.shown += 1;
                // The count begins again with a commit.
                let since = self.last.and_then(|last| vsync.checked_sub(last));
                missed = since.map_or(0, |since| since.saturating_sub(1));
                self.last = Some(vsync);
            }
            FlipOutcome::DROPPED => self.totals.dropped += 1,
            _ => self.totals.lost += 1,
        }
        self.totals.missed += missed;
        if self.frames.len() == MOST {
            self.frames.pop_front();
        }
        self.frames.push_back(Frame { flip, presented, outcome, vsync, time, missed });
    }

    pub(super) fn totals(&self) -> FrameStatistics {
        self.totals
    }

    pub(super) fn take(&mut self) -> Vec<Frame> {
        self.frames.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vsync_without_a_new_frame_is_missed_and_dropped_frames_miss_none() {
        let mut book = Book::default();
        let mut end = |flip, outcome, count| {
            book.presented();
            let ended = Flipped { source: 0, flip, outcome, count, time: 0 };
            book.ended(Instant::now(), &ended);
        };
        end(1, FlipOutcome::SHOWN, 7);
        end(2, FlipOutcome::SHOWN, 8);
        end(3, FlipOutcome::DROPPED, 9);
        end(4, FlipOutcome::SHOWN, 11);
        // After another commit.
        end(5, FlipOutcome::SHOWN, 2);
        end(6, FlipOutcome::LOST, 2);
        let totals = FrameStatistics { presented: 6, shown: 4, dropped: 1, lost: 1, missed: 2 };
        assert_eq!(book.totals(), totals);
        let missed: Vec<_> = book.take().iter().map(|frame| frame.missed).collect();
        assert_eq!(missed, [0, 0, 0, 2, 0, 0]);
        assert!(book.take().is_empty());
    }
}
