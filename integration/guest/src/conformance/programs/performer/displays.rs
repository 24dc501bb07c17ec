// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's view of the guest's display: the first monitor, shown from source 0.

use super::{Perform, Performer};
use crate::conformance::programs::wire::{CreatePicture, Failure, Flip, Show, ShowNothing};
use crate::conformance::scene::TIMEOUT;
use bellhop_guest_umd::Error;
use bellhop_guest_umd::display::{
    self, Display, FlipOutcome, Path, Primary, Surface, TargetMode, Topology,
};

/// What a program has of the display.
pub(super) struct Screen {
    // Dropped in this order.
    pictures: Vec<Primary>,
    path: Path,
    display: Display,
}

impl Screen {
    /// The smallest and fastest mode of the first monitor: behaviours are about flips.
    fn new(display: Display) -> Result<Self, Failure> {
        let is_there =
            |child: &u32| display.child_status(*child).is_ok_and(|status| status.connected == 1);
        let child = (0..display.children().len() as u32).find(is_there);
        let child = child.ok_or(Failure::NotOffered("no monitor is plugged in".into()))?;
        let path = Path::new(0, child);
        let modes = display.target_modes(&Topology::new().path(path), 0)?;
        let order = |mode: &&TargetMode| {
            let area = u64::from(mode.width) * u64::from(mode.height);
            (area, u64::MAX - mode.pixel_rate())
        };
        let smallest = modes.iter().min_by_key(order);
        let smallest = smallest.ok_or(Failure::Other("the monitor has no mode".into()))?;
        Ok(Self { pictures: Vec::new(), path: path.target_mode(*smallest), display })
    }

    fn surface(&self) -> Result<Surface, Failure> {
        let complete = self.complete()?;
        let path = complete.paths().first().ok_or(Error::NotAvailable("a path"))?;
        Ok(path.get().source_mode.into())
    }

    /// The topology, whether this program may commit it or not.
    fn complete(&self) -> Result<Topology, Failure> {
        let mode = *self.path.get();
        let (width, height) = (mode.target_mode.width, mode.target_mode.height);
        let format = display::PixelFormat::X8R8G8B8;
        let path = self.path.source_mode(width, height, format);
        let path = path.scaling(display::Scaling::IDENTITY);
        Ok(Topology::new().path(path.rotation(display::Rotation::IDENTITY)))
    }
}

impl Performer {
    fn screen(&mut self) -> Result<&mut Screen, Failure> {
        if self.screen.is_none() {
            self.screen = Some(Screen::new(self.client()?.process.display()?)?);
        }
        self.screen.as_mut().ok_or_else(|| Error::NotAvailable("a display").into())
    }
}

impl Perform for Show {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        let screen = performer.screen()?;
        Ok(screen.display.commit(&screen.complete()?)?)
    }
}

impl Perform for ShowNothing {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        Ok(performer.screen()?.display.commit(&Topology::new())?)
    }
}

impl Perform for CreatePicture {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        let surface = performer.screen()?.surface()?;
        let picture = performer.client()?.device.create_primary(surface)?;
        performer.screen()?.pictures.push(picture);
        Ok(())
    }
}

impl Perform for Flip {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        let screen = performer.screen()?;
        let picture = screen.pictures.last();
        let picture = picture.ok_or(Failure::Other("there is no picture".into()))?;
        let flip = screen.display.flip(0, display::Flip::to(picture))?;
        let ended = screen.display.wait_for_flip(0, flip, TIMEOUT)?;
        if ended.outcome == FlipOutcome::SHOWN {
            return Ok(());
        }
        Err(Failure::Other(format!("the flip ended {}", ended.outcome)))
    }
}
