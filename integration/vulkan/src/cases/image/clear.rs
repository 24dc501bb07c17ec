// SPDX-License-Identifier: MIT OR Apache-2.0

//! Clears of images ("Clearing Images"), and how a colour becomes a texel ("Numeric Conversion").

use super::model::Model;
use crate::case::{Case, case};
use crate::lab::{Failure, Form, Lab, Outcome, range, same, srgb};
use ash::vk;

/// Declares cases of what a texel is then: a name, what it shows, a format, a colour, and the texel's bytes.
macro_rules! colours {
    ($($name:literal, $shows:literal, $format:ident, $colour:expr, $texel:expr;)*) => {
        pub(super) const COLOURS: &[Case] = &[$(
            case(concat!("image.clear.", $name), $shows, |lab| {
                coloured(lab, vk::Format::$format, $colour, &$texel.concat())
            }),
        )*];
    };
}

colours! {
    "unorm", "ends of the range become the least and the greatest number", R8G8B8A8_UNORM,
        real([0.0, 1.0, 0.2, 0.6]), [[0u8, 255, 51, 153]];
    "unorm-clamped", "a colour beyond the range becomes its end", R8G8B8A8_UNORM,
        real([-1.0, 2.0, 1e9, -0.5]), [[0u8, 255, 255, 0]];
    "unorm-swapped", "a format with blue first has it first", B8G8R8A8_UNORM,
        real([0.0, 0.2, 1.0, 0.6]), [[255u8, 51, 0, 153]];
    "snorm", "numbers of both signs are stored", R8G8B8A8_SNORM,
        real([-1.0, 1.0, 0.0, -1.0]), [[0x81u8, 127, 0, 0x81]];
    "srgb", "the ends of the range stay, and alpha is linear", R8G8B8A8_SRGB,
        real([0.0, 1.0, 0.0, 0.6]), [[0u8, 255, 0, 153]];
    "uint", "words without signs are stored as they are", R32G32B32A32_UINT, whole([1, u32::MAX, 0, 77]),
        [1, u32::MAX, 0, 77].map(u32::to_le_bytes);
    "sint", "words with signs are stored as they are", R32G32B32A32_SINT, signed([-1, i32::MIN, 5, i32::MAX]),
        [-1, i32::MIN, 5, i32::MAX].map(i32::to_le_bytes);
    "narrow-uint", "numbers that fit a byte are stored in bytes", R8G8B8A8_UINT, whole([1, 255, 0, 77]),
        [[1u8, 255, 0, 77]];
    "one-component", "a format of one component takes the first", R32_UINT, whole([0xdead_beef, 2, 3, 4]),
        [0xdead_beefu32.to_le_bytes()];
    "float", "floating-point numbers are stored as they are", R32G32B32A32_SFLOAT,
        real([0.1, -3.5e30, 1.5e-20, -0.0]), [0.1f32, -3.5e30, 1.5e-20, -0.0].map(f32::to_le_bytes);
    "half", "numbers that a half can hold are stored as halves", R16G16B16A16_SFLOAT,
        real([1.0, -2.0, 0.5, 65504.0]), [0x3c00u16, 0xc000, 0x3800, 0x7bff].map(u16::to_le_bytes);
}

pub(super) const CASES: &[Case] = &[
    case("image.clear.level", "a clear of a level leaves the others", |lab| {
        parts(lab, FLAT, &[([1, 1], [0, 3])])
    }),
    case("image.clear.layers", "a clear of layers leaves the others", |lab| {
        parts(lab, FLAT, &[([0, 3], [1, 1])])
    }),
    case("image.clear.ranges", "one clear reaches several ranges", |lab| {
        parts(lab, FLAT, &[([0, 1], [2, 1]), ([1, 2], [0, 2])])
    }),
    case(
        "image.clear.remaining",
        "a clear of what remains reaches the last level and layer",
        |lab| parts(lab, FLAT, &[([1, vk::REMAINING_MIP_LEVELS], [1, vk::REMAINING_ARRAY_LAYERS])]),
    ),
    case("image.clear.row", "an image of one dimension is cleared", |lab| {
        parts(lab, Form::row(vk::Format::R32_UINT, 99).layers(2), &[([0, 1], [1, 1])])
    }),
    case("image.clear.solid", "all planes of a level are cleared", |lab| {
        let form = Form::solid(vk::Format::R32_UINT, [9, 7, 6]).levels(2);
        parts(lab, form, &[([1, 1], [0, 1])])
    }),
    case("image.clear.in-order", "the last of many clears behind barriers stays", in_order),
    case("image.clear.sides-of-srgb", "colours are encoded where a format asks for it", encoded),
];

