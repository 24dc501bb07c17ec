// SPDX-License-Identifier: MIT OR Apache-2.0

//! A monitor that images are shown on.

use super::handles::numbers;
use crate::device::Device;
use crate::pages::out_of;
use crate::physical_device::Opened;
use crate::surface::screen::{Canvas, Picture, Place, Screen, Shown, Size};
use ash::vk;
use bellhop_guest_umd::display::{
    Constraint, Display, DisplayError, Flip, Path, PixelFormat, Refusal, Surface, TargetMode,
    Topology, Window, compositor,
};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The longest that a flip may take: far longer than the slowest monitor scans.
const LONGEST: Duration = Duration::from_secs(10);

/// A monitor, in one of its modes.
pub(in super::super) struct Monitor {
    display: Display,
    source: u32,
    child: u32,
    mode: TargetMode,
    /// Where a compositor listens, which may have the monitor.
    compositor: Option<PathBuf>,
    /// The display is the adapter's.
    _opened: Arc<Opened>,
}

/// What functions return when a display says this.
pub(super) fn failed(error: &DisplayError) -> vk::Result {
    match error {
        DisplayError::Device(error) => out_of(error),
        // Whoever has the monitor next shows the program's next swap chain, or the program has it itself.
        DisplayError::Compositor(error) if error.kind() == ErrorKind::UnexpectedEof => {
            vk::Result::ERROR_OUT_OF_DATE_KHR
        }
        error => {
            crate::debug::say(error);
            vk::Result::ERROR_SURFACE_LOST_KHR
        }
    }
}

impl Monitor {
    /// The monitor of a mode, on a source. `None` if it is not there.
    pub(in super::super) fn open(mode: vk::DisplayModeKHR, source: u32) -> Option<Self> {
        let opened = Opened::get().ok()?;
        let display = opened.adapter.display().ok()?;
        let (child, number) = numbers(mode);
        let modes = display.monitor_modes(child).ok()?;
        let mode = *modes.get(number as usize)?;
        Some(Self { display, source, child, mode, compositor: compositor(), _opened: opened })
    }

    /// Has the monitor show the source in this mode.
    fn set_mode(&self) -> Result<(), DisplayError> {
        let TargetMode { width, height, .. } = self.mode;
        let path = Path::new(self.source, self.child).target_mode(self.mode).source_mode(
            width,
            height,
            PixelFormat::X8R8G8B8,
        );
        let topology = self.display.complete(&Topology::new().path(path))?;
        self.display.commit(&topology)
    }
}

impl Screen for Monitor {
    fn extent(&self) -> Result<Option<vk::Extent2D>, vk::Result> {
        let TargetMode { width, height, .. } = self.mode;
        Ok(Some(vk::Extent2D { width, height }))
    }

    fn formats(&self) -> &'static [vk::Format] {
        &[vk::Format::B8G8R8A8_UNORM, vk::Format::B8G8R8A8_SRGB]
    }

    fn interval(&self) -> Option<Duration> {
        // A flip waits for its VSYNC.
        None
    }

    fn place(&self, device: &Device, size: Size) -> Result<Place, vk::Result> {
        let pitch = size.pitch.max(1) as u64;
        // The host may want more lines than it shows.
        let lines = size.bytes.div_ceil(pitch).max(size.extent.height.into());
        let lines = u32::try_from(lines).unwrap_or(u32::MAX);
        let surface = pixels(size.extent.width, lines);
        let primary = match &self.compositor {
            // It may have to open it.
            Some(_) => device.gpu.create_shared_primary(surface),
            None => device.gpu.create_primary(surface),
        };
        let primary = primary.map_err(|error| failed(&error))?;
        let is_right = primary.pitch().is_ok_and(|own| u64::from(own) == pitch)
            && primary.gpu_va().is_multiple_of(size.alignment);
        if is_right { Ok(Place::Primary(primary)) } else { Err(vk::Result::ERROR_UNKNOWN) }
    }

    fn canvas(
        &self,
        _extent: vk::Extent2D,
        mode: vk::PresentModeKHR,
    ) -> Result<Box<dyn Canvas>, vk::Result> {
        let tears = mode == vk::PresentModeKHR::IMMEDIATE;
        match (self.set_mode(), &self.compositor) {
            (Ok(()), _) => {
                let (display, source) = (self.display.clone(), self.source);
                Ok(Box::new(Source { display, source, tears, shown: None }))
            }
            (
                Err(DisplayError::Topology(Refusal { constraint: Constraint::IN_USE, .. })),
                Some(at),
            ) => {
                let TargetMode { width, height, .. } = self.mode;
                let window = self.display.window(at, self.child, pixels(width, height));
                let window = window.map_err(|error| failed(&error))?;
                Ok(Box::new(Composited { window, tears, shown: None }))
            }
            (Err(error), _) => Err(failed(&error)),
        }
    }
}

const fn pixels(width: u32, height: u32) -> Surface {
    Surface { width, height, format: PixelFormat::X8R8G8B8 }
}

/// A window on a monitor that a compositor has.
struct Composited {
    window: Window,
    tears: bool,
    /// The image that is shown.
    shown: Option<u32>,
}

impl Canvas for Composited {
    fn show(&mut self, picture: &Picture<'_>) -> Result<Shown, vk::Result> {
        let Place::Primary(primary) = picture.place else {
            return Err(vk::Result::ERROR_UNKNOWN);
        };
        let shown = self.window.show(picture.index, primary, self.tears);
        shown.map_err(|error| failed(&error))?;
        Ok(Shown { fits: true, free: self.shown.replace(picture.index) })
    }
}

/// A source that shows primaries.
struct Source {
    display: Display,
    source: u32,
    /// Whether images are shown at once.
    tears: bool,
    /// The image that is shown.
    shown: Option<u32>,
}

impl Canvas for Source {
    fn show(&mut self, picture: &Picture<'_>) -> Result<Shown, vk::Result> {
        let Place::Primary(primary) = picture.place else {
            return Err(vk::Result::ERROR_UNKNOWN);
        };
        let flip = Flip::to(primary);
        let flip = if self.tears { flip.immediate() } else { flip };
        let number = self.display.flip(self.source, flip).map_err(|error| failed(&error))?;
        let ended = self.display.wait_for_flip(self.source, number, LONGEST);
        ended.map_err(|error| failed(&error))?;
        // The one before is shown no more.
        let free = self.shown.replace(picture.index);
        Ok(Shown { fits: true, free })
    }
}
