// SPDX-License-Identifier: MIT OR Apache-2.0

//! Somebody beside the host who looks at a guest's monitors.
//!
//! A guest reads its own pictures back, but not what becomes of them on the way to a monitor: whether the device shows
//! the right one, and turned, scaled and with the pointer as it should be. The host's tools see that.

use std::path::Path;
use std::sync::Arc;

/// What a monitor shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Pixels of a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Pixels `0x00RRGGBB`, line by line.
    pub pixels: Vec<u32>,
}

/// Sees what a guest's monitors show.
pub trait Onlooker: Send + Sync {
    /// What a connector's monitor shows: a whole frame, with everything that the guest was told of before the call;
    /// `None` if nothing is scanned out there.
    ///
    /// # Errors
    /// When the host shows nobody the guest's monitors.
    fn look(&self, connector: u32) -> anyhow::Result<Option<Seen>>;
}

/// Finds an onlooker: on the control socket of a bellhopd, for the guest of a socket.
pub type FindOnlooker = fn(control: &Path, guest: &Path) -> Arc<dyn Onlooker>;
