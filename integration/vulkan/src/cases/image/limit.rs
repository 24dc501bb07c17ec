// SPDX-License-Identifier: MIT OR Apache-2.0

//! Limits of images, views and samplers ("Required Limits").

use super::model::Model;
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("image.limit.least", "no limit about images is below what Vulkan requires", least),
    case(
        "image.limit.largest",
        "images as long as the limits have it hold what is copied",
        largest,
    ),
    case("image.limit.most-layers", "an image of 256 layers keeps each apart", most_layers),
    case("image.limit.most-levels", "an image has levels down to one texel", most_levels),
];

fn least(lab: &Lab) -> Outcome {
    let limits = lab.description().properties.limits;
    for (name, offered, least) in [
        ("maxImageDimension1D", limits.max_image_dimension1_d, 4096),
        ("maxImageDimension2D", limits.max_image_dimension2_d, 4096),
        ("maxImageDimension3D", limits.max_image_dimension3_d, 256),
        ("maxImageDimensionCube", limits.max_image_dimension_cube, 4096),
        ("maxImageArrayLayers", limits.max_image_array_layers, 256),
        ("maxTexelBufferElements", limits.max_texel_buffer_elements, 65536),
        ("maxSamplerAllocationCount", limits.max_sampler_allocation_count, 4000),
        ("maxPerStageDescriptorSamplers", limits.max_per_stage_descriptor_samplers, 16),
        ("maxPerStageDescriptorSampledImages", limits.max_per_stage_descriptor_sampled_images, 16),
        ("maxPerStageDescriptorStorageImages", limits.max_per_stage_descriptor_storage_images, 4),
        ("maxDescriptorSetSamplers", limits.max_descriptor_set_samplers, 96),
        ("maxDescriptorSetSampledImages", limits.max_descriptor_set_sampled_images, 96),
        ("maxDescriptorSetStorageImages", limits.max_descriptor_set_storage_images, 24),
        ("maxTexelGatherOffset", limits.max_texel_gather_offset, 0),
        ("maxTexelOffset", limits.max_texel_offset, 7),
        ("subTexelPrecisionBits", limits.sub_texel_precision_bits, 4),
        ("mipmapPrecisionBits", limits.mipmap_precision_bits, 4),
    ] {
        require!(offered >= least, "{name} is {offered}, below {least}");
    }
    require!(limits.min_texel_offset <= -8, "minTexelOffset is {}", limits.min_texel_offset);
    require!(limits.max_sampler_lod_bias >= 2.0, "maxSamplerLodBias");
    require!(limits.max_sampler_anisotropy >= 1.0, "maxSamplerAnisotropy");
    let granularity = limits.buffer_image_granularity;
    require!(granularity.is_power_of_two() && granularity <= 1 << 17, "granularity {granularity}");
    Ok(())
}

/// Whether the first and the last texel of a long image are what is stored there.
fn has_ends(lab: &Lab, form: Form) -> Outcome {
    let gpu = lab.gpu()?;
    let image = gpu.image(form)?;
    let (from, to) = (gpu.buffer_of(&[17, 18])?, gpu.buffer(2)?);
    let end = form.extent.map(|texels| texels as i32 - 1);
    let texel = |number: u64, [x, y, z]: [i32; 3]| {
        form.whole(0)
            .buffer_offset(4 * number)
            .image_offset(vk::Offset3D { x, y, z })
            .image_extent(vk::Extent3D { width: 1, height: 1, depth: 1 })
    };
    let regions = [texel(0, [0; 3]), texel(1, end)];
    gpu.run(|commands| {
        commands.ready(&[image]).to_image(&from, image, &regions).barrier();
        commands.out_of_image(image, &to, &regions).barrier();
    })?;
    same!(to.read(), vec![17, 18]);
    Ok(())
}

fn largest(lab: &Lab) -> Outcome {
    let limits = lab.description().properties.limits;
    let format = vk::Format::R32_UINT;
    has_ends(lab, Form::row(format, limits.max_image_dimension1_d))?;
    has_ends(lab, Form::flat(format, limits.max_image_dimension2_d, 1))?;
    has_ends(lab, Form::flat(format, 1, limits.max_image_dimension2_d))?;
    has_ends(lab, Form::solid(format, [1, 1, limits.max_image_dimension3_d]))
}

fn most_layers(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let words = |factor: u32| (0..2 * 256).map(|word| word * factor).collect::<Vec<u32>>();
    let form = Form::flat(vk::Format::R32_UINT, 2, 1).layers(256);
    let image = gpu.image_of(form, &[crate::lab::bytes_of(&words(7))])?;
    same!(gpu.level_words(image, 0)?, words(7));
    Ok(())
}

fn most_levels(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = Form::flat(vk::Format::R32_UINT, 100, 37).levels(7);
    let model = Model::new(form, 5);
    let image = gpu.image_of(form, &model.levels)?;
    same!(form.bytes(6), 4);
    for (level, expected) in (0..).zip(&model.levels) {
        same!(gpu.level_bytes(image, level)?, *expected);
    }
    Ok(())
}
