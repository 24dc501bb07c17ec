// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `compositor`.

use crate::compositor::{Flips, Options};
use bellhop_protocol::compositor::USUAL_SOCKET;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// The compositor of a guest's monitors.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
It has the monitors, as one of the programs behind a broker. A Vulkan program of another user that shows on a display
(VK_KHR_display) finds it by the usual socket, or by the variable BELLHOP_COMPOSITOR, and needs to know nothing of it.

A program in the monitor's mode covers it, and is shown without a copy; one in a smaller mode has a window.
When a window closes, a line says how often its pictures were shown in which way.

Examples:
  bellhop-guest compositor                                         behind the usual broker
  bellhop-guest --broker broker.sock compositor --listen compositor.sock --mode 666")]
pub struct CompositorArguments {
    /// Where programs connect
    #[arg(long, value_name = "PATH", default_value = USUAL_SOCKET)]
    listen: PathBuf,
    /// The socket's mode, in octal: who may connect
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    mode: u32,
    /// How a window that covers its monitor may be shown
    #[arg(long, value_enum, value_name = "WAY", default_value_t = Way::Independent)]
    flips: Way,
    /// The colour where no window is
    #[arg(long, value_name = "RRGGBB", default_value = "203040", value_parser = colour)]
    ground: u32,
}

/// How a window that covers its monitor may be shown.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Way {
    /// By a copy, as every other
    Composed,
    /// By flips of the compositor's to the program's pictures
    Direct,
    /// By flips of the program's own
    Independent,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write it in octal, 0 to 777".into())
}

fn colour(text: &str) -> Result<u32, String> {
    let colour = u32::from_str_radix(text, 16).ok().filter(|colour| *colour <= 0x00FF_FFFF);
    colour.ok_or_else(|| "write it as RRGGBB".into())
}

impl CompositorArguments {
    /// What they ask for.
    pub(super) fn options(&self) -> Options {
        let Self { listen, mode, flips, ground } = self;
        let flips = match flips {
            Way::Composed => Flips::Composed,
            Way::Direct => Flips::Direct,
            Way::Independent => Flips::Independent,
        };
        Options { socket: listen.clone(), mode: *mode, flips, ground: *ground }
    }
}
