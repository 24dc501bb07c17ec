// SPDX-License-Identifier: MIT OR Apache-2.0

//! What submissions cost a program, by whichever Vulkan it finds.

use super::busy::{self, Where};
use anyhow::{Context, ensure};
use bellhop_guest::timing;
use bellhop_vulkan_suite::{Lab, Load, bench, frames};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The hidden command that prints figures.
pub const FIGURES: &str = "vulkan-figures";
/// How many times fewer batches than submissions are timed, and dispatches: those take longer.
const BATCH_SHARE: u64 = 100;
const DISPATCH_SHARE: u64 = 10;

/// Medians in nanoseconds, from submission until the program knows that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Nothing but the signal of a timeline.
    pub empty_ns: u64,
    /// A dispatch of one work group.
    pub dispatch_ns: u64,
    /// A dispatch of several work groups.
    pub groups_ns: u64,
    /// 64 dispatches that depend on each other, in one command buffer.
    pub batch_ns: u64,
}

/// How this process's first Vulkan device is measured.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Arguments {
    /// Submissions to time
    #[arg(long, required_unless_present_any = ["busy", "frames"])]
    samples: Option<u64>,
    /// Time nothing, and have work for the device until standard input ends
    #[arg(long)]
    busy: bool,
    /// Have that work on a queue that does not draw
    #[arg(long, requires = "busy")]
    beside: bool,
    /// Draw so many frames instead
    #[arg(long, conflicts_with_all = ["busy", "samples"], requires = "pace")]
    frames: Option<u32>,
    /// How many a second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pace: Option<u32>,
}

impl Arguments {
    /// Prints the figures of this process's first Vulkan device, or keeps it busy.
    ///
    /// # Errors
    /// When there is none, or it computes wrongly.
    pub fn run(self) -> anyhow::Result<()> {
        let lab = super::lab(0)?;
        if let (Some(count), Some(pace)) = (self.frames, self.pace) {
            return print(&Frames::draw(&lab, count, pace)?);
        }
        let Some(samples) = self.samples.filter(|_| !self.busy) else {
            let at = if self.beside { Where::Beside } else { Where::WithFrames };
            return busy::be_busy(&lab, at);
        };
        let mut figures = Figures::LONGEST;
        bench(&lab, &[Load::Empty, Load::Dispatch, Load::Groups, Load::Batch], |load, round| {
            let (figure, share) = match load {
                Load::Empty => (&mut figures.empty_ns, 1),
                Load::Dispatch => (&mut figures.dispatch_ns, DISPATCH_SHARE),
                Load::Groups => (&mut figures.groups_ns, DISPATCH_SHARE),
                Load::Batch => (&mut figures.batch_ns, BATCH_SHARE),
            };
            *figure = timing::time(samples.div_ceil(share), round)?.p50.max(1);
            anyhow::Ok(())
        })?;
        print(&figures)
    }
}

/// What became of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// How long all took.
    pub total_ns: u64,
    /// How many were done before the next was due.
    pub in_time: u64,
}

impl Frames {
    /// As many as go before those that count.
    const BEFORE: u32 = 10;

    fn draw(lab: &Lab, count: u32, pace: u32) -> anyhow::Result<Self> {
        let seen = frames(lab, Self::BEFORE, count, pace)?;
        Ok(Self { total_ns: seen.total.as_nanos().try_into()?, in_time: seen.in_time })
    }

    /// Draws so many frames, and so many a second, in a process of its own. The command is as for [`Figures::of`].
    ///
    /// # Errors
    /// When the process fails.
    pub fn of(mut command: Command, count: u32, pace: u32) -> anyhow::Result<Self> {
        let [count, pace] = [count, pace].map(|number| number.to_string());
        command.args([FIGURES, "--frames", &count, "--pace", &pace]);
        measured_by(command)
    }
}

/// Prints figures in a line.
fn print(figures: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, figures)?;
    Ok(writeln!(out)?)
}

impl Figures {
    /// What everything is less than.
    pub const LONGEST: Self =
        Self { empty_ns: u64::MAX, dispatch_ns: u64::MAX, groups_ns: u64::MAX, batch_ns: u64::MAX };

    /// The lesser of each.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            empty_ns: self.empty_ns.min(other.empty_ns),
            dispatch_ns: self.dispatch_ns.min(other.dispatch_ns),
            groups_ns: self.groups_ns.min(other.groups_ns),
            batch_ns: self.batch_ns.min(other.batch_ns),
        }
    }

    /// Measures in a process of its own. The command is `bellhop`, with the variables that its Vulkan is found by.
    ///
    /// # Errors
    /// When the process fails.
    pub fn of(mut command: Command, samples: u64) -> anyhow::Result<Self> {
        command.args([FIGURES, "--samples", &samples.to_string()]);
        measured_by(command)
    }
}

/// Runs a program, and reads the last line that it prints, which is JSON.
///
/// # Errors
/// When the program fails, or prints something else.
pub fn measured_by<T: DeserializeOwned>(mut command: Command) -> anyhow::Result<T> {
    let output = without_caches(&mut command).stdin(Stdio::null()).output();
    let output = output.context("cannot start a program with Vulkan")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a program with Vulkan ended ({}): {said}", output.status);
    let lines = String::from_utf8_lossy(&output.stdout);
    let last = lines.trim_end().lines().next_back().unwrap_or_default();
    serde_json::from_str(last).context("the last line of a program with Vulkan has no figures")
}

/// Otherwise Mesa caches compiled kernels in the user's home.
pub(super) fn without_caches(command: &mut Command) -> &mut Command {
    command.env("MESA_SHADER_CACHE_DISABLE", "true")
}
