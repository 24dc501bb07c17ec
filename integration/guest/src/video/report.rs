// SPDX-License-Identifier: MIT OR Apache-2.0

//! What came of a video.

use crate::units;
use serde::Serialize;
use std::fmt;

/// Rows of the table: of more frames, the first.
const ROWS: usize = 20;

/// What came of a video.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `decode` or `encode`.
    pub job: &'static str,
    /// Width and height.
    pub size: [u32; 2],
    /// Bits of a sample.
    pub bit_depth: u32,
    /// Each picture, in its order.
    pub frames: Vec<Frame>,
    /// Units that were no valid AV1, if it decoded.
    pub corrupt: u32,
    /// Whether the file that it decoded ends within a unit, which is left out.
    pub is_cut_off: bool,
}

/// A picture.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Frame {
    /// Its time in the file.
    pub time: u64,
    /// Bytes of its temporal unit.
    pub bytes: u64,
    /// Nanoseconds from the doorbell of the packet with which it came out to its fence.
    pub nanoseconds: u64,
    /// Whether a decoder can begin with it; known when it encodes.
    pub is_key: Option<bool>,
}

impl Report {
    /// A report of nothing yet.
    pub(super) fn new(job: &'static str, size: [u32; 2], bit_depth: u32) -> Self {
        Self { job, size, bit_depth, frames: Vec::new(), corrupt: 0, is_cut_off: false }
    }

    /// Nanoseconds from the doorbell to the fence, of each picture.
    #[must_use]
    pub fn nanoseconds_of_each(&self) -> Vec<u64> {
        self.frames.iter().map(|frame| frame.nanoseconds).collect()
    }

    /// Whether every unit was whole and valid.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.corrupt == 0 && !self.is_cut_off
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, size: [width, height], bit_depth, frames, corrupt, is_cut_off } = self;
        writeln!(f, "{:>6}  {:>10}  {:>10}  {:>9}  kind", "frame", "time", "bytes", job)?;
        for (number, frame) in frames.iter().enumerate().take(ROWS) {
            let Frame { time, bytes, nanoseconds, is_key } = frame;
            let (bytes, took) = (units::grouped(*bytes), units::time(*nanoseconds as f64));
            let kind = if *is_key == Some(true) { "key" } else { "" };
            let row = format!("{number:>6}  {time:>10}  {bytes:>10}  {took:>9}  {kind}");
            writeln!(f, "{}", row.trim_end())?;
        }
        if frames.len() > ROWS {
            writeln!(f, "{:>6}", format!("and {} more", frames.len() - ROWS))?;
        }
        let bytes: u64 = frames.iter().map(|frame| frame.bytes).sum();
        let nanoseconds: u64 = frames.iter().map(|frame| frame.nanoseconds).sum();
        let rate = frames.len() as f64 / (nanoseconds.max(1) as f64 / 1e9);
        writeln!(
            f,
            "{} frames of {width} x {height}, {bit_depth} bits: {} in {}, {rate:.1} frames a second",
            frames.len(),
            units::bytes(bytes),
            units::time(nanoseconds as f64),
        )?;
        if *corrupt > 0 {
            writeln!(f, "{corrupt} temporal units are no valid AV1")?;
        }
        if *is_cut_off {
            writeln!(f, "the last frame is cut off")?;
        }
        Ok(())
    }
}
