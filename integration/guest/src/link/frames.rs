// SPDX-License-Identifier: MIT OR Apache-2.0

//! Alternate-frame rendering: the GPUs of a chain draw frames in turns, by their ordinals.
//!
//! ```text
//! GPU 0   draw 0 ─────► show 0    draw 2 ─────► show 2   ...
//! GPU 1   draw 1 ─────────► show 1    draw 3 ───────► show 3
//!                      │        ▲
//!                      └ fence ─┘  "shown" has the number of frames that were shown
//! ```
//!
//! Each GPU draws on an image in its own local memory. To show a frame, it waits for the frame before with a native fence,
//! copies its image to where the processor finds it, and signals the fence. The program rings doorbells and then sleeps
//! until the last frame is shown: nothing else keeps the order.

use super::chain::Chain;
use super::frames_report::{FramesReport, Run};
use super::painter::Renderer;
use super::tunnel::{COMMANDS, PIXEL, Tunnel};
use super::{PATIENCE, progress};
use crate::canvas::Canvas;
use crate::pictures::{rgb, write_loop, write_png};
use crate::units;
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::display::GpuClock;
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{CommandBuffer, Error, Fence, GpuMapping, PlacementPolicy};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A GPU's mark on the frames that it drew, in red, green and blue: X8R8G8B8.
const MARKS: [u32; 4] = [0x00E0_4A2E, 0x002E_8CE0, 0x003C_B043, 0x00E8_C52A];
/// Where the log has the number of the frame that is shown, one after another.
const SHOWN: u64 = 0;
/// Where it has, for each frame, the number of the frame that was shown before it.
const FOUND: u64 = 64;
/// Most bytes of all frames.
const MOST_BYTES: u64 = 96 << 20;

/// Frames to draw.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Frames.
    pub frames: u32,
    /// How often they are drawn by one GPU, and by all.
    pub repetitions: u32,
}

/// Frames as the GPUs drew them.
#[derive(Debug)]
pub struct Film {
    size: [u32; 2],
    frames: Vec<Vec<u32>>,
}

/// All that is needed to draw the frames.
struct Studio {
    // Dropped in this order.
    renderers: Vec<Renderer>,
    commands: Vec<CommandBuffer>,
    textures: GpuMapping,
    /// The frames that were shown, one behind the other.
    film: GpuMapping,
    log: GpuMapping,
    tunnel: Tunnel,
    clock: GpuClock,
    chain: Chain,
}

