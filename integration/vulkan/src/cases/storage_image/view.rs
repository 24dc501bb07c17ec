// SPDX-License-Identifier: MIT OR Apache-2.0

//! Views of parts of images, and of images as another format.

use super::shader::Shader;
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Look, Outcome, range, same};
use ash::vk;
use ash::vk::ImageViewType as T;

pub(super) const CASES: &[Case] = &[
    case("storage-image.view.level", "a view of one level stores there alone", |lab| {
        one_part(lab, FORM.levels(3), 1, 0)
    }),
    case("storage-image.view.layer", "a view of one layer stores there alone", |lab| {
        one_part(lab, FORM.layers(4), 0, 2)
    }),
    case(
        "storage-image.view.level-of-a-layer",
        "a view of a level of a layer stores there alone",
        |lab| one_part(lab, FORM.levels(3).layers(4), 2, 3),
    ),
    case(
        "storage-image.view.other-format",
        "a view of another format has the bits of the image's",
        other_format,
    ),
    case(
        "storage-image.view.srgb",
        "an image of colours is stored in through a view that does not encode",
        srgb,
    ),
    case("storage-image.view.two", "what is stored through a view is loaded through another", two),
];

const FORM: Form = Form::flat(vk::Format::R32_UINT, 16, 8).storage();

/// Stores `7 + x + 100 * y` in each texel of words.
const NUMBERS: &str = "@group(0) @binding(1) var image: texture_storage_2d<r32uint, write>;
    @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        words[0] = 1u;
        textureStore(image, id.xy, vec4<u32>(7u + id.x + 100u * id.y, 0u, 0u, 0u));
    }";

fn numbers(width: u32, height: u32) -> impl Iterator<Item = u32> {
    (0..height).flat_map(move |y| (0..width).map(move |x| 7 + x + 100 * y))
}

fn one_part(lab: &Lab, form: Form, level: u32, layer: u32) -> Outcome {
    let gpu = lab.gpu()?;
    let mut levels: Vec<Vec<u32>> =
        (0..form.levels).map(|level| vec![9; form.bytes(level) / 4]).collect();
    let bytes: Vec<_> = levels.iter().map(|level| crate::lab::bytes_of(level)).collect();
    let image = gpu.image_of(form, &bytes)?;
    let look = image.look(T::TYPE_2D).at(range([level, 1], [layer, 1]));
    let [width, height, _] = form.extent_of(level);
    let shader = Shader::wgsl(&gpu, NUMBERS, &gpu.buffer(1)?, &[gpu.view(look)?])?;
    shader.run(&gpu, [width, height, 1])?;
    let first = (layer * width * height) as usize;
    for (place, word) in levels[level as usize].iter_mut().skip(first).zip(numbers(width, height)) {
        *place = word;
    }
    for (level, expected) in (0..).zip(&levels) {
        same!(gpu.level_words(image, level)?, *expected);
    }
    Ok(())
}

/// The bytes of an image in each of whose texels a shader stored the bytes 0, 51, 255 and 102, through a view of `rgba8`.
fn as_bytes(lab: &Lab, form: Form, look: impl Fn(Look) -> Look) -> Outcome<Vec<u8>> {
    let gpu = lab.gpu()?;
    let image = gpu.image(form)?;
    let source = "@group(0) @binding(1) var image: texture_storage_2d<rgba8unorm, write>;
        @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            words[0] = 1u;
            textureStore(image, id.xy, vec4<f32>(0.0, 0.2, 1.0, 0.4));
        }";
    let look = look(image.look(T::TYPE_2D).format(vk::Format::R8G8B8A8_UNORM));
    let shader = Shader::wgsl(&gpu, source, &gpu.buffer(1)?, &[gpu.view(look)?])?;
    gpu.run(|commands| {
        commands.ready(&[image]);
        shader.dispatch(commands, [16, 8, 1]);
    })?;
    gpu.level_bytes(image, 0)
}

fn other_format(lab: &Lab) -> Outcome {
    let form = FORM.flags(vk::ImageCreateFlags::MUTABLE_FORMAT);
    same!(as_bytes(lab, form, |look| look)?, [0, 51, 255, 102].repeat(128));
    Ok(())
}

fn srgb(lab: &Lab) -> Outcome {
    // The image may be used for what a view's format can, and a view for less than the image.
    let flags = vk::ImageCreateFlags::MUTABLE_FORMAT | vk::ImageCreateFlags::EXTENDED_USAGE;
    let form = Form { format: vk::Format::R8G8B8A8_SRGB, ..FORM.sampled() }.flags(flags);
    let bytes = as_bytes(lab, form, |look| look.usage(vk::ImageUsageFlags::STORAGE))?;
    same!(bytes, [0, 51, 255, 102].repeat(128));
    Ok(())
}

fn two(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image(FORM.flags(vk::ImageCreateFlags::MUTABLE_FORMAT))?;
    let seen = gpu.buffer(128)?;
    let load = "@group(0) @binding(1) var image: texture_storage_2d<r32sint, read>;
        @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            words[id.x + 16u * id.y] = bitcast<u32>(textureLoad(image, id.xy).x);
        }";
    let one = gpu.view(image.look(T::TYPE_2D))?;
    let other = gpu.view(image.look(T::TYPE_2D).format(vk::Format::R32_SINT))?;
    let store = Shader::wgsl(&gpu, NUMBERS, &gpu.buffer(1)?, &[one])?;
    let load = Shader::wgsl(&gpu, load, &seen, &[other])?;
    gpu.run(|commands| {
        commands.ready(&[image]);
        store.dispatch(commands, [16, 8, 1]);
        load.dispatch(commands, [16, 8, 1]);
    })?;
    same!(seen.read(), numbers(16, 8).collect::<Vec<_>>());
    Ok(())
}
