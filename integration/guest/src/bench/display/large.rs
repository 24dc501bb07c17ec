// SPDX-License-Identifier: MIT OR Apache-2.0

//! A large screen, which somebody may watch.

use super::{COMMANDS, TIMEOUT, latency, missed, mode, show};
use crate::timing::Latency;
use anyhow::Context as _;
use bellhop_guest_umd::display::{Display, Flip, FlipOutcome, Primary, Surface};
use bellhop_guest_umd::{Adapter, CommandBuffer, Device, UserModeQueue};
use bellhop_protocol::control::adapter::EngineType;

/// Frames a second.
const RATE: u64 = 60;
/// Pixels of a side of what changes, and bytes of a pixel.
const SIDE: u32 = 64;
const PIXEL: u32 = 4;

/// The second monitor in its mode of 60 Hz, until this is dropped.
pub struct LargeScreen {
    // Dropped in this order.
    device: Device,
    display: Display,
    process: Adapter,
    surface: Surface,
}

/// A picture that stays, of which engines change a small part.
pub struct SmallChanges<'s> {
    // Dropped in this order.
    queue: UserModeQueue,
    commands: CommandBuffer,
    picture: Primary,
    screen: &'s LargeScreen,
    number: u32,
}

impl LargeScreen {
    /// Shows it.
    ///
    /// # Errors
    /// When the guest has no such monitor, or the device refuses.
    pub fn show(adapter: &Adapter) -> anyhow::Result<Self> {
        let mode = mode(&adapter.open_process()?.display()?, 1, RATE)?;
        let mode = mode.context("the second monitor has no mode of 60 Hz")?;
        let (process, display, surface) = show(adapter, 1, mode)?;
        let device = process.create_device()?;
        Ok(Self { device, display, process, surface })
    }

    /// Its width and height in pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (self.surface.width, self.surface.height)
    }

    /// Flips as fast as the monitor takes them, and then one after another. Returns how many VSYNCs the first missed, and
    /// the time from a submission to its scan-out of the others.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn flip(&self, flips: u64) -> anyhow::Result<(u64, Latency)> {
        let Self { device, display, process, surface } = self;
        let missed = missed(display, device, *surface, flips)?;
        Ok((missed, latency(process, display, device, *surface, (flips, RATE))?))
    }

    /// Shows a picture that stays.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn still(&self) -> anyhow::Result<SmallChanges<'_>> {
        let node = self.process.least_used_node(EngineType::THREE_D)?;
        let queue = self.device.create_context(node)?.create_user_mode_queue(4096)?;
        let commands = CommandBuffer::new(&self.device, COMMANDS)?;
        let picture = self.device.create_primary(self.surface)?;
        let flip = self.display.flip(0, Flip::to(&picture))?;
        let ended = self.display.wait_for_flip(0, flip, TIMEOUT)?;
        anyhow::ensure!(ended.outcome == FlipOutcome::SHOWN, "the flip ended {}", ended.outcome);
        Ok(SmallChanges { queue, commands, picture, screen: self, number: 0 })
    }
}

impl SmallChanges<'_> {
    /// Has an engine fill 64 by 64 pixels in the middle with another colour.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn change(&mut self) -> anyhow::Result<()> {
        self.number += 1;
        let Surface { width, height, .. } = self.screen.surface;
        let pitch = self.screen.surface.pitch()?;
        let place = u64::from(height / 2) * u64::from(pitch) + u64::from(width / 2 * PIXEL);
        let to = (self.picture.gpu_va() + place, pitch);
        self.commands.reset();
        self.commands.fill_rect(to, SIDE * PIXEL, SIDE, self.number)?;
        self.queue.submit(&mut self.commands)?;
        let value = self.queue.last_value();
        self.queue.progress_fence().wait(value, TIMEOUT)?;
        Ok(())
    }
}