const FLAT: Form = Form::flat(vk::Format::R32_UINT, 12, 10).levels(3).layers(3);

fn real(float32: [f32; 4]) -> vk::ClearColorValue {
    vk::ClearColorValue { float32 }
}

fn whole(uint32: [u32; 4]) -> vk::ClearColorValue {
    vk::ClearColorValue { uint32 }
}

fn signed(int32: [i32; 4]) -> vk::ClearColorValue {
    vk::ClearColorValue { int32 }
}

fn cleared(lab: &Lab, format: vk::Format, colour: vk::ClearColorValue) -> Outcome<Vec<u8>> {
    let gpu = lab.gpu()?;
    let image = gpu.image(Form::flat(format, 5, 3).sampled())?;
    gpu.run(|commands| {
        commands.ready(&[image]).clear(image, colour, &[image.form.range()]).barrier();
    })?;
    gpu.level_bytes(image, 0)
}

fn coloured(lab: &Lab, format: vk::Format, colour: vk::ClearColorValue, texel: &[u8]) -> Outcome {
    same!(cleared(lab, format, colour)?, texel.repeat(15));
    Ok(())
}

fn parts(lab: &Lab, form: Form, ranges: &[([u32; 2], [u32; 2])]) -> Outcome {
    const COLOUR: u32 = 0x0bad_f00d;
    let gpu = lab.gpu()?;
    let mut model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    let all: Vec<_> = ranges.iter().map(|(levels, layers)| range(*levels, *layers)).collect();
    gpu.run(|commands| {
        commands.clear(image, whole([COLOUR; 4]), &all).barrier();
    })?;
    let end = |[first, count]: [u32; 2], all| first.saturating_add(count).min(all) as usize;
    for (levels, layers) in ranges {
        for level in &mut model.levels[levels[0] as usize..end(*levels, form.levels)] {
            let layer = level.len() / form.layers as usize;
            let texels = layers[0] as usize * layer..end(*layers, form.layers) * layer;
            for texel in level[texels].chunks_mut(4) {
                texel.copy_from_slice(&COLOUR.to_le_bytes());
            }
        }
    }
    for (level, expected) in (0..).zip(&model.levels) {
        same!(gpu.level_bytes(image, level)?, *expected);
    }
    Ok(())
}

fn in_order(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image(Form::flat(vk::Format::R32_UINT, 8, 8))?;
    gpu.run(|commands| {
        commands.ready(&[image]);
        for number in 0..50 {
            commands.clear(image, whole([number; 4]), &[image.form.range()]).barrier();
        }
    })?;
    same!(gpu.level_words(image, 0)?, [49; 64]);
    Ok(())
}

fn encoded(lab: &Lab) -> Outcome {
    for linear in [0.001f32, 0.05, 0.2, 0.5, 0.9] {
        let seen = cleared(lab, vk::Format::R8G8B8A8_SRGB, real([linear; 4]))?;
        let exact = srgb(f64::from(linear));
        let off = (f64::from(seen[0]) - exact * 255.0).abs();
        // What a conversion may be off by, and the rounding to a whole number.
        if off > 0.6 + 0.5 {
            let exact = exact * 255.0;
            return Err(Failure::seen(format!("{linear} is stored as {}, not {exact}", seen[0])));
        }
    }
    Ok(())
}
