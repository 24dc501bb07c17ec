// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images of each shape, through a sampler of their own.

use super::apart::run;
use super::probe::{Place, plain, words};
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, bytes_of, require, same};
use ash::vk;
use ash::vk::ImageViewType as T;

pub(super) const CASES: &[Case] = &[
    case("sampler.shape.row", "a row is sampled by one coordinate", |lab| {
        let at = |[x, _, _]: [u32; 3]| [part(x, 9), 0.0, 0.0, 0.0];
        sampled(lab, (Form::row(REAL, 9), T::TYPE_1D), ("texture_1d<f32>", "q.x, 0.0"), at)
    }),
    case("sampler.shape.flat", "an image is sampled by two coordinates", |lab| {
        let at = |[x, y, _]: [u32; 3]| [part(x, 7), part(y, 5), 0.0, 0.0];
        sampled(lab, (Form::flat(REAL, 7, 5), T::TYPE_2D), ("texture_2d<f32>", "q.xy, 0.0"), at)
    }),
    case("sampler.shape.layers", "a layer is sampled by its number", |lab| {
        let at = |[x, y, z]: [u32; 3]| [part(x, 4), part(y, 3), z as f32, 0.0];
        let form = Form::flat(REAL, 4, 3).layers(5);
        let how = ("texture_2d_array<f32>", "q.xy, i32(q.z), 0.0");
        sampled(lab, (form, T::TYPE_2D_ARRAY), how, at)
    }),
    case("sampler.shape.solid", "planes are sampled by three coordinates", |lab| {
        let at = |[x, y, z]: [u32; 3]| [part(x, 4), part(y, 3), part(z, 6), 0.0];
        let form = Form::solid(REAL, [4, 3, 6]);
        sampled(lab, (form, T::TYPE_3D), ("texture_3d<f32>", "q.xyz, 0.0"), at)
    }),
    case("sampler.shape.cube", "a cube is sampled by directions", |lab| {
        let at = |[x, y, z]: [u32; 3]| direction(z, part(x, 4), part(y, 4));
        sampled(lab, (Form::cube(REAL, 4), T::CUBE), ("texture_cube<f32>", "q.xyz, 0.0"), at)
    }),
    case("sampler.shape.cubes", "one of several cubes is sampled by its number", |lab| {
        lab.needs("imageCubeArray", lab.features().core.image_cube_array)?;
        let at = |[x, y, z]: [u32; 3]| {
            let [right, up, back, _] = direction(z % 6, part(x, 4), part(y, 4));
            [right, up, back, (z / 6) as f32]
        };
        let form = Form::cube(REAL, 4).layers(18);
        let how = ("texture_cube_array<f32>", "q.xyz, i32(q.w), 0.0");
        sampled(lab, (form, T::CUBE_ARRAY), how, at)
    }),
    case("sampler.shape.unnormalised", "coordinates may count texels", unnormalised),
    case("sampler.shape.sizes", "a shader is told how many layers and planes there are", sizes),
];

const REAL: vk::Format = vk::Format::R32_SFLOAT;

/// The middle of a texel.
fn part(texel: u32, size: u32) -> f32 {
    (texel as f32 + 0.5) / size as f32
}

/// The direction to a place of a cube's face ("Cube Map Face Selection").
fn direction(face: u32, s: f32, t: f32) -> Place {
    let (s, t) = (2.0 * s - 1.0, 2.0 * t - 1.0);
    let [x, y, z] = match face {
        0 => [1.0, -t, -s],
        1 => [-1.0, -t, s],
        2 => [s, 1.0, t],
        3 => [s, -1.0, -t],
        4 => [s, -t, 1.0],
        _ => [-s, -t, -1.0],
    };
    [x, y, z, 0.0]
}

/// Samples each texel of an image whose texels are their own numbers.
fn sampled(
    lab: &Lab,
    (form, view): (Form, T),
    (kind, arguments): (&str, &str),
    at: impl Fn([u32; 3]) -> Place,
) -> Outcome {
    let [width, height, depth] = form.extent;
    let texels = width * height * depth * form.layers;
    let place =
        |number: u32| at([number % width, number / width % height, number / width / height]);
    let places: Vec<_> = (0..texels).map(place).collect();
    seen(lab, (form, view), (kind, arguments), (plain(), &places))
}

/// Samples places, which must be the texels in their order.
fn seen(
    lab: &Lab,
    (form, view): (Form, T),
    (kind, arguments): (&str, &str),
    (sampler, places): (vk::SamplerCreateInfo<'_>, &[Place]),
) -> Outcome {
    let gpu = lab.gpu()?;
    let numbers: Vec<u32> = (0..places.len()).map(|number| (number as f32).to_bits()).collect();
    let image = gpu.image_of(form.sampled(), &[bytes_of(&numbers)])?;
    let body = format!(
        "let q = bitcast<vec4<f32>>(p);
        return bitcast<vec4<u32>>(textureSampleLevel(image, how, {arguments}));"
    );
    let pair = (gpu.view(image.look(view))?, gpu.sampler(sampler)?);
    let seen = run(&gpu, (kind, &body), pair, &words(places))?;
    for (number, texel) in seen.chunks(4).enumerate() {
        let texel: Vec<_> = texel.iter().map(|word| f32::from_bits(*word)).collect();
        require!(texel == [number as f32, 0.0, 0.0, 1.0], "texel {number} is {texel:?}");
    }
    Ok(())
}

fn unnormalised(lab: &Lab) -> Outcome {
    let sampler = plain().unnormalized_coordinates(true).max_lod(0.0);
    let places: Vec<_> =
        (0..35).map(|at| [(at % 7) as f32 + 0.25, (at / 7) as f32 + 0.75, 0.0, 0.0]).collect();
    let how = ("texture_2d<f32>", "q.xy, 0.0");
    seen(lab, (Form::flat(REAL, 7, 5), T::TYPE_2D), how, (sampler, &places))
}

fn sizes(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let mut told = Vec::new();
    for (form, view, kind, body) in [
        (
            Form::flat(REAL, 9, 6).levels(3).layers(5),
            T::TYPE_2D_ARRAY,
            "texture_2d_array<f32>",
            "return vec4<u32>(textureDimensions(image, 1), textureNumLayers(image), textureNumLevels(image));",
        ),
        (
            Form::solid(REAL, [9, 6, 4]).levels(2),
            T::TYPE_3D,
            "texture_3d<f32>",
            "return vec4<u32>(textureDimensions(image, 1), textureNumLevels(image));",
        ),
        (
            Form::cube(REAL, 8).levels(2),
            T::CUBE,
            "texture_cube<f32>",
            "return vec4<u32>(textureDimensions(image, 0), textureNumLevels(image), 0u);",
        ),
    ] {
        let image = gpu.image(form.sampled())?;
        gpu.run(|commands| {
            commands.ready(&[image]);
        })?;
        let pair = (gpu.view(image.look(view))?, gpu.sampler(plain())?);
        told.push(run(&gpu, (kind, body), pair, &[0; 4])?);
    }
    same!(told, [[4, 3, 5, 3], [4, 3, 2, 2], [8, 8, 2, 0]]);
    Ok(())
}
