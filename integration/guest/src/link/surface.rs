// SPDX-License-Identifier: MIT OR Apache-2.0

//! A single large surface: one GPU draws a surface that is wider than a monitor, and each GPU shows its part.
//!
//! ```text
//!             surface, drawn by GPU 0
//! ├─────────────────┬───────┬─────────────────┤
//!   part of GPU 0     bezel    part of GPU 1
//!        │                          │            copied by the copy engine of each GPU
//!        ▼                          ▼
//!   its monitor              its monitor         flipped when the copy is done
//! ```
//!
//! What is behind the bezels between monitors is drawn and not shown, so lines go on behind them. Native fences alone keep
//! the order: the copies wait for the drawing, the next drawing for the copies, the flips for their copies.

use super::chain::Chain;
use super::painter::{Renderer, queue};
use super::surface_report::{Part, SurfaceReport};
use super::tunnel::{COMMANDS, FORMAT, PIXEL, Tunnel};
use super::{PATIENCE, progress};
use crate::canvas::Canvas;
use crate::pictures::{rgb, write_png};
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::display::{
    Display, Path, PresentMode, Surface, SwapChain, TargetMode, Topology,
};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{CommandBuffer, Error, Fence, GpuMapping, PlacementPolicy, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;
use std::io::Write;
use std::sync::Arc;

/// Images of each monitor that take turns.
const IMAGES: usize = 2;
/// What bezels look like in a picture: X8R8G8B8.
const BEZEL: u32 = 0x0018_1818;
/// The widest surface: its lines on an image are no more than 256 KiB apart.
const MOST_WIDTH: u32 = 16_384;

/// A wall of monitors, the first one's left, each with the one before it behind a bezel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wall {
    /// Width and height of each.
    pub monitors: Vec<[u32; 2]>,
    /// Pixels between the last column of a monitor and the first of the next.
    pub bezel: u32,
}

impl Wall {
    /// Width and height of the surface.
    #[must_use]
    pub fn size(&self) -> [u32; 2] {
        let width = self.monitors.iter().map(|[width, _]| width).sum::<u32>();
        let bezels = self.bezel * (self.monitors.len() as u32).saturating_sub(1);
        let height = self.monitors.iter().map(|[_, height]| *height).max();
        [width + bezels, height.unwrap_or(0)]
    }

    /// The first column of a monitor's part.
    #[must_use]
    pub fn left(&self, monitor: usize) -> u32 {
        let before = self.monitors.iter().take(monitor);
        before.map(|[width, _]| width + self.bezel).sum()
    }

    /// Puts together what monitors show, X8R8G8B8, with bezels between them.
    #[must_use]
    pub fn assembled(&self, parts: &[Vec<u32>]) -> Vec<u32> {
        let [width, height] = self.size().map(|side| side as usize);
        let mut wall = vec![BEZEL; width * height];
        for (monitor, (part, [columns, _])) in parts.iter().zip(&self.monitors).enumerate() {
            let (left, columns) = (self.left(monitor) as usize, *columns as usize);
            for (line, pixels) in part.chunks_exact(columns).enumerate() {
                let start = line * width + left;
                wall[start..start + columns].copy_from_slice(pixels);
            }
        }
        wall
    }

    /// Writes it as PNG.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_png(&self, parts: &[Vec<u32>], to: impl Write) -> anyhow::Result<()> {
        write_png(to, self.size(), &rgb(self.assembled(parts))).context("cannot write the picture")
    }

    /// How many pixels of a monitor's part differ from what it is expected to show.
    #[must_use]
    pub fn wrong(&self, monitor: usize, part: &[u32], surface: &[u32]) -> u64 {
        let [width, _] = self.size().map(|side| side as usize);
        let (left, columns) = (self.left(monitor) as usize, self.monitors[monitor][0] as usize);
        let expected = surface.chunks_exact(width).map(|line| &line[left..left + columns]);
        let lines = part.chunks_exact(columns).zip(expected);
        let wrong = |(one, other): (&[u32], &[u32])| {
            // The highest byte of a pixel is none of its colours.
            one.iter()
                .zip(other)
                .filter(|(one, other)| (**one ^ **other) & 0x00FF_FFFF != 0)
                .count()
        };
        lines.map(wrong).sum::<usize>() as u64
    }

    fn tunnel(&self, frames: u32) -> Tunnel {
        let [width, height] = self.size();
        Tunnel { width, height, frames }
    }

    /// The surface at the last frame of a flight, as the processor computes it.
    #[must_use]
    pub fn last_frame(&self, frames: u32) -> Vec<u32> {
        self.tunnel(frames).render_one(frames - 1).pixels
    }
}

