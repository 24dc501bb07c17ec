// SPDX-License-Identifier: MIT OR Apache-2.0

//! A second GPU that has power only while something needs it: it draws in bursts, and the first GPU shows its picture.

use super::chain::Chain;
use super::painter::Painter;
use super::power_report::{PowerReport, Step};
use super::tunnel::{FORMAT, PIXEL, Tunnel};
use super::{PATIENCE, progress};
use crate::canvas::Canvas;
use crate::pictures::{rgb, write_png};
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::display::{Display, Flip, FlipOutcome, Path, Primary, Surface, Topology};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use bellhop_protocol::control::power::{DevicePowerState, GPU_POWER_WHEN_NEEDED, GpuPowerInfo};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The GPU that shows.
const SHOWS: u8 = 0;
/// The GPU that draws.
const DRAWS: u8 = 1;

/// No event tells of a GPU's power: it is asked for as often.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a GPU that nothing needs may keep its power.
const LET_GO: Duration = Duration::from_secs(10);

/// Bursts of frames to draw.
#[derive(Debug, Clone, Copy)]
pub struct Bursts {
    /// How many there are.
    pub bursts: u32,
    /// Frames of each.
    pub frames: u32,
}

/// What was shown at the end.
#[derive(Debug)]
pub struct Shown {
    surface: Surface,
    pixels: Vec<u32>,
}

impl Shown {
    /// Writes it as PNG.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_png(&self, to: impl Write) -> anyhow::Result<()> {
        let size = [self.surface.width, self.surface.height];
        write_png(to, size, &rgb(self.pixels.iter().copied())).context("cannot write the picture")
    }
}

/// Has the second GPU draw bursts of frames, which the first shows, and looks at when the second has power.
///
/// # Errors
/// If the adapter is no chain, or its master has no monitor.
pub fn power(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    job: &Bursts,
) -> anyhow::Result<(PowerReport, Shown)> {
    let chain = Chain::open(transport, placement)?;
    ensure!(
        chain.adapter.gpu_power(DRAWS)?.flags & GPU_POWER_WHEN_NEEDED != 0,
        "GPU {DRAWS} has power when the master has: bellhopd's configuration needs power = \"when_needed\" in [link.NAME]"
    );
    let display = chain.adapter.display()?;
    let (source, surface) = show_something(&display)?;
    let Surface { width, height, .. } = surface;
    let tunnel = Tunnel { width, height, frames: job.frames * job.bursts };
    let textures = chain.textures()?;
    let primaries = [(); 2].map(|()| chain.device.create_primary(surface));
    let primaries = primaries.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut steps = vec![step(&chain.adapter, "before".to_owned(), 0)?];
    let progress = progress(tunnel.frames.into());
    let mut right = 0;
    let mut shown = None;
    for burst in 0..job.bursts {
        {
            // Its context and its memory are what needs power.
            let mut painter = Painter::new(&chain, DRAWS, tunnel, &textures)?;
            for frame in burst * job.frames..(burst + 1) * job.frames {
                let primary = &primaries[frame as usize % 2];
                show(&display, source, &mut painter, primary, frame)?;
                shown = Some(primary);
                progress.inc(1);
            }
            steps.push(step(&chain.adapter, format!("burst {}", burst + 1), job.frames)?);
        }
        // Its picture stays while it has no power.
        steps.push(step(&chain.adapter, format!("after {}", burst + 1), 0)?);
        let expected = tunnel.render_one((burst + 1) * job.frames - 1);
        let pixels = pixels(shown.context("there are frames")?)?;
        right += u32::from(pixels == expected.pixels);
    }
    progress.finish_and_clear();
    let pixels = pixels(shown.context("there are frames")?)?;
    let report = PowerReport { width, height, bursts: job.bursts, right, steps };
    Ok((report, Shown { surface, pixels }))
}

/// Shows a black picture on the first monitor of the GPU that shows, in the mode that it prefers.
fn show_something(display: &Display) -> anyhow::Result<(u32, Surface)> {
    let child = display.children().iter().position(|child| child.gpu() == SHOWS);
    let no_monitor = "the master has no monitor: give it one by [[adapter.displays]] in bellhopd's configuration";
    let child = child.context(no_monitor)? as u32;
    let mode = *display.monitor_modes(child)?.first().context(no_monitor)?;
    let path = Path::new(child, child).target_mode(mode);
    let path = path.source_mode(mode.width, mode.height, FORMAT);
    display.commit(&display.complete(&Topology::new().path(path))?)?;
    Ok((child, Surface { width: mode.width, height: mode.height, format: FORMAT }))
}

/// Has the painter draw a frame and copy it to a primary, and shows that.
fn show(
    display: &Display,
    source: u32,
    painter: &mut Painter,
    primary: &Primary,
    frame: u32,
) -> anyhow::Result<()> {
    let Surface { width, height, .. } = primary.surface();
    let to = (primary.gpu_va(), primary.pitch()?);
    let value = painter.draw(frame, |commands, image| {
        commands.copy_rect(image, to, width * PIXEL, height).map(drop)
    })?;
    let fences = [(painter.progress(), value)];
    let flip = display.flip(source, Flip::to(primary).after(&fences))?;
    let ended = display.wait_for_flip(source, flip, PATIENCE)?;
    ensure!(
        ended.outcome == FlipOutcome::SHOWN,
        "frame {frame} was {} and not shown",
        ended.outcome
    );
    Ok(())
}

fn pixels(primary: &Primary) -> anyhow::Result<Vec<u32>> {
    Ok(Canvas::of(primary)?.pixels)
}

/// The power of both GPUs now.
fn step(adapter: &Adapter, name: String, frames: u32) -> anyhow::Result<Step> {
    // A GPU that is not needed lets its power go soon.
    let draws = if frames > 0 { adapter.gpu_power(DRAWS)? } else { await_off(adapter)? };
    let shows = adapter.gpu_power(SHOWS)?;
    Ok(Step {
        name,
        frames,
        shows: shows.state.to_string(),
        draws: draws.state.to_string(),
        starts: draws.d0_entries,
        powered_ms: draws.d0_time as f64 / 1e6,
    })
}

/// The power of the GPU that draws, once it has none; or as it is if it keeps it.
fn await_off(adapter: &Adapter) -> anyhow::Result<GpuPowerInfo> {
    let end = Instant::now() + LET_GO;
    loop {
        let info = adapter.gpu_power(DRAWS)?;
        if info.state == DevicePowerState::D3 || Instant::now() > end {
            return Ok(info);
        }
        std::thread::sleep(PAUSE);
    }
}
