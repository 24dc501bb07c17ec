// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flips: showing a primary.
//!
//! Source: Windows KMD overview, "Flip/Present".

use super::error::DisplayError;
use super::object::Display;
use super::primary::Primary;
use crate::fence::list::entries;
use crate::fence::object::Fence;
use crate::link::display_events::{Flipped, Inbox};
use bellhop_protocol::control::flip::{FlipFlags, SetVidPnSourceAddress};
use std::time::Duration;
use zerocopy::IntoBytes;

/// A flip to a primary, by itself at the next VSYNC after the flips before it.
#[derive(Clone, Copy)]
#[must_use = "`Display::flip` makes the flip"]
pub struct Flip<'a> {
    primary: &'a Primary,
    flags: FlipFlags,
    fences: &'a [(&'a Fence, u64)],
}

impl<'a> Flip<'a> {
    /// A flip at a VSYNC.
    pub fn to(primary: &'a Primary) -> Self {
        Self { primary, flags: FlipFlags::empty(), fences: &[] }
    }

    /// Flips at the end of a scan line rather than at a VSYNC: the picture may be torn. [`Display::flip`] returns when it
    /// has happened.
    pub fn immediate(mut self) -> Self {
        self.flags |= FlipFlags::IMMEDIATE;
        self
    }

    /// Drops earlier flips of the source that have not happened.
    pub fn replace(mut self) -> Self {
        self.flags |= FlipFlags::REPLACE;
        self
    }

    /// Flips when all of these fences have these values: at most 8, of this process.
    pub fn after(mut self, fences: &'a [(&'a Fence, u64)]) -> Self {
        self.fences = fences;
        self
    }
}

impl Display {
    /// Flips a source (`SetVidPnSourceAddress`). Returns the flip's number, by which events name it, when it is queued;
    /// for an immediate flip, when it has happened.
    ///
    /// # Errors
    /// [`DisplayError::NotInTopology`], [`DisplayError::QueueFull`]; a refusal if the primary is smaller than the source.
    pub fn flip(&self, source: u32, flip: Flip<'_>) -> Result<u64, DisplayError> {
        let session = self.session();
        let number = session.link.events.with_display(session.process(), Inbox::next_flip);
        let list = entries(flip.fences);
        let request = SetVidPnSourceAddress {
            source,
            flags: flip.flags.bits(),
            allocation: flip.primary.allocation().handle(),
            offset: 0,
            pitch: flip.primary.pitch()?,
            fences: list.len() as u32,
            flip: number,
        };
        let queued = session.call_with_list(&request, list.as_bytes());
        queued.map_err(DisplayError::of_source(source))?;
        Ok(number)
    }

    /// Waits until a flip of a source has ended, one way or another. Returns each end once.
    ///
    /// # Errors
    /// [`DisplayError::Timeout`]
    pub fn wait_for_flip(
        &self,
        source: u32,
        flip: u64,
        timeout: Duration,
    ) -> Result<Flipped, DisplayError> {
        let is_it = |ended: &Flipped| ended.source == source && ended.flip == flip;
        let ended = self.wait(timeout, |inbox| inbox.flips.take(is_it))?;
        ended.ok_or(DisplayError::Timeout("the end of a flip"))
    }
}
