// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process with a display to try behaviours with, and where there is none, why.

use super::picture;
use crate::canvas::Canvas;
use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Scene, TIMEOUT};
use crate::onlooker::{Onlooker, Seen};
use bellhop_guest_umd::display::{
    Display, DisplayError, Flip, FlipOutcome, Flipped, Path, PixelFormat, Primary, Refusal,
    Surface, TargetMode, Topology,
};
use bellhop_guest_umd::{Adapter, Device};
use bellhop_protocol::packet::dispatch::xor_stream;
use std::sync::Arc;

impl From<DisplayError> for Mismatch {
    fn from(error: DisplayError) -> Self {
        match error {
            DisplayError::NoDisplay => Self::NotOffered("this guest has no display".into()),
            DisplayError::Device(error) => error.into(),
            error => Self::Seen(error.to_string()),
        }
    }
}

/// A process with the display and a device. Its end takes its sources away.
pub(in crate::conformance) struct Lab {
    // Dropped in this order.
    pub(in crate::conformance) device: Device,
    pub(in crate::conformance) display: Display,
    pub(in crate::conformance) process: Adapter,
    /// Who looks at the monitors, if somebody does.
    onlooker: Option<Arc<dyn Onlooker>>,
}

impl Lab {
    pub(in crate::conformance) fn new(scene: &Scene) -> Result<Self, Mismatch> {
        let process = scene.adapter().open_process()?;
        let display = process.display()?;
        let device = process.create_device()?;
        Ok(Self { device, display, process, onlooker: scene.onlooker().cloned() })
    }

    /// The same, for behaviours of which nothing can be said unless somebody looks at the monitors.
    pub(in crate::conformance) fn looked_at(scene: &Scene) -> Result<Self, Mismatch> {
        let lab = Self::new(scene)?;
        if lab.onlooker.is_none() {
            return Err(Mismatch::NotOffered("nobody looks at this guest's monitors".into()));
        }
        Ok(lab)
    }

    /// The connectors with a monitor: as many as a behaviour needs.
    pub(in crate::conformance) fn monitors(&self, needed: usize) -> Result<Vec<u32>, Mismatch> {
        let mut connected = Vec::new();
        for child in 0..self.display.children().len() as u32 {
            if self.display.child_status(child)?.connected == 1 {
                connected.push(child);
            }
        }
        if connected.len() < needed {
            let few = format!("{} monitors are plugged in, {needed} needed", connected.len());
            return Err(Mismatch::NotOffered(few));
        }
        Ok(connected)
    }

    /// A path from a source to a monitor in its smallest mode, and of these the fastest: behaviours are about flips, not
    /// about pixels.
    pub(in crate::conformance) fn small_path(
        &self,
        source: u32,
        child: u32,
    ) -> Result<Path, Mismatch> {
        let path = Path::new(source, child);
        let modes = self.display.target_modes(&Topology::new().path(path), 0)?;
        let order = |mode: &&TargetMode| {
            let area = u64::from(mode.width) * u64::from(mode.height);
            (area, u64::MAX - mode.pixel_rate())
        };
        let smallest = modes.iter().min_by_key(order);
        let smallest = smallest.ok_or(Mismatch::Seen("the monitor has no mode".into()))?;
        Ok(path.target_mode(*smallest))
    }

    /// Shows source 0 on the first monitor.
    pub(in crate::conformance) fn show(&self) -> Result<Surface, Mismatch> {
        let child = self.monitors(1)?;
        let path = self.small_path(0, child.first().copied().unwrap_or(0))?;
        Ok(self.commit(&Topology::new().path(path))?[0])
    }

    /// Completes a topology and commits it. Returns the surfaces of its paths.
    pub(in crate::conformance) fn commit(
        &self,
        topology: &Topology,
    ) -> Result<Vec<Surface>, Mismatch> {
        let complete = self.display.complete(topology)?;
        self.display.commit(&complete)?;
        Ok(complete.paths().iter().map(|path| path.get().source_mode.into()).collect())
    }

    /// A primary with a picture of its own for each number.
    pub(in crate::conformance) fn picture(
        &self,
        surface: Surface,
        number: u64,
    ) -> Result<Primary, Mismatch> {
        let primary = self.device.create_primary(surface)?;
        primary.set_pixels(&pixels(surface, number)?)?;
        Ok(primary)
    }

    /// Primaries with pictures.
    pub(in crate::conformance) fn pictures(
        &self,
        surface: Surface,
        count: u64,
    ) -> Result<Vec<Primary>, Mismatch> {
        (0..count).map(|number| self.picture(surface, number)).collect()
    }

    /// Waits until a flip of source 0 has ended like this.
    pub(in crate::conformance) fn expect(
        &self,
        flip: u64,
        outcome: FlipOutcome,
    ) -> Result<Flipped, Mismatch> {
        self.expect_on(0, flip, outcome)
    }

    /// Waits until a flip of a source has ended like this.
    pub(in crate::conformance) fn expect_on(
        &self,
        source: u32,
        flip: u64,
        outcome: FlipOutcome,
    ) -> Result<Flipped, Mismatch> {
        let ended = self.display.wait_for_flip(source, flip, TIMEOUT)?;
        require!(ended.outcome == outcome, "flip {flip} ended {}, not {outcome}", ended.outcome);
        Ok(ended)
    }

