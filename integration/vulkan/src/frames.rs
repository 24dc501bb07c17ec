// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program that draws so many frames a second.

use crate::lab::{Failure, Lab, Plan, RED, Rendering, pictured, whole_area};
use std::thread;
use std::time::{Duration, Instant};

/// What became of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paced {
    /// How long all took.
    pub total: Duration,
    /// How many were done before the next was due.
    pub in_time: u64,
}

/// How often each frame covers all of its canvas.
const LAYERS: usize = 200;

/// Draws frames, each at its time, so many a second, and waits for each. Others may go before, and are not counted.
///
/// # Errors
/// When the device draws nothing, or draws wrongly.
pub fn frames(lab: &Lab, before: u32, count: u32, per_second: u32) -> Result<Paced, Failure> {
    let gpu = lab.graphics()?;
    let (brush, canvas) = (gpu.drawer(&Plan::plain()?)?, gpu.colours()?);
    let corners = gpu.corners(&whole_area(RED).repeat(LAYERS))?;
    let draw = || {
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&corners);
            commands.draw(6 * LAYERS as u32).end();
        })
    };
    for _ in 0..before {
        draw()?;
    }
    let begin = Instant::now();
    let due = |frame: u32| begin + Duration::from_secs(1) * frame / per_second;
    let mut in_time = 0;
    for frame in 0..count {
        thread::sleep(due(frame).saturating_duration_since(Instant::now()));
        draw()?;
        in_time += u64::from(Instant::now() <= due(frame + 1));
    }
    let total = begin.elapsed();
    pictured(&gpu.words(canvas)?, |_, _| RED)?;
    Ok(Paced { total, in_time })
}
