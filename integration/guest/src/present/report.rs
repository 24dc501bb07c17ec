// SPDX-License-Identifier: MIT OR Apache-2.0

//! What became of an animation's frames.

use crate::timing::{Latency, times};
use crate::units;
use bellhop_guest_umd::display::{FlipOutcome, Frame, FrameStatistics, GpuClock};
use serde::Serialize;
use std::fmt;

/// What became of an animation's frames.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// VSYNCs a second.
    pub refresh_hz: f64,
    /// The connector.
    pub connector: u32,
    /// When frames were shown: `vsync`, `immediate` or `mailbox`.
    pub sync: &'static str,
    /// What drew them.
    pub drawn_by: String,
    /// Frames that were presented.
    pub presented: u64,
    /// Frames that were shown.
    pub shown: u64,
    /// Frames that a later one replaced before they were shown.
    pub dropped: u64,
    /// Frames that were lost with their source, or with a reset.
    pub lost: u64,
    /// VSYNCs at which the frame before was shown once more.
    pub missed_vsyncs: u64,
    /// Nanoseconds from the request for a flip, after drawing was submitted, to scan-out.
    pub submit_to_scan_out_ns: Latency,
    /// By how many nanoseconds these may be wrong: the clocks of guest and GPU were read beside each other.
    pub clock_uncertainty_ns: u64,
}

/// The times from presenting frames to showing them.
pub(super) fn latency(frames: &[Frame], clock: &GpuClock) -> anyhow::Result<Latency> {
    let mut taken = times()?;
    for frame in frames.iter().filter(|frame| frame.outcome == FlipOutcome::SHOWN) {
        let time = clock.between(clock.ticks(frame.presented), frame.time);
        taken.record((time.as_nanos() as u64).max(1))?;
    }
    Ok(Latency::of(&taken))
}

impl Report {
    pub(super) fn count(mut self, totals: &FrameStatistics) -> Self {
        let FrameStatistics { presented, shown, dropped, lost, missed } = *totals;
        (self.presented, self.shown, self.dropped) = (presented, shown, dropped);
        (self.lost, self.missed_vsyncs) = (lost, missed);
        self
    }

    /// Whether no frame was lost.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost == 0 && self.shown + self.dropped == self.presented
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, refresh_hz, connector, sync, drawn_by, .. } = self;
        let Self { presented, shown, dropped, lost, missed_vsyncs, .. } = self;
        let time = |nanoseconds: u64| units::time(nanoseconds as f64);
        let Latency { p50, p99, max, .. } = &self.submit_to_scan_out_ns;
        writeln!(f, "screen    {width} x {height} at {refresh_hz:.2} Hz on connector {connector}")?;
        writeln!(f, "drawn by  {drawn_by}")?;
        writeln!(
            f,
            "frames    {presented} presented ({sync}), {shown} shown, {dropped} dropped, {lost} lost"
        )?;
        writeln!(f, "VSYNCs    {missed_vsyncs} missed: the frame before was shown once more")?;
        writeln!(
            f,
            "scan-out  {} after submission at the median, {} at 99 %, {} at most",
            time(*p50),
            time(*p99),
            time(*max)
        )
    }
}
