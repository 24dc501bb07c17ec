// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about what a source shows: primaries, flips, VSYNC and the pointer.
//!
//! Source: Windows KMD overview, "Flip/Present".

use super::{Handle, request};
use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Shows a source or blanks it. A blanked source scans nothing, costs nothing and keeps its modes; it has no VSYNC, so
/// flips happen at once, and what was flipped last is seen when it is visible again. A source is committed visible. Only
/// the owner may do this.
///
/// `GRAPHICS_SOURCE_NOT_IN_TOPOLOGY` if the process has not committed the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetVidPnSourceVisibility {
    /// The source.
    pub source: u32,
    /// 1 to show it, 0 to blank it.
    pub visible: u32,
}
crate::assert_layout!(SetVidPnSourceVisibility, 8, source at 0, visible at 4);
request!(SetVidPnSourceVisibility, SET_VIDPN_SOURCE_VISIBILITY -> ());

bitflags! {
    /// How a source's address changes (`DXGK_SETVIDPNSOURCEADDRESS_FLAGS`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct FlipFlags: u32 {
        /// At the end of a scan line rather than in the vertical blanking: a picture may be torn.
        const IMMEDIATE = 1 << 0;
        /// Earlier flips of the source that have not happened are dropped.
        const REPLACE = 1 << 1;
    }
}

/// Most flips of a source that have not happened.
pub const MAX_FLIPS: u32 = 8;
/// Most fences that a flip waits for.
pub const MAX_FLIP_FENCES: u32 = 8;

/// Flips: shows this primary. A list of `fences` [`FenceValue`](super::fence::FenceValue)s follows, at most
/// [`MAX_FLIP_FENCES`].
///
/// The flips of a source happen in the order of the requests, each when all its fences have their values. Each ends with
/// one event `FLIPPED`. A VSYNC flip is answered when it is queued, an immediate one when it has happened or is lost.
///
/// The primary is a paged allocation with [`PRIMARY`](super::allocation::AllocationFlags::PRIMARY), or one of the kind
/// [`LOCAL`](super::allocation::AllocationKind::LOCAL). The flip makes it resident; it stays so, and where it is, until
/// another is shown. `GRAPHICS_SOURCE_NOT_IN_TOPOLOGY` if the process may not flip the source,
/// `INSUFFICIENT_RESOURCES` if [`MAX_FLIPS`] of them have not happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetVidPnSourceAddress {
    /// The source.
    pub source: u32,
    /// [`FlipFlags`]
    pub flags: u32,
    /// The primary.
    pub allocation: Handle,
    /// Offset in bytes of the first pixel: a multiple of 256.
    pub offset: u64,
    /// Bytes from one line to the next: a multiple of 64, at least the width.
    pub pitch: u32,
    /// Number of fences that follow.
    pub fences: u32,
    /// The driver's number for the flip, not 0. Events name it.
    pub flip: u64,
}
crate::assert_layout!(
    SetVidPnSourceAddress, 40,
    source at 0, flags at 4, allocation at 8, offset at 16, pitch at 24, fences at 28, flip at 32,
);
request!(SetVidPnSourceAddress, SET_VIDPN_SOURCE_ADDRESS -> ());

/// What [`SetVidPnSourceAddress::offset`] is a multiple of.
pub const PRIMARY_ALIGNMENT: u64 = 256;
/// What [`SetVidPnSourceAddress::pitch`] is a multiple of.
pub const PITCH_ALIGNMENT: u32 = 64;

/// The line that is scanned now, on the first target of a source that the guest has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GetScanLine {
    /// The source.
    pub source: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(GetScanLine, 8, source at 0, reserved at 4);
request!(GetScanLine, GET_SCAN_LINE -> ScanLine);

/// A place in a frame (`DXGKARG_GETSCANLINE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ScanLine {
    /// The line, from 0.
    pub line: u32,
    /// 1 in the vertical blanking, otherwise 0.
    pub in_vertical_blank: u32,
}
crate::assert_layout!(ScanLine, 8, line at 0, in_vertical_blank at 4);

/// [`ControlInterrupt::flags`]: an event for each VSYNC is wanted.
pub const INTERRUPT_VSYNC: u32 = 1 << 0;

/// Turns the events `VSYNC` of a source on or off, for a process that may flip it. They end with that right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ControlInterrupt {
    /// The source.
    pub source: u32,
    /// [`INTERRUPT_VSYNC`]
    pub flags: u32,
}
crate::assert_layout!(ControlInterrupt, 8, source at 0, flags at 4);
request!(ControlInterrupt, CONTROL_INTERRUPT -> ());

/// Widest and highest pointer, in pixels.
pub const MAX_POINTER: u32 = 64;

/// Gives a source's pointer a shape, or none. The device copies the pixels before it answers. Only the owner may do
/// this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetPointerShape {
    /// The source.
    pub source: u32,
    /// Pixels of a line, 1 to [`MAX_POINTER`]; this and all that follow are 0 without a shape.
    pub width: u32,
    /// Lines, 1 to [`MAX_POINTER`].
    pub height: u32,
    /// Bytes from one line to the next: a multiple of 4, at least the width, at most a page.
    pub pitch: u32,
    /// The point within the shape, from the left, that lies at the pointer's position.
    pub hot_x: u32,
    /// The point within the shape, from above, that lies at the pointer's position.
    pub hot_y: u32,
    /// The resident allocation in a local segment that holds the pixels, `A8R8G8B8`, alpha not multiplied; 0 for no
    /// shape.
    pub allocation: Handle,
    /// Offset in bytes of the first pixel: a multiple of 4.
    pub offset: u64,
}
crate::assert_layout!(
    SetPointerShape, 40,
    source at 0, width at 4, height at 8, pitch at 12, hot_x at 16, hot_y at 20, allocation at 24,
    offset at 32,
);
request!(SetPointerShape, SET_POINTER_SHAPE -> ());

/// [`SetPointerPosition::flags`]: the pointer is seen.
pub const POINTER_VISIBLE: u32 = 1 << 0;

/// Moves a source's pointer. Only the owner may do this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetPointerPosition {
    /// The source.
    pub source: u32,
    /// From the left of the source, in pixels; it may lie outside.
    pub x: i32,
    /// From the top of the source, in pixels.
    pub y: i32,
    /// [`POINTER_VISIBLE`]
    pub flags: u32,
}
crate::assert_layout!(SetPointerPosition, 16, source at 0, x at 4, y at 8, flags at 12);
request!(SetPointerPosition, SET_POINTER_POSITION -> ());

/// Lets another process of the guest flip a source, or takes that back. Flips of either wait in one queue; those that wait of a
/// process that may flip it no more are `LOST`. Only the owner may do this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetVidPnSourceOwner {
    /// The source.
    pub source: u32,
    /// The process; 0 takes it back.
    pub process: u32,
}
crate::assert_layout!(SetVidPnSourceOwner, 8, source at 0, process at 4);
request!(SetVidPnSourceOwner, SET_VIDPN_SOURCE_OWNER -> ());
