// SPDX-License-Identifier: MIT OR Apache-2.0

//! The shader that looks at a flat image in one of several ways, and how its answers are compared.

use super::model::{Colour, FORM, levels};
use crate::lab::{Bundle, Failure, Gpu, Lab, Outcome, Slot, module, sampled, whole};
use ash::vk;

/// Ways of `sample`, by their numbers.
pub(super) const LOD: u32 = 0;
pub(super) const GATHER_FIRST: u32 = 1;
pub(super) const GATHER_THIRD: u32 = 2;
pub(super) const FETCH: u32 = 3;
pub(super) const SIZES: u32 = 4;
pub(super) const GRADIENT: u32 = 5;
pub(super) const OFFSET: u32 = 6;
pub(super) const GATHER_OFFSET: u32 = 7;

/// What `sample` takes.
pub(super) const SLOTS: [Slot; 3] = [
    Slot(0, vk::DescriptorType::COMBINED_IMAGE_SAMPLER, 1),
    Slot(1, vk::DescriptorType::STORAGE_BUFFER, 1),
    Slot(2, vk::DescriptorType::STORAGE_BUFFER, 1),
];

/// Two coordinates, and two numbers more.
pub(super) type Place = [f32; 4];

/// A sampler that takes the nearest texel of the nearest level.
pub(super) fn plain() -> vk::SamplerCreateInfo<'static> {
    vk::SamplerCreateInfo::default()
        .address_mode_u(vk::SamplerAddressMode::CLAMP_TO_EDGE)
        .address_mode_v(vk::SamplerAddressMode::CLAMP_TO_EDGE)
        .address_mode_w(vk::SamplerAddressMode::CLAMP_TO_EDGE)
        .max_lod(vk::LOD_CLAMP_NONE)
}

/// The same, with means of texels.
pub(super) fn linear() -> vk::SamplerCreateInfo<'static> {
    plain().mag_filter(vk::Filter::LINEAR).min_filter(vk::Filter::LINEAR)
}

/// Floating-point numbers of a buffer, four by four.
pub(super) fn colours(words: &[u32]) -> Vec<Colour> {
    words.as_chunks().0.iter().map(|words| words.map(f32::from_bits)).collect()
}

/// The words of places.
pub(super) fn words(places: &[Place]) -> Vec<u32> {
    places.iter().flatten().map(|number| number.to_bits()).collect()
}

/// Looks at a view through a sampler, at these places.
pub(super) fn seen_of(
    gpu: &Gpu<'_>,
    (view, sampler): (vk::ImageView, vk::Sampler),
    way: u32,
    places: &[Place],
) -> Outcome<Vec<Colour>> {
    let kernel = gpu.kernel(module!("sample"), &[&SLOTS], 4, &[])?;
    let set = gpu.empty_set(&kernel, 0)?;
    let (from, to) = (gpu.buffer_of(&words(places))?, gpu.buffer(4 * places.len())?);
    let buffers = [whole(&from), whole(&to)];
    gpu.write_bundle(set, &Bundle { image: sampled(view, sampler), buffers });
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[way]);
        commands.dispatch(places.len() as u32, 1, 1).barrier();
    })?;
    Ok(colours(&to.read()))
}

/// Looks at the image that everything is tried with.
pub(super) fn seen(
    lab: &Lab,
    sampler: vk::SamplerCreateInfo<'_>,
    way: u32,
    places: &[Place],
) -> Outcome<Vec<Colour>> {
    let gpu = lab.gpu()?;
    let view = gpu.view(gpu.image_of(FORM, &levels())?.look(vk::ImageViewType::TYPE_2D))?;
    seen_of(&gpu, (view, gpu.sampler(sampler)?), way, places)
}

/// Fails unless what was seen is near to what should be.
pub(super) fn near(seen: &[Colour], expected: &[Colour], tolerance: f32) -> Outcome {
    // What is no number is far from all.
    let is_near = |one: f32, other: f32| (one - other).abs() <= tolerance;
    let off = |(one, other): (&Colour, &Colour)| {
        one.iter().zip(other).any(|(one, other)| !is_near(*one, *other))
    };
    match seen.iter().zip(expected).position(off) {
        None if seen.len() == expected.len() => Ok(()),
        None => Err(Failure::seen(format!("{} answers", seen.len()))),
        Some(place) => Err(Failure::seen(format!(
            "at place {place} it is {:?}, not {:?}",
            seen[place], expected[place]
        ))),
    }
}

/// What a sum of products of bytes may be off by, with weights that every device has exactly: less than half of a byte's step.
pub(super) const BLENDED: f32 = 0.004;
/// What the division of a byte may be off by.
pub(super) const EXACT: f32 = 1e-6;
