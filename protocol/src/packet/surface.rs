// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets that copy, fill or stretch rectangles of surfaces.
//!
//! A surface is rows of bytes at a distance, its pitch, in the memory of the queue's process. `COPY_RECT` and
//! `FILL_RECT` count in bytes and rows, and every node executes them; `STRETCH_RECT` counts in pixels, and only
//! 3D nodes execute it. Rectangles are executed row by row, from above. A rectangle without rows or columns
//! has no effect. Overlapping rectangles give unspecified bytes in the overlap.
//!
//! Source: `DxgkDdiPresent` in "Flip/Present" of the Windows KMD overview.

use super::header::{Opcode, PacketHeader};
use crate::pixel_format::PixelFormat;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most rows of a rectangle.
pub const MAX_ROWS: u32 = 1 << 15;
/// Largest pitch in bytes.
pub const MAX_PITCH: u32 = 1 << 18;

/// Bytes from the first byte of a rectangle to behind its last one: of `rows` rows of `row` bytes, `pitch` apart.
#[must_use]
pub const fn extent(pitch: u32, row: u32, rows: u32) -> u64 {
    match rows.checked_sub(1) {
        Some(before_last) if row > 0 => before_last as u64 * pitch as u64 + row as u64,
        _ => 0,
    }
}

/// `COPY_RECT`: copies a rectangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CopyRect {
    /// `argument` is the number of bytes of a row, at most either pitch.
    pub header: PacketHeader,
    /// First byte to read.
    pub source: u64,
    /// First byte to write.
    pub destination: u64,
    /// Bytes from one row of the source to the next, at most [`MAX_PITCH`].
    pub source_pitch: u32,
    /// Bytes from one row of the destination to the next, at most [`MAX_PITCH`].
    pub destination_pitch: u32,
    /// Rows, at most [`MAX_ROWS`].
    pub rows: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    CopyRect, 40,
    header at 0, source at 8, destination at 16, source_pitch at 24, destination_pitch at 28,
    rows at 32, reserved at 36,
);

impl CopyRect {
    /// Copies `rows` rows of `row` bytes, each given as an address and a pitch.
    #[must_use]
    pub const fn new(source: (u64, u32), destination: (u64, u32), row: u32, rows: u32) -> Self {
        Self {
            header: PacketHeader::new(Opcode::COPY_RECT, size_of::<Self>(), row),
            source: source.0,
            destination: destination.0,
            source_pitch: source.1,
            destination_pitch: destination.1,
            rows,
            reserved: 0,
        }
    }
}

/// `FILL_RECT`: repeats a 32-bit pattern over each row of a rectangle, from its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FillRect {
    /// `argument` is the pattern; a pixel of 16 bits is in it twice.
    pub header: PacketHeader,
    /// First byte of the rectangle, a multiple of 2.
    pub destination: u64,
    /// Bytes from one row to the next, a multiple of 2, at most [`MAX_PITCH`].
    pub pitch: u32,
    /// Bytes of a row, a multiple of 2, at most the pitch.
    pub row: u32,
    /// Rows, at most [`MAX_ROWS`].
    pub rows: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    FillRect, 32,
    header at 0, destination at 8, pitch at 16, row at 20, rows at 24, reserved at 28,
);

impl FillRect {
    /// Fills `rows` rows of `row` bytes from an address on, with a pitch.
    #[must_use]
    pub const fn new(destination: (u64, u32), row: u32, rows: u32, pattern: u32) -> Self {
        Self {
            header: PacketHeader::new(Opcode::FILL_RECT, size_of::<Self>(), pattern),
            destination: destination.0,
            pitch: destination.1,
            row,
            rows,
            reserved: 0,
        }
    }
}

open_enum! {
    /// How [`StretchRect`] makes a pixel.
    pub struct StretchFilter: u32 {
        /// The nearest pixel of the source: the one that the middle of the destination's pixel falls on.
        NEAREST = 0;
        /// The four pixels of the source around the middle of the destination's pixel, weighted by their distance in
        /// steps of 1/256; beyond the edge, the edge's pixel.
        BILINEAR = 1;
    }
}

/// Largest width and height of a stretched rectangle, in pixels.
pub const MAX_STRETCH: u16 = 1 << 14;

/// `STRETCH_RECT`: scales a rectangle of pixels to the size of another, and draws the part within a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct StretchRect {
    /// `argument` is the [`StretchFilter`] in its lower half and the [`PixelFormat`] of both surfaces in its upper one.
    pub header: PacketHeader,
    /// First pixel to read.
    pub source: u64,
    /// Where the first pixel of the whole destination rectangle is.
    pub destination: u64,
    /// Bytes from one row of the source to the next, at most [`MAX_PITCH`].
    pub source_pitch: u32,
    /// Bytes from one row of the destination to the next, at most [`MAX_PITCH`].
    pub destination_pitch: u32,
    /// Width and height of the source, in pixels, 1 to [`MAX_STRETCH`].
    pub source_size: [u16; 2],
    /// Width and height of the destination, in pixels, 1 to [`MAX_STRETCH`].
    pub destination_size: [u16; 2],
    /// What is drawn of the destination rectangle: left, top, right and bottom in pixels of it, the last two exclusive.
    pub clip: [u16; 4],
}
crate::assert_layout!(
    StretchRect, 48,
    header at 0, source at 8, destination at 16, source_pitch at 24, destination_pitch at 28,
    source_size at 32, destination_size at 36, clip at 40,
);

/// A surface's rectangle: the address of its first pixel, its pitch in bytes, and its width and height in pixels.
pub type Rectangle = (u64, u32, [u16; 2]);

impl StretchRect {
    /// Draws a whole source over a whole destination.
    #[must_use]
    pub const fn new(
        (source, source_pitch, source_size): Rectangle,
        (destination, destination_pitch, destination_size): Rectangle,
        format: PixelFormat,
        filter: StretchFilter,
    ) -> Self {
        let argument = filter.0 & 0xFFFF | format.0 << 16;
        let [width, height] = destination_size;
        Self {
            header: PacketHeader::new(Opcode::STRETCH_RECT, size_of::<Self>(), argument),
            source,
            destination,
            source_pitch,
            destination_pitch,
            source_size,
            destination_size,
            clip: [0, 0, width, height],
        }
    }

    /// The same, of which only `clip` is drawn: left, top, right, bottom.
    #[must_use]
    pub const fn clipped(self, clip: [u16; 4]) -> Self {
        Self { clip, ..self }
    }

    /// How it makes a pixel.
    #[must_use]
    pub const fn filter(&self) -> StretchFilter {
        StretchFilter(self.header.argument & 0xFFFF)
    }

    /// The format of both surfaces.
    #[must_use]
    pub const fn format(&self) -> PixelFormat {
        PixelFormat(self.header.argument >> 16)
    }
}
