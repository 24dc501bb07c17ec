// SPDX-License-Identifier: MIT OR Apache-2.0

//! The request that draws one surface on another by kernel-mode submission.
//!
//! Source: "Flip/Present" of the Windows KMD overview.

use super::node_context::SubmissionReply;
use super::{Handle, request};
use crate::packet::surface::StretchFilter;
use crate::pixel_format::PixelFormat;
pub use crate::rect::Rect;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What a [`Present`] draws (`DXGK_PRESENTFLAGS`).
    pub struct PresentKind: u32 {
        /// `Blt`: the source's rectangle, which is as large as the destination's.
        BLT = 1;
        /// `ColorFill`: a colour.
        COLOR_FILL = 2;
        /// `Blt` with a stretch: the source's rectangle, scaled to the size of the destination's.
        STRETCH = 3;
    }
}

/// A surface in an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Surface {
    /// The allocation; 0 for none.
    pub allocation: Handle,
    /// Offset of the first pixel in the allocation, in bytes.
    pub offset: u64,
    /// Bytes from one row to the next, at most [`MAX_PITCH`](crate::packet::surface::MAX_PITCH).
    pub pitch: u32,
    /// Pixels of a row, 1 to [`MAX_STRETCH`](crate::packet::surface::MAX_STRETCH).
    pub width: u32,
    /// Rows, 1 to [`MAX_STRETCH`](crate::packet::surface::MAX_STRETCH).
    pub height: u32,
    /// How it stores pixels.
    pub format: PixelFormat,
}
crate::assert_layout!(
    Surface, 32,
    allocation at 0, offset at 8, pitch at 16, width at 20, height at 24, format at 28,
);

/// Most dirty rectangles of one [`Present`].
pub const MAX_DIRTY_RECTS: u32 = 64;

/// `D3DKMTPresent`: draws on a surface, by a DMA buffer that the host makes (`DxgkDdiPresent`) and submits to a context
/// of the basic model. A list of `rects` [`Rect`]s follows: the parts of the destination's rectangle that are drawn, or
/// none for the whole.
///
/// Its allocations are listed, made resident and held as those of `RENDER` are. Surfaces of a `BLT` or `STRETCH` have
/// one format, and do not overlap. Only 3D nodes stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Present {
    /// The context.
    pub context: Handle,
    /// What is drawn.
    pub kind: PresentKind,
    /// How `STRETCH` makes pixels; otherwise 0.
    pub filter: StretchFilter,
    /// The surface that is read; zeroes for `COLOR_FILL`.
    pub source: Surface,
    /// The surface that is written.
    pub destination: Surface,
    /// What is read of the source; zeroes for `COLOR_FILL`.
    pub source_rect: Rect,
    /// Where it goes.
    pub destination_rect: Rect,
    /// The pixel of `COLOR_FILL`, in the destination's format; otherwise 0.
    pub color: u32,
    /// Number of dirty rectangles that follow, at most [`MAX_DIRTY_RECTS`].
    pub rects: u32,
}
crate::assert_layout!(
    Present, 120,
    context at 0, kind at 8, filter at 12, source at 16, destination at 48, source_rect at 80,
    destination_rect at 96, color at 112, rects at 116,
);
request!(Present, PRESENT -> SubmissionReply);
