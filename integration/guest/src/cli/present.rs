// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `present`.

use crate::present::{Animation, WantedMode};
use bellhop_guest_umd::display::{PresentMode, SwapChain};
use clap::{Args, ValueEnum};
use std::ffi::OsString;

/// An animation to show.
#[derive(Debug, Clone, Args)]
#[group(skip)]
#[command(after_help = PRESENT_HELP)]
pub struct PresentArguments {
    /// Frames to show
    #[arg(long, value_name = "COUNT", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    frames: u64,
    /// The monitor's mode; by default the one that it prefers
    #[arg(long, value_name = "WxH@R")]
    mode: Option<WantedMode>,
    /// When a frame is shown
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Vsync)]
    sync: When,
    /// The connector, counted from 0
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    connector: u32,
    /// Images that take turns: one is shown, the others are drawn on or wait
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=SwapChain::MOST_IMAGES as i64))]
    images: u8,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

const PRESENT_HELP: &str = "\
Shows rings that run outwards, drawn by a kernel where the host runs kernels, and bars that run down where it does not.
A frame is drawn by the GPU and flipped when it is drawn: the program itself waits only for a free image.

The host gives a guest a display by its configuration:

  [[adapter.displays]]
  modes = [\"1920x1080@60\"]

What is printed:
  frames    how many were presented and shown; mailbox drops those that a later one overtook
  VSYNCs    how many were missed: no new frame was ready, so the one before was shown once more
  scan-out  from the request for the flip to the time at which its first line is scanned

Examples:
  present                                 300 frames of the preferred mode, one each VSYNC
  present --mode 1920x1080@60 --frames 1000 --json
  present --sync immediate                as fast as can be; a viewer sees torn pictures
  present --sync mailbox --images 4       never torn, the newest frame at each VSYNC";

/// When a frame is shown.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum When {
    /// At a VSYNC of its own, after the frames before it
    Vsync,
    /// At once, which may tear the picture
    Immediate,
    /// At the next VSYNC, in place of earlier frames that wait
    Mailbox,
}

impl From<When> for PresentMode {
    fn from(sync: When) -> Self {
        match sync {
            When::Vsync => Self::Vsync,
            When::Immediate => Self::Immediate,
            When::Mailbox => Self::Mailbox,
        }
    }
}

impl PresentArguments {
    /// What they ask for.
    pub(super) fn animation(&self) -> Animation {
        let Self { connector, mode, frames, sync, images, .. } = *self;
        Animation { connector, mode, frames, sync: sync.into(), images: images.into() }
    }

    /// Whether other programs read the report.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let sync = crate::present::name_of(self.sync.into());
        let mut line: Vec<OsString> = vec![
            "present".into(),
            format!("--frames={}", self.frames).into(),
            format!("--sync={sync}").into(),
            format!("--connector={}", self.connector).into(),
            format!("--images={}", self.images).into(),
        ];
        line.extend(self.mode.map(|mode| format!("--mode={mode}").into()));
        line.extend(self.json.then(|| "--json".into()));
        line
    }
}
