// SPDX-License-Identifier: MIT OR Apache-2.0

//! Jobs for several GPUs that a guest sees as one adapter.
//!
//! What the proxy of linked adapters is for. Source: Windows KMD overview, "MGPU".

mod chain;
mod cue;
mod detach;
mod detach_report;
mod frames;
mod frames_report;
mod painter;
mod power;
mod power_report;
mod surface;
mod surface_report;
mod tunnel;

pub use cue::Cue;
pub use detach::{Detach, detach};
pub use detach_report::DetachReport;
pub use frames::{Film, Frames, render};
pub use frames_report::FramesReport;
pub use power::{Bursts, Shown, power};
pub use power_report::{PowerReport, Step};
pub use surface::{LargeSurface, Wall, span};
pub use surface_report::{Part, SurfaceReport};

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// The longest that a GPU may take for what it is given at once.
const PATIENCE: Duration = Duration::from_secs(300);

/// A bar with a message, for a job of so many steps; none where standard error is no terminal.
fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    // The template is correct. A wrong one would leave the bar its default look.
    match ProgressStyle::with_template("{bar:40} {pos}/{len}  {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