/// Draws frames by one GPU and by all of a chain in turns, and compares both with the processor's.
///
/// # Errors
/// If the adapter is no chain, or there is too little memory.
pub fn render(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    job: &Frames,
) -> anyhow::Result<(FramesReport, Film)> {
    let tunnel = Tunnel { width: job.width, height: job.height, frames: job.frames };
    let bytes = u64::from(job.frames) * tunnel.frame_size();
    ensure!(
        bytes <= MOST_BYTES,
        "{} frames of {} x {} pixels take {}; a guest keeps {} of them at most: ask for fewer or smaller ones",
        job.frames,
        job.width,
        job.height,
        units::bytes(bytes),
        units::bytes(MOST_BYTES)
    );
    let mut studio = Studio::new(Chain::open(transport, placement)?, tunnel)?;
    let gpus = studio.renderers.len();
    let progress = progress(u64::from(job.frames + 2 * job.repetitions));
    progress.set_message("the processor draws");
    let expected = tunnel.render(|| progress.inc(1));
    let (mut alone, mut in_turns) = (Vec::new(), Vec::new());
    let mut film = Vec::new();
    for _ in 0..job.repetitions {
        for (runs, count) in [(&mut alone, 1), (&mut in_turns, gpus)] {
            progress.set_message(if count == 1 { "one GPU draws" } else { "all GPUs draw" });
            let run = studio.run(count)?;
            film = studio.film()?;
            runs.push(run.checked(&film, |frame| marked(&expected[frame], frame % count)));
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let report = FramesReport::new(job, gpus, alone, in_turns);
    let film = Film { size: [job.width, job.height], frames: film };
    Ok((report, film))
}

/// A frame with the mark of the GPU that drew it.
fn marked(frame: &Canvas, gpu: usize) -> Canvas {
    let mut frame = frame.clone();
    let side = mark(frame.surface.width, frame.surface.height);
    for y in 0..side {
        for x in 0..side {
            frame.set(x, y, MARKS[gpu % MARKS.len()]);
        }
    }
    frame
}

/// Pixels of a mark's sides.
fn mark(width: u32, height: u32) -> u32 {
    height.min(width).div_ceil(12)
}

impl Studio {
    fn new(chain: Chain, tunnel: Tunnel) -> anyhow::Result<Self> {
        let frames = u64::from(tunnel.frames);
        let renderer = |gpu| Renderer::new(&chain, gpu, tunnel);
        let renderers = (0..chain.gpus).map(renderer).collect::<Result<_, _>>()?;
        let commands = CommandBuffer::many(&chain.device, COMMANDS, tunnel.frames as usize)
            .context("there is no memory for the commands of so many frames")?;
        let textures = chain.textures()?;
        let film = chain.shared_memory(frames * tunnel.frame_size())?;
        let log = chain.shared_memory(FOUND + frames * (8 + 16))?;
        let clock = chain.adapter.gpu_clock()?;
        Ok(Self { renderers, commands, textures, film, log, tunnel, clock, chain })
    }

    /// Where the log has the times of a frame: when its drawing began, and when it ended.
    fn times(&self, frame: u32) -> u64 {
        FOUND + u64::from(self.tunnel.frames) * 8 + u64::from(frame) * 16
    }

    /// Has the first GPUs draw all frames in turns.
    fn run(&mut self, gpus: usize) -> anyhow::Result<Run> {
        let shown = self.chain.device.create_fence(0)?;
        let nothing = vec![0; 1 << 16];
        for memory in [&self.log, &self.film] {
            let size = memory.size() as usize;
            for offset in (0..size).step_by(nothing.len()) {
                let length = nothing.len().min(size - offset);
                memory.allocation().write(offset, &nothing[..length])?;
            }
        }
        for frame in 0..self.tunnel.frames {
            self.record(frame, frame as usize % gpus, &shown)?;
        }
        let start = Instant::now();
        let mut last = vec![0; gpus];
        for (frame, commands) in self.commands.iter_mut().enumerate() {
            last[frame % gpus] = self.renderers[frame % gpus].queue.submit(commands)?;
        }
        for (renderer, value) in self.renderers.iter().zip(&last) {
            renderer.queue.progress_fence().wait(*value, PATIENCE)?;
        }
        let elapsed = start.elapsed();
        let mut busy = vec![Duration::ZERO; gpus];
        let mut in_order = 0;
        for frame in 0..self.tunnel.frames {
            let times = self.times(frame);
            busy[frame as usize % gpus] +=
                self.clock.between(self.word(times)?, self.word(times + 8)?);
            let found = self.word(FOUND + u64::from(frame) * 8)?;
            in_order += u32::from(found == u64::from(frame));
        }
        Ok(Run { elapsed, busy, in_order, right: 0 })
    }

    /// Records the commands that draw a frame on a GPU and show it.
    fn record(&mut self, frame: u32, gpu: usize, shown: &Fence) -> Result<(), Error> {
        let (tunnel, number) = (self.tunnel, u64::from(frame));
        let (log, times) = (self.log.gpu_va(), self.log.gpu_va() + self.times(frame));
        let image = self.renderers[gpu].surface(tunnel);
        let film = self.film.gpu_va() + number * tunnel.frame_size();
        let (row, side) = (tunnel.width * PIXEL, mark(tunnel.width, tunnel.height));
        let commands = &mut self.commands[frame as usize];
        commands.reset();
        commands.timestamp(times)?;
        tunnel.draw(commands, frame, self.textures.gpu_va(), image.0)?;
        commands.fill_rect(image, side * PIXEL, side, MARKS[gpu % MARKS.len()])?;
        commands.timestamp(times + 8)?;
        commands.wait_fence(shown, number)?;
        commands.copy(log + SHOWN, log + FOUND + number * 8, 8)?;
        commands.copy_rect(image, (film, row), row, tunnel.height)?;
        commands.write_data(log + SHOWN, &(number + 1).to_le_bytes())?;
        commands.signal_fence(shown, number + 1)?;
        Ok(())
    }

    fn word(&self, offset: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.log.allocation().read(offset as usize, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The frames that were shown.
    fn film(&self) -> anyhow::Result<Vec<Vec<u32>>> {
        let size = self.tunnel.frame_size() as usize;
        let frame = |frame| -> anyhow::Result<Vec<u32>> {
            let mut bytes = vec![0; size];
            self.film.allocation().read(frame as usize * size, &mut bytes)?;
            Ok(Canvas::new(self.tunnel.surface(), &bytes)?.pixels)
        };
        (0..self.tunnel.frames).map(frame).collect()
    }
}

impl Run {
    /// Counts the frames that are what they are expected to be.
    fn checked(mut self, film: &[Vec<u32>], expected: impl Fn(usize) -> Canvas) -> Self {
        let is_right = |(number, frame): &(usize, &Vec<u32>)| expected(*number).pixels == **frame;
        self.right = film.iter().enumerate().filter(is_right).count() as u32;
        self
    }
}

/// Frames of a contact sheet: so many beside each other, and at most so many lines of them.
const SHEET: [usize; 2] = [4, 3];
/// Pixels between them.
const GAP: usize = 4;

impl Film {
    /// Writes it as an animated PNG, 30 frames a second.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_apng(&self, to: impl Write) -> anyhow::Result<()> {
        let frames = self.frames.iter().map(Vec::as_slice);
        write_loop(to, self.size, (1, 30), frames).context("cannot write the animation")
    }

    /// Writes some of its frames beside each other as PNG, in their order, evenly spaced.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_sheet(&self, to: impl Write) -> anyhow::Result<()> {
        let [width, height] = self.size.map(|side| side as usize);
        let [columns, lines] = SHEET;
        let count = self.frames.len().min(columns * lines);
        let columns = columns.min(count);
        let lines = count.div_ceil(columns.max(1));
        let [wide, high] =
            [columns * (width + GAP) + GAP, lines * (height + GAP) + GAP].map(|side| side.max(1));
        let mut sheet = vec![0x00FF_FFFF; wide * high];
        for place in 0..count {
            let frame = &self.frames[place * self.frames.len() / count];
            let left = place % columns * (width + GAP) + GAP;
            let top = place / columns * (height + GAP) + GAP;
            for (line, pixels) in frame.chunks_exact(width).enumerate() {
                let start = (top + line) * wide + left;
                sheet[start..start + width].copy_from_slice(pixels);
            }
        }
        ensure!(!self.frames.is_empty(), "there is no frame");
        write_png(to, [wide, high].map(|side| side as u32), &rgb(sheet))
            .context("cannot write the picture")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn a_contact_sheet_has_frames_from_the_whole_film_in_their_order() {
        let frames = (0..24u32).map(|number| vec![number; 6]).collect();
        let film = Film { size: [3, 2], frames };
        let mut file = Vec::new();
        film.write_sheet(&mut file).unwrap();
        let mut reader = png::Decoder::new(Cursor::new(&file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width, info.height), (4 * 7 + 4, 3 * 6 + 4));
        let blue = |x: usize, y: usize| bytes[(y * 32 + x) * 3 + 2];
        // The first, the second, the fifth and the last of twelve.
        let seen = [blue(4, 4), blue(11, 4), blue(4, 10), blue(27, 17), blue(0, 0)];
        assert_eq!(seen, [0, 2, 8, 22, 255]);
    }
}
