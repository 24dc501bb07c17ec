// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the GPUs of a chain draw: a flight through a tunnel of bricks, which ends as it begins.
//!
//! A frame is a texture that is drawn again and again, the nearest and largest first, each behind the one before
//! (`STRETCH_RECT`, bilinear). So it takes work for each pixel, needs no kernels, and is exact: the processor computes
//! the same pixels from the definition.

use crate::canvas::{Canvas, bilinear};
use bellhop_guest_umd::display::{PixelFormat, Surface};
use bellhop_guest_umd::{CommandBuffer, Error};
use bellhop_protocol::control::present::Rect;
use bellhop_protocol::packet::surface::{StretchFilter, StretchRect};
use std::f64::consts::TAU;

/// The pixels of all surfaces.
/// The pixels of all surfaces.
pub(super) const FORMAT: PixelFormat = PixelFormat::X8R8G8B8;
/// Bytes of a pixel.
pub(super) const PIXEL: u32 = 4;

/// Pixels of a texture's sides.
const TEXTURE: u32 = 64;
/// Bytes of a texture.
const TEXTURE_SIZE: u64 = (TEXTURE * TEXTURE * PIXEL) as u64;
/// How dark textures are: the darkest first.
const SHADES: u32 = 8;
/// There are two kinds of bricks, which alternate.
const KINDS: u32 = 2;

/// A level's size beside the one before it.
const RATIO: f64 = 0.85;
/// The size of the first level at the first frame, beside the frame's; later it is larger.
const NEAREST: f64 = 1.4;
/// Smaller levels are not drawn.
const FARTHEST: f64 = 0.02;
/// How far the way sways to each side, beside the frame's width.
const SWAY: f64 = 0.17;

/// The most bytes of commands that a frame takes: 30 levels, and as much again for what is done with the frame.
pub(super) const COMMANDS: usize = 3072;

/// A flight of some frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tunnel {
    /// Pixels of a line, at most 4,096.
    pub(super) width: u32,
    /// Lines, at most 4,096.
    pub(super) height: u32,
    /// Frames.
    pub(super) frames: u32,
}

/// A texture's place in a frame, some of which may be outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    texture: u32,
    left: i32,
    top: i32,
    width: u16,
    height: u16,
}

impl Level {
    /// The part of it that is in a frame of this size: left, top, right and bottom in pixels of the level.
    fn clip(&self, width: u32, height: u32) -> Option<[u16; 4]> {
        let side = |start: i32, length: u16, frame: u32| {
            let first = (-start).clamp(0, length.into());
            let end = (frame as i32 - start).clamp(0, length.into());
            // Both are at most the length.
            (first < end).then_some((first as u16, end as u16))
        };
        let (left, right) = side(self.left, self.width, width)?;
        let (top, bottom) = side(self.top, self.height, height)?;
        Some([left, top, right, bottom])
    }
}

/// A pixel of a texture: bricks in two colours along its four sides, darker towards its middle.
fn texel(texture: u32, x: u32, y: u32) -> u32 {
    let (kind, shade) = (texture % KINDS, texture / KINDS + 1);
    let edge = x.min(y).min(TEXTURE - 1 - x).min(TEXTURE - 1 - y);
    let is_across = edge == y || edge == TEXTURE - 1 - y;
    let along = if is_across { x } else { y } + 4 * kind;
    let is_joint = along.is_multiple_of(8) || edge == 0;
    let colour: [u32; 3] = match (is_joint, kind) {
        (true, _) => [40, 38, 36],
        (false, 0) => [226, 120, 66],
        (false, _) => [70, 150, 190],
    };
    let light = shade * (100 - (edge * 4).min(60));
    colour.iter().fold(0, |pixel, channel| (pixel << 8) | (channel * light / (SHADES * 100)))
}

impl Tunnel {
    /// The size and the pixels of a frame.
    pub(super) fn surface(self) -> Surface {
        Surface { width: self.width, height: self.height, format: FORMAT }
    }

    /// Bytes of a frame without gaps between its lines.
    pub(super) fn frame_size(self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * u64::from(PIXEL)
    }

    /// Bytes from one line to the next of an image that a GPU draws on. A level is wider than a frame, and no wider
    /// than this.
    pub(super) fn pitch(self) -> u32 {
        2 * self.width * PIXEL
    }

    /// Where the first pixel of an image is in its memory. A level begins outside of a frame, above it and left of it, which
    /// is an address before the image's own: by less than half of its height.
    pub(super) fn origin(self) -> u64 {
        u64::from(self.height / 2 + 2) * u64::from(self.pitch())
    }

    /// Bytes of an image that a GPU draws on.
    pub(super) fn image_size(self) -> u64 {
        self.origin() + u64::from(self.height) * u64::from(self.pitch())
    }

