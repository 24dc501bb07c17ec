// SPDX-License-Identifier: MIT OR Apache-2.0

//! Views whose components come in another order ("Component Swizzle").

use super::model::{Edge, FORM, levels};
use super::probe::{EXACT, FETCH, GATHER_THIRD, LOD, linear, near, plain, seen_of};
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome};
use ash::vk;
use ash::vk::ComponentSwizzle as C;

pub(super) const CASES: &[Case] = &[
    case("sampler.order.reversed", "a view has components in reverse", |lab| {
        ordered(lab, [C::A, C::B, C::G, C::R], |[r, g, b, a]| [a, b, g, r])
    }),
    case("sampler.order.constants", "a view has zero and one for components", |lab| {
        ordered(lab, [C::ONE, C::ZERO, C::IDENTITY, C::ONE], |[_, _, b, _]| [1.0, 0.0, b, 1.0])
    }),
    case("sampler.order.repeated", "a view has one component several times", |lab| {
        ordered(lab, [C::G, C::G, C::R, C::IDENTITY], |[r, g, _, a]| [g, g, r, a])
    }),
    case("sampler.order.gathered", "what is gathered is a component of the view", gathered),
];

const EDGE: Edge = Edge { mode: vk::SamplerAddressMode::CLAMP_TO_EDGE, border: [0.0; 4] };

fn ordered(lab: &Lab, order: [C; 4], expected: fn([f32; 4]) -> [f32; 4]) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image_of(FORM, &levels())?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D).order(order))?;
    let pair = (view, gpu.sampler(plain())?);
    let texel = expected(EDGE.texel(0, 3, 2));
    near(&seen_of(&gpu, pair, FETCH, &[[3.0, 2.0, 0.0, 0.0]])?, &[texel], EXACT)?;
    near(&seen_of(&gpu, pair, LOD, &[[3.5 / 8.0, 2.5 / 4.0, 0.0, 0.0]])?, &[texel], EXACT)
}

fn gathered(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image_of(FORM, &levels())?;
    let look = image.look(vk::ImageViewType::TYPE_2D).order([C::ZERO, C::ZERO, C::A, C::ZERO]);
    let pair = (gpu.view(look)?, gpu.sampler(linear())?);
    let seen = seen_of(&gpu, pair, GATHER_THIRD, &[[0.5, 0.5, 0.0, 0.0]])?;
    let corners = [(3, 2), (4, 2), (4, 1), (3, 1)];
    near(&seen, &[corners.map(|(x, y)| EDGE.texel(0, x, y)[3])], EXACT)
}
