// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's monitors, and the pictures that it shows.

use super::{Perform, Performer, keep, nth};
use crate::conformance::programs::wire::{
    CreatePrimary, DropPrimary, Failure, FlipTo, GiveUp, OpenPrimary, PassVsyncs, PrimaryAt,
    SharePrimary, Show, Size,
};
use crate::conformance::scene::TIMEOUT;
use bellhop_guest_umd::display::{
    Display, DisplayError, Flip, FlipOutcome, Path, PixelFormat, Primary, Surface, TargetMode,
    Topology,
};
use bellhop_protocol::control::fence::NtHandle;

impl Size {
    fn surface(self) -> Surface {
        Surface { width: self.width, height: self.height, format: PixelFormat::X8R8G8B8 }
    }
}

impl Performer {
    fn display(&mut self) -> Result<Display, Failure> {
        if self.display.is_none() {
            self.display = Some(self.client()?.process.display()?);
        }
        self.display.clone().ok_or(DisplayError::NoDisplay.into())
    }

    fn keep_primary(&mut self, primary: Primary) -> Result<PrimaryAt, Failure> {
        let (handle, gpu_va) = (primary.allocation().handle().0, primary.gpu_va());
        let length = primary.surface().size()?;
        Ok(PrimaryAt { primary: keep(&mut self.primaries, primary), handle, gpu_va, length })
    }
}

/// The first connector with a monitor.
fn first_monitor(display: &Display) -> Result<u32, Failure> {
    for child in 0..display.children().len() as u32 {
        if display.child_status(child)?.connected == 1 {
            return Ok(child);
        }
    }
    Err(Failure::NotOffered("no monitor is plugged in".into()))
}

impl Perform for Show {
    fn perform(self, performer: &mut Performer) -> Result<Size, Failure> {
        let display = performer.display()?;
        let path = Path::new(0, first_monitor(&display)?);
        let modes = display.target_modes(&Topology::new().path(path), 0)?;
        let area = |mode: &&TargetMode| u64::from(mode.width) * u64::from(mode.height);
        let Some(mode) = modes.iter().min_by_key(area).copied() else {
            // A monitor that another process has offers none.
            display.check(&Topology::new().path(path))?;
            return Err(Failure::Other("the monitor has no mode".into()));
        };
        let path = path.target_mode(mode);
        let path = path.source_mode(mode.width, mode.height, PixelFormat::X8R8G8B8);
        display.commit(&display.complete(&Topology::new().path(path))?)?;
        Ok(Size { width: mode.width, height: mode.height })
    }
}

impl Perform for GiveUp {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        Ok(performer.display()?.commit(&Topology::new())?)
    }
}

impl Perform for CreatePrimary {
    fn perform(self, performer: &mut Performer) -> Result<PrimaryAt, Failure> {
        let device = &performer.client()?.device;
        let surface = self.size.surface();
        let primary = if self.shared {
            device.create_shared_primary(surface)?
        } else {
            device.create_primary(surface)?
        };
        performer.keep_primary(primary)
    }
}

impl Perform for SharePrimary {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        Ok(nth(&performer.primaries, self.primary)?.allocation().share()?.0)
    }
}

impl Perform for OpenPrimary {
    fn perform(self, performer: &mut Performer) -> Result<PrimaryAt, Failure> {
        let device = &performer.client()?.device;
        let opened = device.open_shared_primary(NtHandle(self.name), self.size.surface())?;
        performer.keep_primary(opened)
    }
}

impl Perform for DropPrimary {
    fn perform(self, performer: &mut Performer) -> Result<(), Failure> {
        performer.primaries.get_mut(self.primary).and_then(Option::take);
        Ok(())
    }
}

impl Perform for FlipTo {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        let display = performer.display()?;
        let flip = display.flip(0, Flip::to(nth(&performer.primaries, self.primary)?))?;
        let ended = display.wait_for_flip(0, flip, TIMEOUT)?;
        if ended.outcome != FlipOutcome::SHOWN {
            return Err(Failure::Other(format!("flip {flip} ended {}", ended.outcome)));
        }
        Ok(ended.count)
    }
}

impl Perform for PassVsyncs {
    fn perform(self, performer: &mut Performer) -> Result<u64, Failure> {
        let display = performer.display()?;
        display.set_vsync_events(0, true)?;
        display.skip_vsyncs(0)?;
        display.wait_for_vsync(0, TIMEOUT)?;
        let shown = display.wait_for_vsync(0, TIMEOUT)?.flip;
        display.set_vsync_events(0, false)?;
        Ok(shown)
    }
}
