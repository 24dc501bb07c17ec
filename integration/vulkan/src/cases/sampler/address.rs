// SPDX-License-Identifier: MIT OR Apache-2.0

//! Coordinates within an image and outside, with both filters.

use super::model::{Colour, Edge, SIZE};
use super::probe::{BLENDED, EXACT, LOD, Place, linear, near, plain, seen};
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome};
use ash::vk;
use ash::vk::BorderColor as Border;
use ash::vk::SamplerAddressMode as Mode;

/// Declares two cases for each mode: its name, what is taken outside, the mode, the border and its colour.
macro_rules! cases {
    ($($name:literal, $what:literal, $mode:ident, $border:ident, $colour:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            case(
                concat!("sampler.nearest.", $name),
                concat!("the nearest texel is taken; outside, ", $what),
                |lab| nearest(lab, Mode::$mode, Border::$border, $colour),
            ),
            case(
                concat!("sampler.linear.", $name),
                concat!("the mean of four texels is taken; outside, ", $what),
                |lab| mean(lab, Mode::$mode, Border::$border, $colour),
            ),
        )*];
    };
}

cases! {
    "repeat", "the image again", REPEAT, FLOAT_TRANSPARENT_BLACK, [0.0; 4];
    "mirrored", "the image and its mirror in turn", MIRRORED_REPEAT, FLOAT_TRANSPARENT_BLACK, [0.0; 4];
    "edge", "its edge", CLAMP_TO_EDGE, FLOAT_TRANSPARENT_BLACK, [0.0; 4];
    "mirrored-edge", "its mirror once, and the edge", MIRROR_CLAMP_TO_EDGE, FLOAT_TRANSPARENT_BLACK, [0.0; 4];
    "transparent", "nothing", CLAMP_TO_BORDER, FLOAT_TRANSPARENT_BLACK, [0.0; 4];
    "black", "black", CLAMP_TO_BORDER, FLOAT_OPAQUE_BLACK, [0.0, 0.0, 0.0, 1.0];
    "white", "white", CLAMP_TO_BORDER, FLOAT_OPAQUE_WHITE, [1.0; 4];
}

/// Places a part of a texel beside the edges of texels, within the image and one and a half images beyond.
pub(super) fn places(part: f32) -> Vec<Place> {
    let [width, height] = SIZE.map(|size| size as i32);
    let across =
        |size: i32| (-size - 3..2 * size + 3).map(move |at| (at as f32 + part) / size as f32);
    across(height).flat_map(|v| across(width).map(move |u| [u, v, 0.0, 0.0])).collect()
}

fn information(
    lab: &Lab,
    of: vk::SamplerCreateInfo<'static>,
    mode: Mode,
    border: Border,
) -> Outcome<vk::SamplerCreateInfo<'static>> {
    if mode == Mode::MIRROR_CLAMP_TO_EDGE {
        let can = lab.features().since_1_2.sampler_mirror_clamp_to_edge;
        lab.needs("samplerMirrorClampToEdge", can)?;
    }
    Ok(of.address_mode_u(mode).address_mode_v(mode).border_color(border))
}

fn nearest(lab: &Lab, mode: Mode, border: Border, colour: Colour) -> Outcome {
    let edge = Edge { mode, border: colour };
    for part in [0.25, 0.5, 0.875] {
        let places = places(part);
        let seen = seen(lab, information(lab, plain(), mode, border)?, LOD, &places)?;
        let expected = places.iter().map(|[u, v, ..]| edge.nearest(0, [*u, *v]));
        near(&seen, &expected.collect::<Vec<_>>(), EXACT)?;
    }
    Ok(())
}

fn mean(lab: &Lab, mode: Mode, border: Border, colour: Colour) -> Outcome {
    let edge = Edge { mode, border: colour };
    // Sixteenths, of which every device has the weights.
    for part in [0.5, 0.5625, 0.25, 0.9375] {
        let places = places(part);
        let seen = seen(lab, information(lab, linear(), mode, border)?, LOD, &places)?;
        let expected = places.iter().map(|[u, v, ..]| edge.linear(0, [*u, *v]));
        near(&seen, &expected.collect::<Vec<_>>(), BLENDED)?;
    }
    Ok(())
}
