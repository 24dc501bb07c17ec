// SPDX-License-Identifier: MIT OR Apache-2.0

//! When a second GPU had power.

use crate::output::wrapped;
use crate::units;
use serde::Serialize;
use std::fmt;

/// A moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// What was done before.
    pub name: String,
    /// Frames that the second GPU drew meanwhile.
    pub frames: u32,
    /// The state of the GPU that shows: `D0` has power, `D3` has none.
    pub shows: String,
    /// The state of the GPU that draws.
    pub draws: String,
    /// How often the GPU that draws has got power since the daemon began.
    pub starts: u64,
    /// Milliseconds for which it had power since then.
    pub powered_ms: f64,
}

/// When a second GPU had power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PowerReport {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Bursts of frames.
    pub bursts: u32,
    /// Bursts whose last frame was shown while the GPU that drew it had no power any more, as the processor computes it.
    pub right: u32,
    /// What was seen of both GPUs' power.
    pub steps: Vec<Step>,
}

impl PowerReport {
    /// Whether the second GPU had power in bursts and at no other time, and each picture was right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let had_power = |step: &Step| (step.draws == "D0") == (step.frames > 0);
        self.right == self.bursts && self.steps.iter().all(had_power)
    }
}

impl fmt::Display for PowerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, bursts, right, steps } = self;
        writeln!(f, "GPU 1 draws {width} x {height} pixels in bursts, GPU 0 shows them")?;
        writeln!(
            f,
            "  {:<10}{:>8}{:>8}{:>8}{:>14}{:>14}",
            "", "frames", "GPU 0", "GPU 1", "got power", "had power"
        )?;
        let mut before: Option<&Step> = None;
        for step in steps {
            let Step { name, frames, shows, draws, starts, powered_ms } = step;
            // How much more than at the step before.
            let (starts, powered) =
                before.map_or((0, 0.0), |it| (starts - it.starts, powered_ms - it.powered_ms));
            let powered = units::time(powered * 1e6);
            writeln!(f, "  {name:<10}{frames:>8}{shows:>8}{draws:>8}{starts:>14}{powered:>14}")?;
            before = Some(step);
        }
        let pixels = format!(
            "{right} of {bursts} pictures equal the processor's, on the monitor after GPU 1 has lost its power"
        );
        f.write_str(&wrapped("  pixels  ", &pixels))?;
        if steps.iter().any(|step| step.frames == 0 && step.draws == "D0") {
            let why = "GPU 1 KEPT its power, though nothing needed it";
            f.write_str(&wrapped("  ", why))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, frames: u32, draws: &str, starts: u64, powered_ms: f64) -> Step {
        let (name, shows, draws) = (name.to_owned(), "D0".to_owned(), draws.to_owned());
        Step { name, frames, shows, draws, starts, powered_ms }
    }

    #[test]
    fn power_without_need_is_told() {
        let steps = vec![
            step("before", 0, "D3", 1, 5.0),
            step("burst 1", 24, "D0", 2, 505.0),
            step("after 1", 0, "D3", 2, 506.0),
        ];
        let report = PowerReport { width: 640, height: 360, bursts: 1, right: 1, steps };
        assert!(report.is_right());
        let text = report.to_string();
        assert!(
            text.contains("burst 1         24      D0      D0             1        500 ms"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let mut always = report;
        always.steps[2].draws = "D0".into();
        assert!(!always.is_right());
        assert!(always.to_string().contains("KEPT its power"), "{always}");
    }
}
