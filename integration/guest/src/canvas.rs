// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures that the processor draws, to be compared with what the GPU draws.

use bellhop_guest_umd::display::{DisplayError, PixelFormat, Primary, Surface};
use bellhop_protocol::control::present::Rect;

/// Pixels of a surface by line and column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Canvas {
    pub(crate) surface: Surface,
    pub(crate) pixels: Vec<u32>,
}

impl Canvas {
    /// What a primary holds.
    pub(crate) fn of(primary: &Primary) -> Result<Self, DisplayError> {
        Self::new(primary.surface(), &primary.pixels()?)
    }

    /// Pixels as memory holds them, line after line.
    pub(crate) fn new(surface: Surface, bytes: &[u8]) -> Result<Self, DisplayError> {
        let word =
            |pixel: &[u8]| pixel.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let pixels = bytes.chunks_exact(surface.pixel()? as usize).map(word).collect();
        Ok(Self { surface, pixels })
    }

    /// Pixels that this computes from their column and line.
    pub(crate) fn drawn(surface: Surface, pixel: impl Fn(u32, u32) -> u32) -> Self {
        let Surface { width, height, .. } = surface;
        let lines = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Self { surface, pixels: lines.map(|(x, y)| pixel(x, y)).collect() }
    }

    fn index(&self, x: u32, y: u32) -> usize {
        (y * self.surface.width + x) as usize
    }

    pub(crate) fn at(&self, x: u32, y: u32) -> u32 {
        self.pixels[self.index(x, y)]
    }

    pub(crate) fn set(&mut self, x: u32, y: u32, pixel: u32) {
        let index = self.index(x, y);
        self.pixels[index] = pixel;
    }

    /// The whole of it.
    pub(crate) fn rect(&self) -> Rect {
        Rect::new(0, 0, self.surface.width, self.surface.height)
    }
}

/// The nearest pixel: the one that the middle of the destination's pixel falls on.
pub(crate) fn nearest(from: &Canvas, rect: Rect, to: Rect, x: u32, y: u32) -> u32 {
    let side = |at: u32, source: u32, destination: u32| {
        let middle = (f64::from(at) + 0.5) * f64::from(source) / f64::from(destination);
        middle.floor() as u32
    };
    let column = side(x, rect.width(), to.width());
    from.at(rect.left + column, rect.top + side(y, rect.height(), to.height()))
}

/// The four pixels around the middle of the destination's pixel, weighted in steps of 1/256, and beyond the edge the
/// edge's pixel; a half is rounded up.
pub(crate) fn bilinear(from: &Canvas, rect: Rect, to: Rect, x: u32, y: u32) -> u32 {
    // Where the middle is, in 256ths of a source's pixel from the middle of the source's first one.
    let side = |at: u32, source: u32, destination: u32| {
        let place = (f64::from(at) + 0.5) * f64::from(source) / f64::from(destination) * 256.0;
        let place = (place.floor() as i64 - 128).max(0) as u32;
        let (first, share) = (place / 256, place % 256);
        [(first, 256 - share), ((first + 1).min(source - 1), share)]
    };
    let columns = side(x, rect.width(), to.width());
    let rows = side(y, rect.height(), to.height());
    let widths: &[u32] = match from.surface.format {
        PixelFormat::R5G6B5 => &[5, 6, 5],
        PixelFormat::X2R10G10B10 => &[10, 10, 10, 2],
        _ => &[8; 4],
    };
    let (mut pixel, mut shift) = (0, 0);
    for width in widths {
        let mut sum = 0u64;
        for (row, down) in rows {
            for (column, across) in columns {
                let corner = from.at(rect.left + column, rect.top + row) >> shift;
                sum += u64::from(corner & ((1 << width) - 1)) * u64::from(down * across);
            }
        }
        let mixed = (sum as f64 / 65_536.0 + 0.5).floor() as u32;
        pixel |= mixed << shift;
        shift += width;
    }
    pixel
}
