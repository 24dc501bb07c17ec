// SPDX-License-Identifier: MIT OR Apache-2.0

//! What extensions say of samplers: borders of any colour and in another order, and cubes with seams.

use super::address::places;
use super::apart::run;
use super::model::{Edge, FORM, levels};
use super::probe::{BLENDED, EXACT, LOD, colours, linear, near, plain, seen, words};
use crate::case::{Case, case};
use crate::lab::{Form, bytes_of, require};
use ash::vk::{self, ComponentSwizzle as C, SamplerAddressMode as Mode};

pub(super) const CASES: &[Case] = &[
    case("sampler.border.custom", "outside there is a colour of the program's", |lab| {
        let can = lab.extended()?.custom_border_color;
        lab.needs("customBorderColorWithoutFormat", can.custom_border_color_without_format)?;
        let colour = [0.25, 0.5, 0.75, 0.125];
        let mut custom = vk::SamplerCustomBorderColorCreateInfoEXT::default()
            .custom_border_color(vk::ClearColorValue { float32: colour });
        let sampler = bordered(vk::BorderColor::FLOAT_CUSTOM_EXT).push_next(&mut custom);
        let (edge, places) = (Edge { mode: Mode::CLAMP_TO_BORDER, border: colour }, places(0.5));
        let expected = places.iter().map(|[u, v, ..]| edge.nearest(0, [*u, *v]));
        // A device may keep it as its format has it.
        near(&seen(lab, sampler, LOD, &places)?, &expected.collect::<Vec<_>>(), BLENDED)
    }),
    case("sampler.border.order", "a border's components are in the order of the view's", |lab| {
        let can = lab.extended()?.border_color_swizzle.border_color_swizzle;
        lab.needs("borderColorSwizzle", can)?;
        let order = [C::A, C::ZERO, C::ONE, C::B];
        let [r, g, b, a] = order;
        let mut mapping = vk::SamplerBorderColorComponentMappingCreateInfoEXT::default()
            .components(vk::ComponentMapping { r, g, b, a });
        let sampler = bordered(vk::BorderColor::FLOAT_OPAQUE_BLACK).push_next(&mut mapping);
        let gpu = lab.gpu()?;
        let look = gpu.image_of(FORM, &levels())?.look(vk::ImageViewType::TYPE_2D).order(order);
        let pair = (gpu.view(look)?, gpu.sampler(sampler)?);
        let seen = super::probe::seen_of(&gpu, pair, LOD, &[[-0.5, 0.5, 0.0, 0.0]])?;
        near(&seen, &[[1.0, 0.0, 1.0, 0.0]], EXACT)
    }),
    case("sampler.seams", "a cube's face ends at its edge where there are seams", |lab| {
        let can = lab.extended()?.non_seamless_cube_map.non_seamless_cube_map;
        lab.needs("nonSeamlessCubeMap", can)?;
        lab.needs_feature(REAL, vk::FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR)?;
        let gpu = lab.gpu()?;
        let numbers: Vec<u32> = (0..96).map(|number| (number as f32).to_bits()).collect();
        let image = gpu.image_of(Form::cube(REAL, 4).sampled(), &[bytes_of(&numbers)])?;
        let view = gpu.view(image.look(vk::ImageViewType::CUBE))?;
        // A quarter of a texel from the edge of the first face to the fifth's, in the middle of its second row.
        let place = [[1.0, 0.25, 0.875, 0.0]];
        let body = "return bitcast<vec4<u32>>(
            textureSampleLevel(image, how, bitcast<vec4<f32>>(p).xyz, 0.0));";
        let mut of = [0.0; 2];
        for (seen, flags) in of
            .iter_mut()
            .zip([vk::SamplerCreateFlags::NON_SEAMLESS_CUBE_MAP_EXT, Default::default()])
        {
            let sampler = gpu.sampler(linear().max_lod(0.0).flags(flags))?;
            let texel = run(&gpu, ("texture_cube<f32>", body), (view, sampler), &words(&place))?;
            *seen = colours(&texel)[0][0];
        }
        // The first texel of the second row, and a mean of that and one that is three faces on.
        require!(of[0] == 4.0 && of[1] > 5.0, "{of:?}");
        Ok(())
    }),
];

const REAL: vk::Format = vk::Format::R32_SFLOAT;

/// A sampler of nearest texels with a border.
fn bordered(border: vk::BorderColor) -> vk::SamplerCreateInfo<'static> {
    let mode = Mode::CLAMP_TO_BORDER;
    plain().address_mode_u(mode).address_mode_v(mode).address_mode_w(mode).border_color(border)
}
