// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a sampler returns of a flat image ("Texel Input Operations", "Wrapping Operation", "Texel Filtering").

use crate::lab::Form;
use ash::vk;
use ash::vk::SamplerAddressMode as Mode;

/// Texels across the image that everything is tried with.
pub(super) const SIZE: [u32; 2] = [8, 4];
/// Its levels.
pub(super) const LEVELS: u32 = 4;

/// The image: bytes, so that every device filters it.
pub(super) const FORM: Form =
    Form::flat(vk::Format::R8G8B8A8_UNORM, SIZE[0], SIZE[1]).levels(LEVELS).sampled();

/// A texel.
pub(super) type Colour = [f32; 4];

/// The bytes of a texel of a level: each texel has its own.
fn bytes_at(level: u32, x: u32, y: u32) -> [u8; 4] {
    let place = x + 8 * y + 37 * level;
    [place * 29, place * 53 + 11, (place * 17) ^ 0xff, place * 7 + 100].map(|it| it as u8)
}

/// The bytes of all levels.
pub(super) fn levels() -> Vec<Vec<u8>> {
    let of_level = |level| {
        let [width, height, _] = FORM.extent_of(level);
        (0..height).flat_map(|y| (0..width).flat_map(move |x| bytes_at(level, x, y))).collect()
    };
    (0..LEVELS).map(of_level).collect()
}

/// How coordinates outside are taken, and the colour that is there if none is.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) mode: Mode,
    pub(super) border: Colour,
}

impl Edge {
    /// A texel of a level, at any numbers.
    pub(super) fn texel(&self, level: u32, x: i32, y: i32) -> Colour {
        let [width, height, _] = FORM.extent_of(level).map(u32::cast_signed);
        match (self.inside(x, width), self.inside(y, height)) {
            (Some(x), Some(y)) => bytes_at(level, x, y).map(|byte| f32::from(byte) / 255.0),
            _ => self.border,
        }
    }

    /// The number of a texel within so many; none is the border's.
    fn inside(&self, at: i32, size: i32) -> Option<u32> {
        let mirrored = |at: i32| if at >= 0 { at } else { -1 - at };
        let at = match self.mode {
            Mode::REPEAT => at.rem_euclid(size),
            Mode::MIRRORED_REPEAT => size - 1 - mirrored(at.rem_euclid(2 * size) - size),
            Mode::CLAMP_TO_EDGE => at.clamp(0, size - 1),
            Mode::MIRROR_CLAMP_TO_EDGE => mirrored(at).clamp(0, size - 1),
            _ => at,
        };
        (0..size).contains(&at).then_some(at.cast_unsigned())
    }

    /// The nearest texel to normalised coordinates.
    pub(super) fn nearest(&self, level: u32, [u, v]: [f32; 2]) -> Colour {
        let [width, height, _] = FORM.extent_of(level).map(|size| size as f32);
        self.texel(level, (u * width).floor() as i32, (v * height).floor() as i32)
    }

    /// The first of the four texels around normalised coordinates, and how far these are from it.
    pub(super) fn around(level: u32, [u, v]: [f32; 2]) -> ([i32; 2], [f32; 2]) {
        let [width, height, _] = FORM.extent_of(level).map(|size| size as f32);
        let at = [u * width - 0.5, v * height - 0.5];
        (at.map(|it| it.floor() as i32), at.map(|it| it - it.floor()))
    }

    /// The mean of the four texels around normalised coordinates, by how near each is.
    pub(super) fn linear(&self, level: u32, at: [f32; 2]) -> Colour {
        let ([x, y], [right, down]) = Self::around(level, at);
        let row = |y| mixed(self.texel(level, x, y), self.texel(level, x + 1, y), right);
        mixed(row(y), row(y + 1), down)
    }
}

/// A mean of two, by how near it is to the second.
pub(super) fn mixed(one: Colour, other: Colour, share: f32) -> Colour {
    std::array::from_fn(|part| one[part] * (1.0 - share) + other[part] * share)
}