/// A large surface to show.
#[derive(Debug, Clone, Copy)]
pub struct LargeSurface {
    /// Pixels behind the bezels between two monitors.
    pub bezel: u32,
    /// Frames to show.
    pub frames: u32,
}

/// The monitor of a GPU, and what brings its part there.
struct Monitor {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: Vec<CommandBuffer>,
    chain: SwapChain,
    /// Where the processor finds what the monitor shows.
    shot: GpuMapping,
    surface: Surface,
    /// How many frames were copied from the surface.
    copied: Fence,
    /// The image that was presented last.
    last: usize,
}

/// Shows a surface on the monitors of all GPUs. `shown` is called when its last frame is on all of them, while it stays.
///
/// # Errors
/// If the adapter is no chain, a GPU has no monitor, or the surface is too large.
pub fn span(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    job: &LargeSurface,
    shown: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<(SurfaceReport, Vec<Vec<u32>>)> {
    let chain = Chain::open(transport, placement)?;
    let display = chain.adapter.display()?;
    let modes = (0..chain.gpus).map(|gpu| mode_of(&display, gpu)).collect::<Result<Vec<_>, _>>()?;
    let sizes = modes.iter().map(|(_, mode)| [mode.width, mode.height]).collect();
    let wall = Wall { monitors: sizes, bezel: job.bezel };
    let [width, height] = wall.size();
    ensure!(
        width <= MOST_WIDTH && 2 * width * PIXEL <= bellhop_protocol::packet::surface::MAX_PITCH,
        "a surface of {width} x {height} pixels is too wide: take smaller modes"
    );
    let tunnel = wall.tunnel(job.frames);
    let textures = chain.textures()?;
    let mut renderer = Renderer::new(&chain, 0, tunnel)?;
    let image = renderer.surface(tunnel);
    let mut drawing = CommandBuffer::many(&chain.device, COMMANDS, IMAGES)?;
    let drawn = chain.device.create_fence(0)?;
    commit(&display, &modes)?;
    let monitor = |(gpu, (child, mode)): (usize, &(u32, TargetMode))| {
        Monitor::new(&chain, &display, gpu as u8, *child, mode)
    };
    let mut monitors = modes.iter().enumerate().map(monitor).collect::<Result<Vec<_>, _>>()?;
    let progress = progress(job.frames.into());
    progress.set_message("shown");
    for frame in 0..job.frames {
        let number = u64::from(frame);
        let turn = frame as usize % IMAGES;
        let commands = &mut drawing[turn];
        if let Some(before) = number.checked_sub(IMAGES as u64) {
            renderer.queue.progress_fence().wait(before + 1, PATIENCE)?;
        }
        commands.reset();
        for monitor in &monitors {
            commands.wait_fence(&monitor.copied, number)?;
        }
        tunnel.draw(commands, frame, textures.gpu_va(), image.0)?;
        commands.signal_fence(&drawn, number + 1)?;
        renderer.queue.submit(commands)?;
        for (index, monitor) in monitors.iter_mut().enumerate() {
            let from = image.0 + u64::from(wall.left(index) * PIXEL);
            monitor.present(number, (from, image.1), &drawn)?;
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    let mut parts = Vec::new();
    for monitor in &mut monitors {
        monitor.chain.finish(PATIENCE)?;
        parts.push(monitor.read()?);
    }
    shown()?;
    let expected = wall.last_frame(job.frames);
    let mut report = SurfaceReport::new(&wall, job.frames);
    for (gpu, ((part, monitor), (child, _))) in
        parts.iter().zip(&mut monitors).zip(&modes).enumerate()
    {
        let statistics = monitor.chain.statistics()?;
        report.parts.push(Part {
            gpu: gpu as u8,
            connector: *child,
            left: wall.left(gpu),
            width: wall.monitors[gpu][0],
            height: wall.monitors[gpu][1],
            shown: statistics.shown,
            lost: statistics.lost,
            wrong_pixels: wall.wrong(gpu, part, &expected),
            captured_wrong_pixels: None,
        });
    }
    Ok((report, parts))
}

/// The first connector of a GPU with a monitor, and the mode that this prefers.
fn mode_of(display: &Display, gpu: u8) -> anyhow::Result<(u32, TargetMode)> {
    let of_gpu = (0..).zip(display.children()).filter(|(_, child)| child.gpu() == gpu);
    for (child, _) in of_gpu {
        if let Some(mode) = display.monitor_modes(child)?.first() {
            return Ok((child, *mode));
        }
    }
    anyhow::bail!(
        "GPU {gpu} has no monitor: give it one by [[adapter.displays]] or [[adapters.NAME.displays]] in bellhopd's \
         configuration"
    )
}

/// Shows a source of each GPU on its monitor, in its mode.
fn commit(display: &Display, modes: &[(u32, TargetMode)]) -> anyhow::Result<()> {
    let path = |topology: Topology, (child, mode): &(u32, TargetMode)| {
        let path = Path::new(*child, *child).target_mode(*mode);
        topology.path(path.source_mode(mode.width, mode.height, FORMAT))
    };
    let topology = modes.iter().fold(Topology::new(), path);
    Ok(display.commit(&display.complete(&topology)?)?)
}

impl Monitor {
    fn new(
        chain: &Chain,
        display: &Display,
        gpu: u8,
        source: u32,
        mode: &TargetMode,
    ) -> anyhow::Result<Self> {
        let TargetMode { width, height, .. } = *mode;
        let surface = Surface { width, height, format: FORMAT };
        let primary = |_| chain.device.create_primary_on(surface, gpu);
        let primaries = (0..IMAGES).map(primary).collect::<Result<_, _>>()?;
        let size = u64::from(width) * u64::from(height) * u64::from(PIXEL);
        Ok(Self {
            queue: queue(chain, gpu, EngineType::COPY)?,
            commands: CommandBuffer::many(&chain.device, 512, IMAGES)?,
            chain: SwapChain::over(display, source, primaries)?,
            shot: chain.shared_memory(size)?,
            surface,
            copied: chain.device.create_fence(0)?,
            last: 0,
        })
    }

    /// Has the GPU's copy engine copy this monitor's part of a frame, and shows it.
    fn present(&mut self, frame: u64, from: (u64, u32), drawn: &Fence) -> anyhow::Result<()> {
        let image = self.chain.acquire(PATIENCE)?;
        let primary = self.chain.primary(&image);
        let row = self.surface.width * PIXEL;
        // The flip that followed the last submission of these commands has ended.
        self.last = image.index();
        let commands = &mut self.commands[self.last];
        commands.reset();
        commands.wait_fence(drawn, frame + 1)?;
        commands.copy_rect(from, (primary.gpu_va(), primary.pitch()?), row, self.surface.height)?;
        commands.signal_fence(&self.copied, frame + 1)?;
        let value = self.queue.submit(commands)?;
        let fences = [(self.queue.progress_fence(), value)];
        self.chain.present(image, PresentMode::Vsync, &fences)?;
        Ok(())
    }

    /// What the monitor shows: the GPU copies it to where the processor reads it.
    fn read(&mut self) -> anyhow::Result<Vec<u32>> {
        let primary = self.chain.primaries().nth(self.last).context("there are images")?;
        let row = self.surface.width * PIXEL;
        let commands = &mut self.commands[self.last];
        commands.reset();
        let from = (primary.gpu_va(), primary.pitch()?);
        let copied: Result<_, Error> =
            commands.copy_rect(from, (self.shot.gpu_va(), row), row, self.surface.height);
        copied?;
        let value = self.queue.submit(commands)?;
        self.queue.progress_fence().wait(value, PATIENCE)?;
        let mut bytes = vec![0; row as usize * self.surface.height as usize];
        self.shot.allocation().read(0, &mut bytes)?;
        Ok(Canvas::new(self.surface, &bytes)?.pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_beside_each_other_with_what_is_behind_the_bezels_between_them() {
        let wall = Wall { monitors: vec![[3, 2], [2, 1]], bezel: 4 };
        assert_eq!((wall.size(), wall.left(0), wall.left(1)), ([9, 2], 0, 7));
        let surface: Vec<u32> = (0..18).collect();
        let parts = [vec![0, 1, 2, 9, 10, 11], vec![7, 8]];
        assert_eq!(
            [wall.wrong(0, &parts[0], &surface), wall.wrong(1, &parts[1], &surface)],
            [0, 0]
        );
        assert_eq!(wall.wrong(1, &[7, 0xFF00_0000], &surface), 1);
        let assembled = wall.assembled(&parts);
        let b = BEZEL;
        assert_eq!(assembled, [0, 1, 2, b, b, b, b, 7, 8, 9, 10, 11, b, b, b, b, b, b]);
    }
}
