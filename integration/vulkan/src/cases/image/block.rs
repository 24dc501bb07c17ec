// SPDX-License-Identifier: MIT OR Apache-2.0

//! Copies of compressed images, whose blocks are copied as they are.

use super::model::{Model, extent_of, part, pattern};
use crate::case::{Case, case};
use crate::lab::{Failure, Form, Lab, Outcome, layers, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "image.blocks.compression-offered",
        "a device has one of the three kinds of compressed formats at least",
        |lab| compressed(lab).map(drop),
    ),
    case("image.blocks.copied", "blocks of a compressed image are copied in and out", copied),
    case(
        "image.blocks.to-texels",
        "a compressed image's blocks become the texels of an image whose texels are as large",
        to_texels,
    ),
];

/// A compressed format that the device has: Vulkan requires one of these kinds, of every device that has graphics.
fn compressed(lab: &Lab) -> Outcome<vk::Format> {
    let can = lab.features().core;
    let kinds = [
        (can.texture_compression_bc, vk::Format::BC1_RGBA_UNORM_BLOCK),
        (can.texture_compression_etc2, vk::Format::ETC2_R8G8B8_UNORM_BLOCK),
        (can.texture_compression_astc_ldr, vk::Format::ASTC_4X4_UNORM_BLOCK),
    ];
    let found = kinds.into_iter().find(|(has, _)| *has == vk::TRUE);
    let (_, format) = found.ok_or_else(|| Failure::not_offered("no compressed formats"))?;
    Ok(format)
}

fn copied(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = Form::flat(compressed(lab)?, 22, 18).sampled();
    let mut model = Model::new(form, 1);
    let image = gpu.image_of(form, &model.levels)?;
    // The last column and the last row are parts of blocks.
    let regions = [
        part(0, [0, 1], [4, 4, 0], [8, 4, 1]),
        part(0, [0, 1], [16, 12, 0], [6, 6, 1]).buffer_offset(256).buffer_row_length(12),
    ];
    let bytes = pattern(100, model.outside(&regions));
    let buffer = gpu.buffer_of_bytes(&bytes)?;
    gpu.run(|commands| {
        commands.to_image(&buffer, image, &regions).barrier();
    })?;
    regions.iter().for_each(|region| model.put(region, &bytes));
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}

fn to_texels(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let blocks = Form::flat(compressed(lab)?, 24, 24).sampled();
    let texels = match crate::lab::block(blocks.format).bytes {
        8 => vk::Format::R16G16B16A16_SFLOAT,
        _ => vk::Format::R32G32B32A32_UINT,
    };
    let texels = Form::flat(texels, 8, 8);
    let (source, mut model) = (Model::new(blocks, 1), Model::new(texels, 50));
    let (from, to) = (gpu.image_of(blocks, &source.levels)?, gpu.image_of(texels, &model.levels)?);
    let region = vk::ImageCopy::default()
        .src_subresource(layers(0, 0, 1))
        .src_offset(vk::Offset3D { x: 4, y: 8, z: 0 })
        .dst_subresource(layers(0, 0, 1))
        .dst_offset(vk::Offset3D { x: 3, y: 1, z: 0 })
        .extent(extent_of([16, 12, 1]));
    gpu.run(|commands| {
        commands.copy_image(from, to, &[region]).barrier();
    })?;
    model.copy(&source, &region);
    same!(gpu.level_bytes(to, 0)?, model.levels[0]);
    Ok(())
}
