// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program that draws frames at a steady pace, beside another that computes without a pause: on the Compute node, and on the
//! node that draws.

use super::super::setting::Setting;
use super::guest::Guest;
use crate::vulkan::busy::{Busy, Where};
use crate::vulkan::figures::Frames;
use bellhop_guest::bench::{Measured, Suite};

/// Nothing of its own: the adapter has a Compute node.
pub(in super::super) const CONFIG: &str = "";
/// Frames a second, and how many are drawn in a repetition.
const PACE: u32 = 60;
const FRAMES: u32 = 180;
/// The figure: how many are drawn a second while another guest computes on the Compute node.
const BESIDE: &str = "vulkan_frames_per_second_beside_compute";

/// Measures how many frames are drawn a second, and which part of them before the next was due.
pub(in super::super) fn run(
    setting: &Setting,
    _: &[Suite],
    measured: &mut Measured,
) -> anyhow::Result<()> {
    if super::adapter(setting, &[BESIDE], measured)?.is_none() {
        return Ok(());
    }
    let guests = [Guest::new(setting, 0)?, Guest::new(setting, 1)?];
    let frames = || Frames::of(guests[1].command(&[])?, FRAMES, PACE);
    let part = |frames: &Frames| frames.in_time as f64 / f64::from(FRAMES);
    for _ in 0..setting.options(&[]).repetitions {
        measured.figure("vulkan_frames_in_time_alone_fraction", part(&frames()?));
        for (at, figure, pace) in [
            (Where::Beside, "vulkan_frames_in_time_beside_compute_fraction", BESIDE),
            (
                Where::WithFrames,
                "vulkan_frames_in_time_on_one_node_fraction",
                "vulkan_frames_per_second_on_one_node",
            ),
        ] {
            let busy = Busy::start(guests[0].command(&[])?, at)?;
            let seen = frames()?;
            busy.end()?;
            measured.figure(figure, part(&seen));
            measured.figure(pace, f64::from(FRAMES) * 1e9 / seen.total_ns.max(1) as f64);
        }
    }
    Ok(())
}
