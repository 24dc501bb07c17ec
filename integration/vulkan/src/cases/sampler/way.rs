// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ways to look at an image: single texels, four at once, with offsets, its sizes.

use super::model::{Colour, Edge, FORM, LEVELS};
use super::probe::{
    BLENDED, EXACT, FETCH, GATHER_FIRST, GATHER_OFFSET, GATHER_THIRD, LOD, OFFSET, Place, SIZES,
    linear, near, plain, seen,
};
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("sampler.way.fetch", "each texel of each level is fetched by its numbers", fetch),
    case(
        "sampler.way.sizes",
        "a shader is told the size of each level, and how many there are",
        sizes,
    ),
    case(
        "sampler.way.gather",
        "a component of four texels is gathered, against the clock",
        |lab| gathered(lab, GATHER_FIRST, 0, [0, 0]),
    ),
    case("sampler.way.gather-third", "the third component is gathered", |lab| {
        gathered(lab, GATHER_THIRD, 2, [0, 0])
    }),
    case("sampler.way.gather-offset", "four texels are gathered at an offset", |lab| {
        gathered(lab, GATHER_OFFSET, 1, [-3, 2])
    }),
    case("sampler.way.offset", "an offset counts texels of the level that is taken", offset),
    case(
        "sampler.way.anisotropic",
        "a sampler with anisotropy takes what others do where nothing is slanted",
        slanted,
    ),
];

const EDGE: Edge = Edge { mode: vk::SamplerAddressMode::REPEAT, border: [0.0; 4] };

fn repeated(of: vk::SamplerCreateInfo<'static>) -> vk::SamplerCreateInfo<'static> {
    of.address_mode_u(EDGE.mode).address_mode_v(EDGE.mode)
}

fn fetch(lab: &Lab) -> Outcome {
    let mut all = Vec::new();
    for level in 0..LEVELS {
        let [width, height, _] = FORM.extent_of(level);
        all.extend((0..height).flat_map(|y| (0..width).map(move |x| (level, x as i32, y as i32))));
    }
    let place = |(level, x, y): &(u32, i32, i32)| [*x as f32, *y as f32, *level as f32, 0.0];
    let places: Vec<Place> = all.iter().map(place).collect();
    let expected: Vec<_> = all.iter().map(|(level, x, y)| EDGE.texel(*level, *x, *y)).collect();
    near(&seen(lab, plain(), FETCH, &places)?, &expected, EXACT)
}

fn sizes(lab: &Lab) -> Outcome {
    let places: Vec<Place> = (0..LEVELS).map(|level| [0.0, 0.0, level as f32, 0.0]).collect();
    let expected = (0..LEVELS).map(|level| {
        let [width, height, _] = FORM.extent_of(level).map(|size| size as f32);
        [width, height, LEVELS as f32, 0.0]
    });
    near(&seen(lab, plain(), SIZES, &places)?, &expected.collect::<Vec<_>>(), 0.0)
}

/// Places that are no texel's middle or edge.
fn places() -> Vec<Place> {
    let across = |size: i32| (-size..2 * size).map(move |at| (at as f32 + 0.75) / size as f32);
    across(4).flat_map(|v| across(8).map(move |u| [u, v, 0.0, 0.0])).collect()
}

fn gathered(lab: &Lab, way: u32, component: usize, [right, down]: [i32; 2]) -> Outcome {
    let of = |place: &Place| -> Colour {
        let ([x, y], _) = Edge::around(0, [place[0], place[1]]);
        let (x, y) = (x + right, y + down);
        let corners = [(x, y + 1), (x + 1, y + 1), (x + 1, y), (x, y)];
        corners.map(|(x, y)| EDGE.texel(0, x, y)[component])
    };
    let places = places();
    let expected: Vec<_> = places.iter().map(of).collect();
    near(&seen(lab, repeated(linear()), way, &places)?, &expected, EXACT)
}

fn offset(lab: &Lab) -> Outcome {
    for (sampler, level) in [(plain(), 0), (plain(), 1), (linear(), 0), (linear(), 1)] {
        let places = places().into_iter().map(|[u, v, ..]| [u, v, level as f32, 0.0]);
        let places: Vec<Place> = places.collect();
        let [width, height, _] = FORM.extent_of(level).map(|size| size as f32);
        let is_linear = sampler.min_filter == vk::Filter::LINEAR;
        let expected = places.iter().map(|[u, v, ..]| {
            let at = [u + 3.0 / width, v - 2.0 / height];
            if is_linear { EDGE.linear(level, at) } else { EDGE.nearest(level, at) }
        });
        let expected: Vec<_> = expected.collect();
        near(&seen(lab, repeated(sampler), OFFSET, &places)?, &expected, BLENDED)?;
    }
    Ok(())
}

fn slanted(lab: &Lab) -> Outcome {
    lab.needs("samplerAnisotropy", lab.features().core.sampler_anisotropy)?;
    let most = lab.description().properties.limits.max_sampler_anisotropy;
    let sampler = repeated(linear()).anisotropy_enable(true).max_anisotropy(most.min(4.0));
    let places = places();
    let expected: Vec<_> = places.iter().map(|[u, v, ..]| EDGE.linear(0, [*u, *v])).collect();
    near(&seen(lab, sampler, LOD, &places)?, &expected, BLENDED)
}
