// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which levels a sampler takes ("Level-of-Detail Operation", "Image Level(s) Selection").

use super::model::{Colour, Edge, FORM, LEVELS, levels, mixed};
use super::probe::{
    BLENDED, EXACT, FETCH, GRADIENT, LOD, Place, linear, near, plain, seen, seen_of,
};
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, range};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("sampler.level.nearest", "the nearest level is taken, and the last beyond it", |lab| {
        by_level(lab, plain(), EXACT, at_level)
    }),
    case("sampler.level.linear", "the mean of two levels is taken", |lab| {
        by_level(lab, plain().mipmap_mode(vk::SamplerMipmapMode::LINEAR), BLENDED, between)
    }),
    case("sampler.level.least", "no level below the sampler's least is taken", |lab| {
        by_level(lab, plain().min_lod(1.75), EXACT, |lod| at_level(lod.max(1.75)))
    }),
    case("sampler.level.most", "no level above the sampler's greatest is taken", |lab| {
        by_level(lab, plain().max_lod(1.25), EXACT, |lod| at_level(lod.min(1.25)))
    }),
    case("sampler.level.bias", "a sampler's bias is added", |lab| {
        by_level(lab, plain().mip_lod_bias(1.0), EXACT, |lod| at_level(lod + 1.0))
    }),
    case("sampler.level.bias-below", "a negative bias is added", |lab| {
        by_level(lab, plain().mip_lod_bias(-1.0), EXACT, |lod| at_level(lod - 1.0))
    }),
    case(
        "sampler.level.bias-and-bounds",
        "a bias is added before the least and the greatest level hold",
        |lab| {
            let sampler = plain().mip_lod_bias(1.0).min_lod(1.75).max_lod(2.25);
            by_level(lab, sampler, EXACT, |lod| at_level((lod + 1.0).clamp(1.75, 2.25)))
        },
    ),
    case(
        "sampler.level.larger-and-smaller",
        "a filter of its own holds for texels that are larger than asked for",
        sides,
    ),
    case("sampler.level.gradient", "the level follows from how far neighbours are apart", gradient),
    case("sampler.level.of-view", "a view's first level is level 0", of_view),
];

const EDGE: Edge = Edge { mode: vk::SamplerAddressMode::CLAMP_TO_EDGE, border: [0.0; 4] };
/// Near the middle of a texel in each level.
const AT: [f32; 2] = [0.65, 0.35];

fn level(lod: f32) -> u32 {
    (lod.round().max(0.0) as u32).min(LEVELS - 1)
}

fn at_level(lod: f32) -> Colour {
    EDGE.nearest(level(lod), AT)
}

fn between(lod: f32) -> Colour {
    let lod = lod.clamp(0.0, (LEVELS - 1) as f32);
    let (below, above) = (lod.floor() as u32, lod.ceil() as u32);
    mixed(EDGE.nearest(below, AT), EDGE.nearest(above, AT), lod - lod.floor())
}

/// Numbers of levels, none halfway between two of them.
const LODS: [f32; 12] = [-3.0, -0.25, 0.0, 0.25, 0.75, 1.0, 1.25, 1.6875, 2.0, 2.75, 3.0, 9.0];

fn by_level(
    lab: &Lab,
    sampler: vk::SamplerCreateInfo<'_>,
    tolerance: f32,
    expected: impl Fn(f32) -> Colour,
) -> Outcome {
    let places = LODS.map(|lod| [AT[0], AT[1], lod, 0.0]);
    near(&seen(lab, sampler, LOD, &places)?, &LODS.map(expected), tolerance)
}

fn sides(lab: &Lab) -> Outcome {
    let at = [0.59375, 0.40625];
    let places: Vec<Place> = [-1.0, 0.0, 0.25, 1.0].map(|lod| [at[0], at[1], lod, 0.0]).to_vec();
    let larger = plain().mag_filter(vk::Filter::LINEAR);
    let expected =
        [EDGE.linear(0, at), EDGE.linear(0, at), EDGE.nearest(0, at), EDGE.nearest(1, at)];
    near(&seen(lab, larger, LOD, &places)?, &expected, BLENDED)?;
    let smaller = plain().min_filter(vk::Filter::LINEAR);
    let expected =
        [EDGE.nearest(0, at), EDGE.nearest(0, at), EDGE.linear(0, at), EDGE.linear(1, at)];
    near(&seen(lab, smaller, LOD, &places)?, &expected, BLENDED)
}

fn gradient(lab: &Lab) -> Outcome {
    // To the right nothing changes; downwards as many texels of the image's four rows, whose logarithm is the level.
    let place = |texels: f32| [AT[0], AT[1], 0.0, texels / 4.0];
    let places = [1.0, 2.0, 4.0, 8.0].map(place);
    let seen = seen(lab, plain(), GRADIENT, &places)?;
    near(&seen, &[0.0, 1.0, 2.0, 3.0].map(at_level), EXACT)?;
    near(&self::seen(lab, linear(), GRADIENT, &places[..1])?, &[EDGE.linear(0, AT)], 0.07)
}

fn of_view(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image_of(FORM, &levels())?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D).at(range([1, 2], [0, 1])))?;
    let pair = (view, gpu.sampler(plain())?);
    let places = [0.0, 1.0, 5.0].map(|lod| [AT[0], AT[1], lod, 0.0]);
    near(&seen_of(&gpu, pair, LOD, &places)?, &[1.0, 2.0, 2.0].map(at_level), EXACT)?;
    let places = [[3.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]];
    let expected = [EDGE.texel(1, 3, 1), EDGE.texel(2, 1, 0)];
    near(&seen_of(&gpu, pair, FETCH, &places)?, &expected, EXACT)
}
