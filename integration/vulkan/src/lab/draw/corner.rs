// SPDX-License-Identifier: MIT OR Apache-2.0

//! Vertices of a place and a colour, as most plans take them, in texels of a canvas.

use super::SIZE;

/// A place in clip coordinates, and a colour.
pub(crate) type Corner = [f32; 8];

/// Colours as a canvas of four bytes for each texel has them: red is the lowest.
pub(crate) const BLANK: u32 = 0;
pub(crate) const RED: u32 = 0xff00_00ff;
pub(crate) const GREEN: u32 = 0xff00_ff00;
pub(crate) const BLUE: u32 = 0xffff_0000;
pub(crate) const YELLOW: u32 = 0xff00_ffff;
pub(crate) const WHITE: u32 = 0xffff_ffff;

/// A colour as shaders see it.
pub(crate) fn colour_of(word: u32) -> [f32; 4] {
    word.to_le_bytes().map(|byte| f32::from(byte) / 255.0)
}

/// A corner at a place of a canvas, with depth 0.
pub(crate) fn corner([x, y]: [f32; 2], colour: u32) -> Corner {
    let half = SIZE as f32 / 2.0;
    let [r, g, b, a] = colour_of(colour);
    [x / half - 1.0, y / half - 1.0, 0.0, 1.0, r, g, b, a]
}

/// Corners of one colour.
pub(crate) fn corners(places: &[[f32; 2]], colour: u32) -> Vec<Corner> {
    places.iter().map(|place| corner(*place, colour)).collect()
}

/// The same corners at a depth.
pub(crate) fn at(depth: f32, corners: &[Corner]) -> Vec<Corner> {
    let moved = |[x, y, _, w, r, g, b, a]: Corner| [x, y, depth * w, w, r, g, b, a];
    corners.iter().copied().map(moved).collect()
}

/// A triangle. It faces the front if it turns to the left on its way down.
pub(crate) fn triangle(places: [[f32; 2]; 3], colour: u32) -> Vec<Corner> {
    corners(&places, colour)
}

/// Two triangles that are a rectangle, from its first corner to its last, both of which face the front.
pub(crate) fn rectangle([left, top, right, bottom]: [f32; 4], colour: u32) -> Vec<Corner> {
    let (first, last) = ([left, top], [right, bottom]);
    let (below, beside) = ([left, bottom], [right, top]);
    corners(&[first, below, beside, beside, below, last], colour)
}

/// All of a canvas.
pub(crate) fn whole_area(colour: u32) -> Vec<Corner> {
    let end = SIZE as f32;
    rectangle([0.0, 0.0, end, end], colour)
}
