// SPDX-License-Identifier: MIT OR Apache-2.0

//! What formats can do ("Required Format Support"), and which images a device has ("Additional Image Capabilities").

use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, STORED, require, same};
use ash::vk;
use ash::vk::{Format as F, FormatFeatureFlags as Feature, ImageUsageFlags as Usage};

pub(super) const CASES: &[Case] = &[
    case(
        "image.format.sampled",
        "the formats that Vulkan has every device sample are sampled",
        |lab| {
            [FILTERED, SAMPLED].iter().try_for_each(|all| all_can(lab, all, Feature::SAMPLED_IMAGE))
        },
    ),
    case("image.format.filtered", "the formats that every device filters are filtered", |lab| {
        all_can(lab, FILTERED, Feature::SAMPLED_IMAGE_FILTER_LINEAR)
    }),
    case(
        "image.format.stored",
        "the formats that shaders store on every device are stored",
        |lab| all_can(lab, STORED, Feature::STORAGE_IMAGE),
    ),
    case("image.format.atomic", "words with and without signs have atomic operations", |lab| {
        all_can(lab, &[F::R32_UINT, F::R32_SINT], Feature::STORAGE_IMAGE_ATOMIC)
    }),
    case("image.format.copied", "what every device samples is copied too", |lab| {
        let both = Feature::TRANSFER_SRC | Feature::TRANSFER_DST;
        [FILTERED, SAMPLED].iter().try_for_each(|all| all_can(lab, all, both))
    }),
    case("image.format.undefined", "no format can do nothing", |lab| {
        let none = lab.format(F::UNDEFINED);
        let none =
            none.linear_tiling_features | none.optimal_tiling_features | none.buffer_features;
        same!(none.as_raw(), 0);
        Ok(())
    }),
    case("image.format.newer-forms", "all ways to ask about a format have one answer", newer_forms),
    case("image.format.made", "images of formats that every device has may be made", made),
    case(
        "image.format.refused",
        "no image is offered that is used for what its format cannot do",
        refused,
    ),
    case(
        "image.format.most-of-each",
        "an image's kind bounds its extent, levels and layers",
        most_of_each,
    ),
    case(
        "image.format.newer-form-of-images",
        "both ways to ask about images have one answer",
        |lab| {
            for form in
                [Form::flat(F::R8G8B8A8_UNORM, 1, 1), Form::solid(F::R32_UINT, [1; 3]).storage()]
            {
                let answers = [lab.most(&form)?, lab.most_2(&form)?].map(numbers);
                same!(answers[0], answers[1]);
            }
            same!(lab.most_2(&Form::flat(F::UNDEFINED, 1, 1)).is_err(), true);
            Ok(())
        },
    ),
];

/// Every device samples them, with linear filters.
const FILTERED: &[F] = &[
    F::R8_UNORM,
    F::R8_SNORM,
    F::R8G8_UNORM,
    F::R8G8_SNORM,
    F::R8G8B8A8_UNORM,
    F::R8G8B8A8_SNORM,
    F::R8G8B8A8_SRGB,
    F::B8G8R8A8_UNORM,
    F::B8G8R8A8_SRGB,
    F::A2B10G10R10_UNORM_PACK32,
    F::R16_SFLOAT,
    F::R16G16_SFLOAT,
    F::R16G16B16A16_SFLOAT,
    F::B10G11R11_UFLOAT_PACK32,
    F::E5B9G9R9_UFLOAT_PACK32,
    F::R5G6B5_UNORM_PACK16,
];

/// Every device samples them.
const SAMPLED: &[F] = &[
    F::R8_UINT,
    F::R8_SINT,
    F::R8G8_UINT,
    F::R8G8B8A8_UINT,
    F::R8G8B8A8_SINT,
    F::A2B10G10R10_UINT_PACK32,
    F::R16_UINT,
    F::R16_SINT,
    F::R16G16B16A16_UINT,
    F::R16G16B16A16_SINT,
    F::R32_UINT,
    F::R32_SINT,
    F::R32_SFLOAT,
    F::R32G32_UINT,
    F::R32G32_SFLOAT,
    F::R32G32B32A32_UINT,
    F::R32G32B32A32_SINT,
    F::R32G32B32A32_SFLOAT,
];

