// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the monitors of a large surface showed.

use super::surface::Wall;
use crate::output::wrapped;
use crate::units::{counted, grouped};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A monitor's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The ordinal of its GPU.
    pub gpu: u8,
    /// The connector.
    pub connector: u32,
    /// Its first column in the surface.
    pub left: u32,
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Frames that it showed.
    pub shown: u64,
    /// Frames that were lost.
    pub lost: u64,
    /// Pixels of the last frame in the GPU's memory that differ from the processor's.
    pub wrong_pixels: u64,
    /// The same of what its host captured from the monitor; null if it captured nothing.
    pub captured_wrong_pixels: Option<u64>,
}

/// What the monitors of a large surface showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurfaceReport {
    /// Pixels of a line of the surface.
    pub width: u32,
    /// Its lines.
    pub height: u32,
    /// Pixels behind the bezels between two monitors.
    pub bezel: u32,
    /// Frames.
    pub frames: u32,
    /// The monitors, from the left.
    pub parts: Vec<Part>,
}

impl SurfaceReport {
    pub(super) fn new(wall: &Wall, frames: u32) -> Self {
        let [width, height] = wall.size();
        Self { width, height, bezel: wall.bezel, frames, parts: Vec::new() }
    }

    /// The monitors.
    #[must_use]
    pub fn wall(&self) -> Wall {
        let monitors = self.parts.iter().map(|part| [part.width, part.height]).collect();
        Wall { monitors, bezel: self.bezel }
    }

    /// Whether all frames were shown, and the last is what the processor computes.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.parts.iter().all(|part| {
            let wrong = part.wrong_pixels + part.captured_wrong_pixels.unwrap_or(0);
            (part.shown, part.lost, wrong) == (self.frames.into(), 0, 0)
        })
    }
}

impl fmt::Display for SurfaceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, bezel, frames, parts } = self;
        let text = format!(
            "{} of a surface of {width} x {height} pixels, drawn by GPU 0, with {bezel} behind the bezels between two \
             monitors",
            counted((*frames).into(), "frame")
        );
        f.write_str(&wrapped("", &text))?;
        writeln!(
            f,
            "  {:<8}{:>10}{:>14}{:>14}{:>14}",
            "GPU", "connector", "columns", "shown", "lost"
        )?;
        for Part { gpu, connector, left, width, shown, lost, .. } in parts {
            let columns = format!("{left} to {}", left + width - 1);
            writeln!(f, "  {gpu:<8}{connector:>10}{columns:>14}{shown:>14}{lost:>14}")?;
        }
        let verdict = |wrong: u64| match wrong {
            0 => "all equal the processor's".to_owned(),
            wrong => format!("{} DIFFER from the processor's", grouped(wrong)),
        };
        let wrong = parts.iter().map(|part| part.wrong_pixels).sum();
        f.write_str(&wrapped("  pixels  ", &format!("in the GPUs' memory: {}", verdict(wrong))))?;
        let captured: Option<u64> = parts.iter().map(|part| part.captured_wrong_pixels).sum();
        if let Some(wrong) = captured {
            let text = format!("as the monitors show them, put together: {}", verdict(wrong));
            f.write_str(&wrapped("  pixels  ", &text))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_is_right_if_all_its_pixels_are() {
        let wall = Wall { monitors: vec![[640, 480]; 2], bezel: 40 };
        let mut report = SurfaceReport::new(&wall, 30);
        for gpu in 0..2 {
            report.parts.push(Part {
                gpu,
                connector: gpu.into(),
                left: wall.left(gpu.into()),
                width: 640,
                height: 480,
                shown: 30,
                lost: 0,
                wrong_pixels: 0,
                captured_wrong_pixels: Some(0),
            });
        }
        assert!(report.is_right());
        assert_eq!(report.wall(), wall);
        let text = report.to_string();
        assert!(
            text.contains("1                1   680 to 1319            30             0"),
            "{text}"
        );
        assert!(text.contains("as the monitors show them, put together: all equal"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        report.parts[1].captured_wrong_pixels = Some(1200);
        assert!(!report.is_right());
        assert!(report.to_string().contains("1,200 DIFFER"), "{report}");
    }
}