    /// The levels of a frame, the nearest first.
    fn levels(self, frame: u32) -> impl Iterator<Item = Level> {
        let turn = f64::from(frame) / f64::from(self.frames);
        let [width, height] = [self.width, self.height].map(f64::from);
        let level = move |number: u32| {
            // At the end, each level is where the one before the one before it has been.
            let depth = f64::from(number) - f64::from(KINDS) * turn;
            let scale = NEAREST * RATIO.powf(depth);
            let way = TAU * turn + 0.16 * depth;
            let sway = SWAY * (1.0 - scale.min(1.0));
            let middle = [width * (0.5 + sway * way.sin()), height * (0.5 + sway * way.cos())];
            let size = [width * scale, height * scale].map(|side| side.round().max(1.0));
            let start = |axis: usize| (middle[axis] - size[axis] / 2.0).round() as i32;
            let bright = scale.min(1.0).sqrt() * f64::from(SHADES - 1);
            let level = Level {
                texture: bright.round() as u32 * KINDS + number % KINDS,
                left: start(0),
                top: start(1),
                width: size[0] as u16,
                height: size[1] as u16,
            };
            (scale, level)
        };
        let levels = (0..).map(level).take_while(|(scale, _)| *scale >= FARTHEST);
        levels.map(|(_, level)| level)
    }

    /// The bytes of all textures.
    pub(super) fn textures() -> Vec<u8> {
        let pixels = Self::canvases().into_iter().flat_map(|texture| texture.pixels);
        pixels.flat_map(u32::to_le_bytes).collect()
    }

    fn canvases() -> Vec<Canvas> {
        let surface = Surface { width: TEXTURE, height: TEXTURE, format: FORMAT };
        let texture = |number| Canvas::drawn(surface, move |x, y| texel(number, x, y));
        (0..KINDS * SHADES).map(texture).collect()
    }

    /// Appends what draws a frame on an image.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn draw(
        self,
        commands: &mut CommandBuffer,
        frame: u32,
        textures: u64,
        image: u64,
    ) -> Result<(), Error> {
        for level in self.levels(frame) {
            let Some(clip) = level.clip(self.width, self.height) else { continue };
            let texture = textures + u64::from(level.texture) * TEXTURE_SIZE;
            let place = i64::from(level.top) * i64::from(self.pitch())
                + i64::from(level.left) * i64::from(PIXEL);
            let sides = [level.width, level.height];
            let stretch = StretchRect::new(
                (texture, TEXTURE * PIXEL, [TEXTURE as u16; 2]),
                (image.wrapping_add_signed(place), self.pitch(), sides),
                FORMAT,
                StretchFilter::BILINEAR,
            );
            commands.stretch_rect(&stretch.clipped(clip))?;
        }
        Ok(())
    }

    /// The pixels of all frames, as the processor computes them.
    pub(super) fn render(self, mut advance: impl FnMut()) -> Vec<Canvas> {
        let textures = Self::canvases();
        let frame = |frame| {
            advance();
            self.render_with(&textures, frame)
        };
        (0..self.frames).map(frame).collect()
    }

    /// The pixels of one frame.
    pub(super) fn render_one(self, frame: u32) -> Canvas {
        self.render_with(&Self::canvases(), frame)
    }

    fn render_with(self, textures: &[Canvas], frame: u32) -> Canvas {
        let mut canvas = Canvas::drawn(self.surface(), |_, _| 0);
        for level in self.levels(frame) {
            let texture = &textures[level.texture as usize];
            let whole = Rect::new(0, 0, level.width.into(), level.height.into());
            let Some(clip) = level.clip(self.width, self.height) else { continue };
            let [left, top, right, bottom] = clip.map(u32::from);
            for y in top..bottom {
                for x in left..right {
                    let pixel = bilinear(texture, texture.rect(), whole, x, y);
                    let at = |start: i32, offset: u32| (start + offset as i32) as u32;
                    canvas.set(at(level.left, x), at(level.top, y), pixel);
                }
            }
        }
        canvas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUNNEL: Tunnel = Tunnel { width: 160, height: 90, frames: 12 };

    #[test]
    fn the_first_level_covers_a_frame_and_none_is_wider_than_an_image_s_lines() {
        for frame in 0..TUNNEL.frames {
            let levels: Vec<_> = TUNNEL.levels(frame).collect();
            for Level { left, top, .. } in &levels {
                let place = i64::from(*top) * i64::from(TUNNEL.pitch()) + i64::from(*left) * 4;
                assert!(
                    TUNNEL.origin().checked_add_signed(place).is_some(),
                    "{frame}: {left}, {top}"
                );
            }
            let Level { left, top, width, height, .. } = levels[0];
            assert!(left <= 0 && left + i32::from(width) >= 160, "{frame}: {:?}", levels[0]);
            assert!(top <= 0 && top + i32::from(height) >= 90, "{frame}: {:?}", levels[0]);
            assert!(levels.iter().all(|level| u32::from(level.width) * PIXEL <= TUNNEL.pitch()));
            // A packet of 48 bytes for each.
            assert!(levels.len() * 48 <= COMMANDS / 2, "{} levels", levels.len());
        }
    }

    #[test]
    fn it_ends_as_it_begins() {
        let (first, after): (Vec<_>, Vec<_>) =
            (TUNNEL.levels(0).collect(), TUNNEL.levels(TUNNEL.frames).collect());
        assert_eq!(first, after[KINDS as usize..]);
    }

    #[test]
    fn a_level_is_clipped_to_the_frame() {
        let level = Level { texture: 0, left: -5, top: 80, width: 20, height: 20 };
        assert_eq!(level.clip(160, 90), Some([5, 0, 20, 10]));
        assert_eq!(Level { top: 90, ..level }.clip(160, 90), None);
        assert_eq!(Level { left: -20, ..level }.clip(160, 90), None);
    }
}
