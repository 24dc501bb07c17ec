// SPDX-License-Identifier: MIT OR Apache-2.0

//! An animation on the guest's display, and what became of its frames.

mod consent;
mod drawing;
mod report;

pub use report::Report;

use anyhow::{Context as _, bail};
use bellhop_guest_umd::agent::PresenceChange;
use bellhop_guest_umd::display::{
    Display, Path, PixelFormat, PresentMode, Surface, SwapChain, TargetMode, Topology,
};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Adapter, PlacementPolicy};
use drawing::Drawing;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The longest that a frame may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Frames between two looks at what became of those before.
const LOOK: u64 = 256;

/// A mode as people write it: `1920x1080@60`, or without a rate `1920x1080`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WantedMode {
    width: u32,
    height: u32,
    rate: Option<f64>,
}

impl FromStr for WantedMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let advice = || format!("{text:?} is no mode: write one as 1920x1080@60 or 1920x1080");
        let (size, rate) = match text.split_once('@') {
            Some((size, rate)) => (size, Some(rate.parse().map_err(|_| advice())?)),
            None => (text, None),
        };
        let (width, height) = size.split_once('x').ok_or_else(advice)?;
        let number = |text: &str| text.parse().map_err(|_| advice());
        Ok(Self { width: number(width)?, height: number(height)?, rate })
    }
}

impl fmt::Display for WantedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, rate } = self;
        write!(f, "{width}x{height}")?;
        rate.map_or(Ok(()), |rate| write!(f, "@{rate}"))
    }
}

fn rate(mode: &TargetMode) -> f64 {
    f64::from(mode.refresh_numerator) / f64::from(mode.refresh_denominator.max(1))
}

impl WantedMode {
    /// The monitor's mode that this means: of this size, with the nearest rate within half a Hz, or the first.
    fn find(self, modes: &[TargetMode]) -> Option<TargetMode> {
        let mut sized =
            modes.iter().filter(|it| (it.width, it.height) == (self.width, self.height));
        let Some(wanted) = self.rate else { return sized.next().copied() };
        let distance = |mode: &TargetMode| (rate(mode) - wanted).abs();
        let nearest = sized.min_by(|one, other| distance(one).total_cmp(&distance(other)))?;
        (distance(nearest) <= 0.5).then_some(*nearest)
    }
}

/// An animation to show.
#[derive(Debug, Clone)]
pub struct Animation {
    /// The connector.
    pub connector: u32,
    /// The mode; by default the one that the monitor prefers.
    pub mode: Option<WantedMode>,
    /// Frames to present.
    pub frames: u64,
    /// When frames are shown.
    pub sync: PresentMode,
    /// Images of the swap chain.
    pub images: usize,
}

/// Shows an animation, and reports what became of its frames.
///
/// # Errors
/// When the guest has no display, or the monitor no such mode.
pub fn show(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    animation: &Animation,
) -> anyhow::Result<Report> {
    let adapter = Adapter::open_with(transport, placement).context("cannot open the adapter")?;
    let display = adapter.display()?;
    let connector = animation.connector;
    let mode = mode(&display, animation)?;
    // The source of this number is on the connector's GPU.
    let path = Path::new(connector, connector).target_mode(mode).source_mode(
        mode.width,
        mode.height,
        PixelFormat::X8R8G8B8,
    );
    let mut topology = display.complete(&Topology::new().path(path))?;
    display.commit(&topology)?;
    let surface = Surface { width: mode.width, height: mode.height, format: PixelFormat::X8R8G8B8 };
    let device = adapter.create_device()?;
    let mut drawing = Drawing::new(&adapter, &device, surface, animation.images)?;
    let mut chain = SwapChain::new(&display, &device, connector, surface, animation.images)?;
    let clock = adapter.gpu_clock()?;
    let mut frames = Vec::new();
    for number in 0..animation.frames {
        if let Some(asked) = display.next_topology_wanted(Duration::ZERO)? {
            consent::answer(&display, &mut topology, asked)?;
        }
        if let Some(PresenceChange::Stops { .. }) = adapter.next_presence(Duration::ZERO)? {
            // What was presented is reported.
            break;
        }
        let image = chain.acquire(TIMEOUT)?;
        let value = drawing.draw(image.index(), chain.primary(&image), number as u32)?;
        chain.present(image, animation.sync, &[(drawing.queue.progress_fence(), value)])?;
        if number % LOOK == 0 {
            frames.extend(chain.take_frames()?);
        }
    }
    chain.finish(TIMEOUT)?;
    frames.extend(chain.take_frames()?);
    let totals = chain.statistics()?;
    let report = Report {
        width: mode.width,
        height: mode.height,
        refresh_hz: rate(&mode),
        connector,
        sync: name_of(animation.sync),
        drawn_by: drawing.by.clone(),
        presented: 0,
        shown: 0,
        dropped: 0,
        lost: 0,
        missed_vsyncs: 0,
        submit_to_scan_out_ns: report::latency(&frames, &clock)?,
        clock_uncertainty_ns: clock.uncertainty().as_nanos() as u64,
    };
    Ok(report.count(&totals))
}

/// The mode to show.
fn mode(display: &Display, animation: &Animation) -> anyhow::Result<TargetMode> {
    let modes = display.monitor_modes(animation.connector)?;
    let Some(wanted) = animation.mode else {
        return modes.first().copied().context("the monitor has no mode");
    };
    let Some(mode) = wanted.find(&modes) else {
        let all = modes.iter().map(|it| format!("{}x{}@{:.2}", it.width, it.height, rate(it)));
        let all: Vec<_> = all.collect();
        bail!("the monitor has no mode {wanted}; it has {}", all.join(", "));
    };
    Ok(mode)
}

/// The name of a way to show frames, as on the command line.
#[must_use]
pub fn name_of(sync: PresentMode) -> &'static str {
    match sync {
        PresentMode::Vsync => "vsync",
        PresentMode::Immediate => "immediate",
        PresentMode::Mailbox => "mailbox",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn modes_are_written_as_people_write_them() {
        for text in ["1920x1080@59.94", "640x480", "3840x2160@120"] {
            assert_eq!(text.parse::<WantedMode>().unwrap().to_string(), text);
        }
        for text in ["1920", "1920x", "axb", "1x1@", "1x1@q", "-1x1"] {
            assert!(text.parse::<WantedMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mode_is_found_by_its_size_and_the_nearest_rate() {
        let mode = |width, refresh_numerator, refresh_denominator| TargetMode {
            width,
            height: 480,
            refresh_numerator,
            refresh_denominator,
            ..TargetMode::new_zeroed()
        };
        let modes = [mode(640, 75, 1), mode(640, 60_000, 1001), mode(640, 60, 1), mode(800, 60, 1)];
        let find = |text: &str| text.parse::<WantedMode>().unwrap().find(&modes);
        assert_eq!(find("640x480"), Some(modes[0]));
        assert_eq!(find("640x480@59.94"), Some(modes[1]));
        assert_eq!(find("640x480@60"), Some(modes[2]));
        assert_eq!(find("640x480@72"), None);
        assert_eq!(find("1024x480"), None);
    }
}
