// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flips and VSYNCs, beside a timer of the machine's own.

mod jitter;
mod large;

use super::report::Measured;
use super::set_up::{COMMANDS, TIMEOUT};
use super::usage::Usage;
use crate::timing::{Latency, times};
use anyhow::Context as _;
use bellhop_guest_umd::display::{
    Display, DisplayError, Flip, FlipOutcome, Path, PresentMode, Primary, Surface, SwapChain,
    TargetMode, Topology,
};
use bellhop_guest_umd::{Adapter, CommandBuffer, Device, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;
pub use large::LargeScreen;
use std::thread;
use std::time::{Duration, Instant};

/// Flips at each rate, in all repetitions together.
const FLIPS: u64 = 1000;
/// Frames a second.
const RATES: [u64; 2] = [60, 240];
/// Lines that a frame draws.
const BAR: u32 = 16;
/// Its multiples are spread evenly over whole numbers' intervals, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_894_8;
/// Time for the engines to go to sleep, and how long a screen on which nothing happens is looked at.
const SETTLE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_secs(3);

pub(super) fn run(
    adapter: &Adapter,
    repetitions: u64,
    daemon: Option<u32>,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let display = match adapter.open_process()?.display() {
        Err(DisplayError::NoDisplay) => anyhow::bail!("{}", DisplayError::NoDisplay),
        opened => opened?,
    };
    for rate in RATES {
        let Some(mode) = mode(&display, 0, rate)? else {
            let why = format!("the first monitor has no mode of {rate} Hz");
            measured.absent(format!("display_flips_missed_{rate}_hz"), why);
            continue;
        };
        flips(adapter, mode, rate, FLIPS.div_ceil(repetitions), measured)?;
        if rate == jitter::RATE {
            jitter::run(adapter, mode, measured)?;
        }
    }
    match daemon {
        Some(daemon) => still(adapter, daemon, measured)?,
        None => {
            let why = "a guest cannot see its daemon; run this on the host";
            measured.absent("display_still_wakeups_per_second", why);
        }
    }
    Ok(())
}

/// The smallest mode of a monitor with this rate.
fn mode(display: &Display, target: u32, rate: u64) -> anyhow::Result<Option<TargetMode>> {
    let modes = display.monitor_modes(target)?;
    let has_rate = |mode: &&TargetMode| {
        let (frames, seconds) = (mode.refresh_numerator, mode.refresh_denominator);
        u64::from(frames) == rate * u64::from(seconds)
    };
    let area = |mode: &&TargetMode| u64::from(mode.width) * u64::from(mode.height);
    Ok(modes.iter().filter(has_rate).min_by_key(area).copied())
}

/// A process that shows source 0 on a monitor in a mode.
fn show(
    adapter: &Adapter,
    target: u32,
    mode: TargetMode,
) -> anyhow::Result<(Adapter, Display, Surface)> {
    let process = adapter.open_process()?;
    let display = process.display()?;
    let path = Path::new(0, target).target_mode(mode);
    let topology = display.complete(&Topology::new().path(path))?;
    display.commit(&topology)?;
    let path = topology.paths().first().context("a topology lost its path")?;
    let surface = Surface::from(path.get().source_mode);
    Ok((process, display, surface))
}

fn flips(
    adapter: &Adapter,
    mode: TargetMode,
    rate: u64,
    flips: u64,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let (process, display, surface) = show(adapter, 0, mode)?;
    let device = process.create_device()?;
    let missed = missed(&display, &device, surface, flips)?;
    measured.figure(format!("display_flips_missed_{rate}_hz"), missed as f64);
    let latency = latency(&process, &display, &device, surface, (flips, rate))?;
    let name = format!("display_submit_to_scan_out_{rate}_hz");
    measured.figure(format!("{name}_ns_p50"), latency.p50 as f64);
    measured.figure(format!("{name}_ns_p99"), latency.p99 as f64);
    let most = 1e9 / rate as f64 + 1e6;
    measured.ratio(format!("{name}_over_frame_and_1_ms"), latency.p99 as f64, most);
    measured.distribution(&name, &latency);
    Ok(())
}

/// Flips as fast as the monitor takes them. Returns how many VSYNCs were missed.
fn missed(display: &Display, device: &Device, surface: Surface, flips: u64) -> anyhow::Result<u64> {
    let mut chain = SwapChain::new(display, device, 0, surface, 3)?;
    for _ in 0..flips {
        let image = chain.acquire(TIMEOUT)?;
        chain.present(image, PresentMode::Vsync, &[])?;
    }
    chain.finish(TIMEOUT)?;
    let totals = chain.statistics()?;
    anyhow::ensure!(totals.shown == flips, "of {flips} flips: {totals:?}");
    Ok(totals.missed)
}

/// From the submission of a drawing to its scan-out, for flips at a rate.
fn latency(
    process: &Adapter,
    display: &Display,
    device: &Device,
    surface: Surface,
    (flips, rate): (u64, u64),
) -> anyhow::Result<Latency> {
    let clock = process.gpu_clock()?;
    let mut frames = Frames::new(process, display, device, surface)?;
    let mut taken = times()?;
    for number in 0..flips {
        let submitted = frames.show(number, rate)?;
        for frame in frames.chain.take_frames()? {
            let time = clock.between(clock.ticks(submitted), frame.time);
            taken.record((time.as_nanos() as u64).max(1))?;
        }
    }
    Ok(Latency::of(&taken))
}

/// Frames one after another, so that none waits for one before it.
struct Frames {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: CommandBuffer,
    chain: SwapChain,
    surface: Surface,
}

impl Frames {
    fn new(
        process: &Adapter,
        display: &Display,
        device: &Device,
        surface: Surface,
    ) -> anyhow::Result<Self> {
        let node = process.least_used_node(EngineType::THREE_D)?;
        let queue = device.create_context(node)?.create_user_mode_queue(4096)?;
        let commands = CommandBuffer::new(device, COMMANDS)?;
        let chain = SwapChain::new(display, device, 0, surface, 2)?;
        Ok(Self { queue, commands, chain, surface })
    }

    /// Asks for a flip, draws a bar on its picture, and waits until it is shown. Returns when the drawing was submitted:
    /// each frame at another time of the monitor's interval.
    fn show(&mut self, number: u64, rate: u64) -> anyhow::Result<Instant> {
        let image = self.chain.acquire(TIMEOUT)?;
        let pitch = u64::from(self.surface.pitch()?);
        let bar = number % u64::from(self.surface.height - BAR) * pitch;
        let place = self.chain.primary(&image).gpu_va() + bar;
        self.commands.reset();
        self.commands.fill(place, u64::from(BAR) * pitch, number as u32)?;
        let drawn = self.queue.last_value() + 1;
        let fences = [(self.queue.progress_fence(), drawn)];
        self.chain.present(image, PresentMode::Vsync, &fences)?;
        let share = number as f64 * GOLDEN % 1.0;
        thread::sleep(Duration::from_secs_f64(share / rate as f64));
        let submitted = Instant::now();
        self.queue.submit(&mut self.commands)?;
        self.chain.finish(TIMEOUT)?;
        Ok(submitted)
    }
}

/// A screen on which nothing happens, in the monitor's preferred mode.
pub struct StillScreen {
    // Dropped in this order.
    _picture: Primary,
    _display: Display,
    _process: Adapter,
    surface: Surface,
}

impl StillScreen {
    /// Shows it, until it is dropped.
    ///
    /// # Errors
    /// When the guest has no display, or the device refuses.
    pub fn show(adapter: &Adapter) -> anyhow::Result<Self> {
        let process = adapter.open_process()?;
        let modes = process.display()?.monitor_modes(0)?;
        let mode = modes.first().copied().context("the monitor has no mode")?;
        drop(process);
        let (process, display, surface) = show(adapter, 0, mode)?;
        let picture = process.create_device()?.create_primary(surface)?;
        let flip = display.flip(0, Flip::to(&picture))?;
        let ended = display.wait_for_flip(0, flip, TIMEOUT)?;
        anyhow::ensure!(ended.outcome == FlipOutcome::SHOWN, "the flip ended {}", ended.outcome);
        Ok(Self { _picture: picture, _display: display, _process: process, surface })
    }

    /// Its width and height in pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (self.surface.width, self.surface.height)
    }
}

/// What a screen costs on which nothing happens.
fn still(adapter: &Adapter, daemon: u32, measured: &mut Measured) -> anyhow::Result<()> {
    let _screen = StillScreen::show(adapter)?;
    thread::sleep(SETTLE);
    let (before, start) = (Usage::of(daemon)?, Instant::now());
    thread::sleep(LOOK);
    let used = Usage::of(daemon)?.since(before);
    let time = start.elapsed();
    let share = used.cpu_ns as f64 / time.as_nanos() as f64;
    measured.figure("display_still_daemon_cpu_fraction", share);
    let wakeups = used.wakeups as f64 / time.as_secs_f64();
    measured.figure("display_still_wakeups_per_second", wakeups);
    Ok(())
}
