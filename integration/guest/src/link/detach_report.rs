// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a GPU that left and came back has cost.

use crate::output::wrapped;
use crate::units::{self, counted};
use serde::Serialize;
use std::fmt;

/// What both GPUs drew in a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Frames that each GPU drew that was there.
    pub frames: u32,
    /// How many of them equal the processor's: of the GPU that stays, and of the one that leaves.
    pub right: [Option<u32>; 2],
}

/// What a GPU that left and came back has cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DetachReport {
    /// The GPU's ordinal.
    pub gpu: u8,
    /// Before it was taken away.
    pub before: Phase,
    /// While it was away.
    pub away: Phase,
    /// After it was brought back.
    pub after: Phase,
    /// Frames that it drew in a row until it was taken away.
    pub under_work: u32,
    /// Why its queue was lost.
    pub reason: String,
    /// Frames that were lost with it, and which the other GPU drew again.
    pub redrawn: u32,
    /// Milliseconds from when the loss was told until a queue of another GPU, which waited for the lost one's fence, was let
    /// go.
    pub released_ms: f64,
    /// How a new context on it was refused meanwhile.
    pub refused: String,
}

impl DetachReport {
    /// Whether all frames were what they are expected to be, and nothing else was lost.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let phases = [self.before, self.away, self.after];
        let is_right =
            |phase: &Phase| phase.right.iter().flatten().all(|right| *right == phase.frames);
        phases.iter().all(is_right) && self.reason == "GPU_REMOVED"
    }
}

impl fmt::Display for DetachReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gpu, before, away, after, under_work, reason, redrawn, .. } = self;
        writeln!(f, "GPU {gpu} was taken away under work, and brought back")?;
        writeln!(f, "  {:<14}{:>12}{:>12}", "frames right", "GPU 0", format!("GPU {gpu}"))?;
        for (name, Phase { frames, right }) in
            [("before", before), ("away", away), ("after", after)]
        {
            write!(f, "  {name:<14}")?;
            for right in right {
                let text =
                    right.map_or_else(|| "-".to_owned(), |right| format!("{right} of {frames}"));
                write!(f, "{text:>12}")?;
            }
            writeln!(f)?;
        }
        let lost = format!(
            "its queue, after {} in a row: {reason}; {} not done, which GPU 0 drew again",
            counted((*under_work).into(), "frame"),
            counted((*redrawn).into(), "frame")
        );
        f.write_str(&wrapped("  lost    ", &lost))?;
        let waits = format!(
            "a queue of GPU 0 that waited for its fence was let go {} after the loss was told",
            units::time(self.released_ms * 1e6)
        );
        f.write_str(&wrapped("  waits   ", &waits))?;
        f.write_str(&wrapped(
            "  refused ",
            &format!("a new context on it meanwhile: {}", self.refused),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_was_lost_and_what_was_not() {
        let phase = |right| Phase { frames: 24, right };
        let both = phase([Some(24); 2]);
        let report = DetachReport {
            gpu: 1,
            before: both,
            away: phase([Some(24), None]),
            after: both,
            under_work: 7,
            reason: "GPU_REMOVED".into(),
            redrawn: 3,
            released_ms: 0.25,
            refused: "GPU_REMOVED".into(),
        };
        assert!(report.is_right());
        let text = report.to_string();
        assert!(text.contains("away              24 of 24           -"), "{text}");
        assert!(text.contains("3 frames not done"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let wrong = DetachReport { after: phase([Some(24), Some(23)]), ..report.clone() };
        assert!(!wrong.is_right());
        assert!(!DetachReport { reason: "ADAPTER_RESET".into(), ..report }.is_right());
    }
}