    /// Flips source 0 to a primary at a VSYNC, and waits until it is shown.
    pub(in crate::conformance) fn flip_to(&self, primary: &Primary) -> Result<Flipped, Mismatch> {
        self.flip_on(0, primary)
    }

    /// Flips a source to a primary at a VSYNC, and waits until it is shown.
    pub(in crate::conformance) fn flip_on(
        &self,
        source: u32,
        primary: &Primary,
    ) -> Result<Flipped, Mismatch> {
        let flip = self.display.flip(source, Flip::to(primary))?;
        self.expect_on(source, flip, FlipOutcome::SHOWN)
    }

    /// Asserts that a primary holds this picture; and that the first monitor, in whose size the picture is, shows it.
    pub(in crate::conformance) fn expect_picture(
        &self,
        primary: &Primary,
        number: u64,
    ) -> Result<(), Mismatch> {
        let child = self.monitors(1)?.first().copied().unwrap_or(0);
        self.expect_picture_on(child, primary, number)
    }

    /// The same of another monitor.
    pub(in crate::conformance) fn expect_picture_on(
        &self,
        child: u32,
        primary: &Primary,
        number: u64,
    ) -> Result<(), Mismatch> {
        let expected = pixels(primary.surface(), number)?;
        require!(primary.pixels()? == expected, "the primary does not hold picture {number}");
        self.expect_seen(child, &picture::colours(primary.surface(), number)?)
    }

    /// Asserts that a monitor shows this, if somebody looks at it.
    pub(in crate::conformance) fn expect_seen(
        &self,
        child: u32,
        expected: &Canvas,
    ) -> Result<(), Mismatch> {
        let Some(onlooker) = &self.onlooker else { return Ok(()) };
        let seen = onlooker.look(child).map_err(|error| Mismatch::Seen(format!("{error:#}")))?;
        let Some(Seen { width, height, pixels }) = seen else {
            return Err(Mismatch::Seen(format!("monitor {child} shows nothing")));
        };
        let surface = expected.surface;
        require!(
            (width, height) == (surface.width, surface.height),
            "monitor {child} shows {width}x{height} pixels of {}x{}",
            surface.width,
            surface.height
        );
        let wrong = pixels.iter().zip(&expected.pixels).position(|(one, other)| one != other);
        match wrong {
            None => Ok(()),
            Some(at) => Err(Mismatch::Seen(format!(
                "monitor {child}: pixel {}, {} is {:#08x}, not {:#08x}",
                at % width as usize,
                at / width as usize,
                pixels[at],
                expected.pixels[at]
            ))),
        }
    }

    /// Asserts that nothing is scanned out on a monitor, if somebody looks at it.
    pub(in crate::conformance) fn expect_nothing_seen(&self, child: u32) -> Result<(), Mismatch> {
        let Some(onlooker) = &self.onlooker else { return Ok(()) };
        let seen = onlooker.look(child).map_err(|error| Mismatch::Seen(format!("{error:#}")))?;
        require!(seen.is_none(), "monitor {child} shows something");
        Ok(())
    }

    /// Lets VSYNCs of source 0 pass, and returns the flip that the last of them showed.
    pub(in crate::conformance) fn pass_vsyncs(&self, count: u64) -> Result<u64, Mismatch> {
        self.pass_vsyncs_of(0, count)
    }

    /// Lets VSYNCs of a source pass, and returns the flip that the last of them showed.
    pub(in crate::conformance) fn pass_vsyncs_of(
        &self,
        source: u32,
        count: u64,
    ) -> Result<u64, Mismatch> {
        self.display.set_vsync_events(source, true)?;
        self.display.skip_vsyncs(source)?;
        let mut shown = 0;
        for _ in 0..count {
            shown = self.display.wait_for_vsync(source, TIMEOUT)?.flip;
        }
        self.display.set_vsync_events(source, false)?;
        Ok(shown)
    }
}

/// The bytes of a picture: another one for each number.
pub(in crate::conformance) fn pixels(surface: Surface, number: u64) -> Result<Vec<u8>, Mismatch> {
    let bytes = surface.width * surface.height * surface.pixel()?;
    let words = (0..u64::from(bytes.div_ceil(8))).map(|index| xor_stream(number, index));
    let mut pixels: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    pixels.truncate(bytes as usize);
    Ok(pixels)
}

/// The refusal of a topology.
pub(in crate::conformance) fn refusal(
    checked: Result<(), DisplayError>,
) -> Result<Refusal, Mismatch> {
    match checked {
        Err(DisplayError::Topology(refusal)) => Ok(refusal),
        Err(error) => Err(error.into()),
        Ok(()) => Err(Mismatch::Seen("the topology was accepted".into())),
    }
}

/// A surface of 32-bit pixels.
pub(in crate::conformance) fn surface(width: u32, height: u32) -> Surface {
    Surface { width, height, format: PixelFormat::X8R8G8B8 }
}
