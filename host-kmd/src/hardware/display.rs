// SPDX-License-Identifier: MIT OR Apache-2.0

//! Displays: the CRTCs that scan a guest's primaries, and the monitors that are plugged in.
//!
//! Each guest has a display of its own, with all connectors of the GPU.

use super::{GuestId, PhysicalAddress, UnknownId};
use bellhop_protocol::control::display::{
    ConnectorKind, Rotation, Scaling, SourceMode, TargetMode,
};
use bellhop_protocol::control::flip::ScanLine;

/// What the display of each guest can do. It never changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DisplayCaps {
    /// Number of sources, at most [`MAX_PATHS`](bellhop_protocol::control::display::MAX_PATHS). 0: the adapter has no
    /// display.
    pub sources: u32,
    /// The connectors, at most as many: target n is connector n.
    pub connectors: Vec<ConnectorCaps>,
    /// Pixels a second that all targets of a guest can have together.
    pub total_pixel_rate: u64,
    /// Widest source, in pixels.
    pub max_width: u32,
    /// Highest source, in lines.
    pub max_height: u32,
}

/// A connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectorCaps {
    /// What it is.
    pub kind: ConnectorKind,
    /// Pixels a second that its link carries, blanking included.
    pub max_pixel_rate: u64,
}

/// A monitor that is plugged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monitor {
    /// Its EDID: whole blocks of 128 bytes, at least one.
    pub edid: Vec<u8>,
    /// Its modes, the preferred one first, at least one. None comes twice; each has a rate and is not empty.
    pub modes: Vec<TargetMode>,
}

/// A path of a functional VidPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisplayPath {
    /// The source.
    pub source: u32,
    /// The target.
    pub target: u32,
    /// How the source fills the target.
    pub scaling: Scaling,
    /// How the source is turned.
    pub rotation: Rotation,
    /// What the source composes; one for all paths of a source.
    pub source_mode: SourceMode,
    /// What the monitor scans.
    pub target_mode: TargetMode,
}

/// Where a source's pixels are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAddress {
    /// The flip's number: greater than that of any earlier flip of the guest, not 0.
    pub flip: u64,
    /// The driver's number for it, which VSYNC events name.
    pub number: u64,
    /// The first pixel. The primary is contiguous from there, in a local segment.
    pub base: PhysicalAddress,
    /// Bytes from one line to the next.
    pub pitch: u32,
    /// At the end of the line that is scanned; otherwise at the next VSYNC.
    pub immediate: bool,
}

/// A pointer's shape: `A8R8G8B8`, alpha not multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerShape {
    /// The first pixel. The shape is contiguous from there, in a local segment.
    pub base: PhysicalAddress,
    /// Bytes from one line to the next.
    pub pitch: u32,
    /// Pixels of a line, 1 to 64.
    pub width: u32,
    /// Lines, 1 to 64.
    pub height: u32,
    /// The point within the shape, from the left, that lies at the pointer's position.
    pub hot_x: u32,
    /// The point within the shape, from above, that lies at the pointer's position.
    pub hot_y: u32,
}

/// A point up to which a guest's display has let go of surfaces; see [`Display::quiesce_display`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DisplayTicket(pub u64);

/// What people made of a connector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectorUse {
    /// Its name in the host's configuration.
    pub name: String,
    /// Number of viewers.
    pub viewers: u64,
}

/// The displays of guests. No call waits for a VSYNC or a viewer. A guest that leaves takes its display with it: its
/// last VidPN is empty, and a ticket after it has passed.
///
/// # Errors
/// All calls that can fail do so for a guest that does not exist.
#[allow(clippy::missing_errors_doc, reason = "one rule for all")]
pub trait Display {
    /// What the display of each guest can do.
    fn display_caps(&self) -> DisplayCaps;

    /// The monitor that is plugged into a guest's connector, if one is.
    fn monitor(&self, guest: GuestId, child: u32) -> Option<Monitor>;

    /// `DxgkDdiCommitVidPn`: programs all CRTCs of a guest. A path that stays as it was goes on without a break, and a
    /// source whose mode stays keeps its address, its visibility and its count of VSYNCs. Any other source begins
    /// visible, without address, pointer, VSYNC interrupts and flips, counts VSYNCs from 0, and shows black. A source
    /// without a path is forgotten, with its pending flip, which is not reported.
    fn commit_vidpn(&self, guest: GuestId, paths: &[DisplayPath]) -> Result<(), UnknownId>;

    /// `DxgkDdiSetVidPnSourceVisibility`: shows or blanks a committed source. A source that is not visible has no VSYNC:
    /// a pending flip happens at once, and so does each later one. It keeps its address.
    fn set_source_visibility(
        &self,
        guest: GuestId,
        source: u32,
        visible: bool,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiSetVidPnSourceAddress`: flips a committed source. [`Interrupt::CrtcVsync`](super::Interrupt) or
    /// [`Interrupt::Flipped`](super::Interrupt) tells when. With `None` the source shows black from then on.
    ///
    /// Returns the number of the pending flip that this replaces or forgets: it does not happen and is not reported. A
    /// flip that is not returned has happened, or is reported yet.
    fn set_source_address(
        &self,
        guest: GuestId,
        source: u32,
        address: Option<SourceAddress>,
    ) -> Result<Option<u64>, UnknownId>;

    /// `DxgkDdiGetScanLine`: the line that a committed source's preferred target scans now. A source that is not visible
    /// is in its vertical blanking.
    fn scan_line(&self, guest: GuestId, source: u32) -> Result<ScanLine, UnknownId>;

    /// `DxgkDdiControlInterrupt`: the processes that are told of each VSYNC of a committed source, and no others once
    /// this has returned. The hardware puts the `VSYNC` events into the guest's event queue by itself: the way by the
    /// kernel would make them come late, and some later than others. They name the source `known_as`.
    fn control_vsync(
        &self,
        guest: GuestId,
        source: u32,
        known_as: u32,
        wanted_by: &[u32],
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiSetPointerShape`: gives a committed source's pointer a shape, or none. The pixels are copied before this
    /// returns.
    fn set_pointer(
        &self,
        guest: GuestId,
        source: u32,
        shape: Option<PointerShape>,
    ) -> Result<(), UnknownId>;

    /// `DxgkDdiSetPointerPosition`: moves a committed source's pointer to `position`, x and y in pixels of the source.
    /// It is not visible at first.
    fn move_pointer(
        &self,
        guest: GuestId,
        source: u32,
        position: (i32, i32),
        visible: bool,
    ) -> Result<(), UnknownId>;

    /// Gives all displays power, or takes it: then no source has VSYNCs and nothing is scanned, but everything is kept. A
    /// pending flip happens when there is power again.
    fn set_display_power(&self, on: bool);

    /// `DxgkDdiResetFromTimeout`, for the display of one guest: pending flips are forgotten and not reported, and its
    /// CRTCs begin anew. The VidPN stays, and what was set for its sources.
    fn reset_display(&self, guest: GuestId) -> Result<(), UnknownId>;

    /// Has a guest's display let go of every surface that is neither shown nor pending after the calls before this one.
    /// It reads none of them once the ticket has passed, and does not wait for a VSYNC or for power to let go.
    /// [`Interrupt::DisplayQuiesced`](super::Interrupt) follows, also if nothing is committed.
    fn quiesce_display(&self, guest: GuestId) -> Result<DisplayTicket, UnknownId>;
}
