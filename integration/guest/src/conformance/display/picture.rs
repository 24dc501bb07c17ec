// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a monitor must show of a source's picture, as the processor draws it from the definitions: colours of 8 bits, the
//! pointer over them, all of it turned, scaled and placed.

use super::lab::{pixels, surface};
use crate::canvas::{Canvas, nearest};
use crate::conformance::behaviour::Mismatch;
use bellhop_guest_umd::display::{Path, PixelFormat, Rotation, Scaling, Surface};
use bellhop_protocol::control::present::Rect;

/// A pointer over a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pointer<'a> {
    pub(super) width: u32,
    pub(super) height: u32,
    /// `A8R8G8B8`.
    pub(super) pixels: &'a [u32],
    /// Where its upper left corner lies.
    pub(super) at: (i32, i32),
}

/// The colours of a pixel, 8 bits each: of fewer bits the highest are repeated, of more the lowest are left out.
fn colour(format: PixelFormat, pixel: u32) -> u32 {
    let channel = |shift: u32, bits: u32| {
        let value = pixel >> shift & ((1 << bits) - 1);
        if bits >= 8 { value >> (bits - 8) } else { value << (8 - bits) | value >> (2 * bits - 8) }
    };
    let [red, green, blue] = match format {
        PixelFormat::R5G6B5 => [channel(11, 5), channel(5, 6), channel(0, 5)],
        PixelFormat::X2R10G10B10 => [channel(20, 10), channel(10, 10), channel(0, 10)],
        _ => [channel(16, 8), channel(8, 8), channel(0, 8)],
    };
    red << 16 | green << 8 | blue
}

/// The colours of a picture.
pub(super) fn in_colours(picture: &Canvas) -> Canvas {
    let Surface { width, height, format } = picture.surface;
    Canvas::drawn(surface(width, height), |x, y| colour(format, picture.at(x, y)))
}

/// The colours of the picture with this number.
pub(in crate::conformance) fn colours(on: Surface, number: u64) -> Result<Canvas, Mismatch> {
    Ok(in_colours(&Canvas::new(on, &pixels(on, number)?)?))
}

/// Nothing but black.
pub(super) fn black(width: u32, height: u32) -> Canvas {
    Canvas::drawn(surface(width, height), |_, _| 0)
}

/// Lays a pointer over a picture: each channel by its alpha, to the nearest value.
pub(super) fn with_pointer(picture: &Canvas, pointer: Pointer<'_>) -> Canvas {
    let Surface { width, height, .. } = picture.surface;
    Canvas::drawn(surface(width, height), |x, y| {
        let inside = |place: u32, start: i32, length: u32| {
            let place = i64::from(place) - i64::from(start);
            u32::try_from(place).ok().filter(|place| *place < length)
        };
        let under = picture.at(x, y);
        let column = inside(x, pointer.at.0, pointer.width);
        let row = inside(y, pointer.at.1, pointer.height);
        let (Some(column), Some(row)) = (column, row) else { return under };
        let over = pointer.pixels[(row * pointer.width + column) as usize];
        let alpha = f64::from(over >> 24) / 255.0;
        let mixed = |shift: u32| {
            let [over, under] = [over, under].map(|pixel| f64::from(pixel >> shift & 0xFF));
            ((over * alpha + under * (1.0 - alpha)).round() as u32) << shift
        };
        mixed(16) | mixed(8) | mixed(0)
    })
}

/// A quarter of a turn counter-clockwise: the last column becomes the first line.
fn turned_once(picture: &Canvas) -> Canvas {
    let Surface { width, height, .. } = picture.surface;
    Canvas::drawn(surface(height, width), |x, y| picture.at(width - 1 - y, x))
}

/// What a monitor shows of its source's picture on a path.
pub(super) fn on_monitor(picture: &Canvas, path: &Path) -> Canvas {
    let turns = match path.get().rotation {
        Rotation::ROTATE_90 => 1,
        Rotation::ROTATE_180 => 2,
        Rotation::ROTATE_270 => 3,
        _ => 0,
    };
    let turned = (0..turns).fold(picture.clone(), |picture, _| turned_once(&picture));
    let Surface { width, height, .. } = turned.surface;
    let (across, down) = (path.get().target_mode.width, path.get().target_mode.height);
    let (shown_width, shown_height) = match path.get().scaling {
        Scaling::STRETCHED => (across, down),
        // As high as the monitor, unless that is too wide.
        Scaling::ASPECT_RATIO_CENTERED_MAX if width * down <= across * height => {
            (width * down / height, down)
        }
        Scaling::ASPECT_RATIO_CENTERED_MAX => (across, height * across / width),
        _ => (width, height),
    };
    let (left, top) = ((across - shown_width) / 2, (down - shown_height) / 2);
    let place = Rect::new(left, top, left + shown_width, top + shown_height);
    Canvas::drawn(surface(across, down), |x, y| {
        let is_inside =
            (place.left..place.right).contains(&x) && (place.top..place.bottom).contains(&y);
        if is_inside { nearest(&turned, turned.rect(), place, x - left, y - top) } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_have_the_bits_of_their_formats() {
        for (format, pixel, expected) in [
            (PixelFormat::X8R8G8B8, 0xFF12_3456, 0x0012_3456),
            (PixelFormat::R5G6B5, 0xFFFF, 0x00FF_FFFF),
            (PixelFormat::R5G6B5, 8 << 11 | 16 << 5 | 4, 0x0042_4121),
            (PixelFormat::X2R10G10B10, 0xC000_0000 | 0x200 << 20 | 0x100 << 10 | 7, 0x0080_4001),
        ] {
            assert_eq!(colour(format, pixel), expected, "{pixel:#x}");
        }
    }

    #[test]
    fn a_picture_is_turned_counter_clockwise_and_the_pointer_is_mixed_in() {
        let picture = Canvas::drawn(surface(3, 2), |x, y| 3 * y + x + 1);
        assert_eq!(turned_once(&picture).pixels, [3, 6, 2, 5, 1, 4]);
        let pixels = [0xFF00_00AA, 0x0000_00FF, 0xFF00_00BB, 0x8000_00FF];
        let pointer = Pointer { width: 2, height: 2, pixels: &pixels, at: (1, -1) };
        assert_eq!(with_pointer(&picture, pointer).pixels, [1, 0xBB, 129, 4, 5, 6]);
    }
}
