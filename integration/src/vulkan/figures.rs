// SPDX-License-Identifier: MIT OR Apache-2.0

//! What submissions cost a program, by whichever Vulkan it finds.

use anyhow::{Context, ensure};
use bellhop_guest::timing;
use bellhop_vulkan_suite::{Load, bench};
use serde::{Deserialize, Serialize};
use std::io::Write;
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
    /// 64 dispatches that depend on each other, in one command buffer.
    pub batch_ns: u64,
}

/// How this process's first Vulkan device is measured.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Arguments {
    /// Submissions to time
    #[arg(long)]
    samples: u64,
}

impl Arguments {
    /// Prints the figures of this process's first Vulkan device.
    ///
    /// # Errors
    /// When there is none, or it computes wrongly.
    pub fn run(self) -> anyhow::Result<()> {
        let lab = super::lab(0)?;
        let mut figures = Figures::LONGEST;
        bench(&lab, &[Load::Empty, Load::Dispatch, Load::Batch], |load, round| {
            let (figure, share) = match load {
                Load::Empty => (&mut figures.empty_ns, 1),
                Load::Dispatch => (&mut figures.dispatch_ns, DISPATCH_SHARE),
                Load::Batch => (&mut figures.batch_ns, BATCH_SHARE),
            };
            *figure = timing::time(self.samples.div_ceil(share), round)?.p50.max(1);
            anyhow::Ok(())
        })?;
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &figures)?;
        Ok(writeln!(out)?)
    }
}

impl Figures {
    /// What everything is less than.
    pub const LONGEST: Self =
        Self { empty_ns: u64::MAX, dispatch_ns: u64::MAX, batch_ns: u64::MAX };

    /// The lesser of each.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            empty_ns: self.empty_ns.min(other.empty_ns),
            dispatch_ns: self.dispatch_ns.min(other.dispatch_ns),
            batch_ns: self.batch_ns.min(other.batch_ns),
        }
    }

    /// Measures in a process of its own. The command is `bellhop`, with the variables that its Vulkan is found by.
    ///
    /// # Errors
    /// When the process fails.
    pub fn of(mut command: Command, samples: u64) -> anyhow::Result<Self> {
        command.args([FIGURES, "--samples", &samples.to_string()]);
        // Otherwise Mesa caches compiled kernels in the user's home.
        command.env("MESA_SHADER_CACHE_DISABLE", "true").stdin(Stdio::null());
        let output = command.output().context("cannot start a program with Vulkan")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "a program with Vulkan ended ({}): {said}", output.status);
        serde_json::from_slice(&output.stdout).context("a program with Vulkan printed no figures")
    }
}