fn all_can(lab: &Lab, formats: &[F], feature: Feature) -> Outcome {
    lab.all_can(formats, feature, |can| can.optimal_tiling_features)
}

/// The formats of Vulkan 1.0.
fn every() -> impl Iterator<Item = F> {
    (1..=184).map(F::from_raw)
}

fn newer_forms(lab: &Lab) -> Outcome {
    for format in every() {
        let numbers = |has: vk::FormatProperties| {
            [has.linear_tiling_features, has.optimal_tiling_features, has.buffer_features]
                .map(|features| features.as_raw())
        };
        let (second, third) = lab.format_2(format);
        let first = numbers(lab.format(format));
        same!(numbers(second), first);
        let third =
            [third.linear_tiling_features, third.optimal_tiling_features, third.buffer_features];
        // The third way has more bits, of which the first 31 are those of the others.
        same!(third.map(|features| features.as_raw() as u32 & 0x7fff_ffff), first);
    }
    Ok(())
}

fn numbers(most: vk::ImageFormatProperties) -> [u64; 7] {
    let vk::Extent3D { width, height, depth } = most.max_extent;
    let counts = [most.max_mip_levels, most.max_array_layers, most.sample_counts.as_raw()];
    let [levels, layers, samples] = counts.map(u64::from);
    let [width, height, depth] = [width, height, depth].map(u64::from);
    [width, height, depth, levels, layers, samples, most.max_resource_size]
}

fn made(lab: &Lab) -> Outcome {
    for format in [FILTERED, SAMPLED].concat() {
        let form = Form::flat(format, 64, 64).sampled();
        let is_there = lab.most(&form).is_ok_and(|most| most.max_extent.width >= 4096);
        require!(is_there, "no flat images of format {}", format.as_raw());
    }
    for format in STORED {
        let is_there = lab.most(&Form::flat(*format, 64, 64).storage()).is_ok();
        require!(is_there, "no images to store in of format {}", format.as_raw());
    }
    Ok(())
}

fn refused(lab: &Lab) -> Outcome {
    let uses = [
        (Usage::SAMPLED, Feature::SAMPLED_IMAGE),
        (Usage::STORAGE, Feature::STORAGE_IMAGE),
        (Usage::COLOR_ATTACHMENT, Feature::COLOR_ATTACHMENT),
    ];
    let mut count = 0;
    for (format, (usage, feature)) in every().flat_map(|format| uses.map(|each| (format, each))) {
        if lab.format(format).optimal_tiling_features.contains(feature) {
            continue;
        }
        let form = Form { usage, ..Form::flat(format, 1, 1) };
        same!(lab.most(&form).map(numbers), Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED));
        same!(lab.most_2(&form).map(numbers), Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED));
        count += 1;
    }
    require!(count > 0, "every format can do everything");
    Ok(())
}

fn most_of_each(lab: &Lab) -> Outcome {
    let limits = lab.description().properties.limits;
    let format = F::R8G8B8A8_UNORM;
    let row = lab.most(&Form::row(format, 1).sampled())?;
    let flat = lab.most(&Form::flat(format, 1, 1).sampled())?;
    let solid = lab.most(&Form::solid(format, [1; 3]).sampled())?;
    let cube = lab.most(&Form::cube(format, 1).sampled())?;
    same!([row.max_extent.height, row.max_extent.depth, flat.max_extent.depth], [1; 3]);
    same!(solid.max_array_layers, 1);
    for (most, least) in [
        (row.max_extent.width, limits.max_image_dimension1_d),
        (flat.max_extent.width, limits.max_image_dimension2_d),
        (flat.max_extent.height, limits.max_image_dimension2_d),
        (solid.max_extent.depth, limits.max_image_dimension3_d),
        (cube.max_extent.width, 4096),
        (flat.max_array_layers, limits.max_image_array_layers),
    ] {
        require!(most >= least, "at most {most}, below the limit {least}");
    }
    for most in [row, flat, solid, cube] {
        let vk::Extent3D { width, height, depth } = most.max_extent;
        let complete = width.max(height).max(depth).ilog2() + 1;
        same!(most.max_mip_levels, complete);
        require!(most.sample_counts.contains(vk::SampleCountFlags::TYPE_1), "no single sample");
        require!(most.max_resource_size >= 1 << 31, "at most {} bytes", most.max_resource_size);
    }
    Ok(())
}
