// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory of images: what is needed, and what is bound.

use super::model::Model;
use crate::case::{Case, case};
use crate::lab::{Form, Gpu, Image, Lab, Outcome, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "image.memory.needs",
        "an image needs memory for its texels, aligned to a power of two",
        needs,
    ),
    case(
        "image.memory.newer-forms",
        "all ways to ask what an image needs have one answer",
        newer_forms,
    ),
    case("image.memory.same-needs", "images that are made alike need the same", same_needs),
    case("image.memory.needs-grow", "a smaller image never needs more", needs_grow),
    case(
        "image.memory.at-offsets",
        "images in one memory keep out of each other's way",
        at_offsets,
    ),
    case("image.memory.bound-at-once", "several images are bound in one call", bound_at_once),
    case("image.memory.dedicated", "an image has memory that is made for it alone", dedicated),
    case("image.memory.beside-a-buffer", "an image and a buffer share a memory", beside_a_buffer),
    case("image.memory.bound-late", "memory may be bound long after an image is made", bound_late),
];

const FORMS: [Form; 6] = [
    Form::flat(vk::Format::R8G8B8A8_UNORM, 33, 65).sampled(),
    Form::flat(vk::Format::R32G32B32A32_SFLOAT, 20, 20).levels(3).layers(2).sampled(),
    Form::row(vk::Format::R32_UINT, 777).storage(),
    Form::solid(vk::Format::R16G16B16A16_SFLOAT, [9, 10, 11]).sampled(),
    Form::cube(vk::Format::R8_UNORM, 16).sampled(),
    Form::flat(vk::Format::R8G8B8A8_UNORM, 50, 10).linear(),
];

fn numbers(needs: vk::MemoryRequirements) -> [u64; 3] {
    [needs.size, needs.alignment, needs.memory_type_bits.into()]
}

fn needs(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let types = lab.memory().memory_type_count;
    for form in FORMS {
        let (_, needs) = gpu.bare_image(form)?;
        let texels: usize = (0..form.levels).map(|level| form.bytes(level)).sum();
        require!(needs.size >= texels as u64, "{} bytes for {texels}", needs.size);
        require!(needs.alignment.is_power_of_two(), "aligned to {}", needs.alignment);
        let bits = needs.memory_type_bits;
        require!(bits != 0 && u64::from(bits) < 1 << types, "types {bits:#b} of {types}");
    }
    Ok(())
}

fn newer_forms(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    for form in FORMS {
        let (image, needs) = gpu.bare_image(form)?;
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        same!(numbers(gpu.image_needs_2(image, &mut dedicated)), numbers(needs));
        let (needed, wanted) =
            (dedicated.requires_dedicated_allocation, dedicated.prefers_dedicated_allocation);
        require!(needed == vk::FALSE || wanted == vk::TRUE, "needed, and not wanted");
        same!(numbers(gpu.needs_of(form)?), numbers(needs));
    }
    Ok(())
}

fn same_needs(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    for form in FORMS {
        let (_, first) = gpu.bare_image(form)?;
        let (_, second) = gpu.bare_image(form)?;
        same!(numbers(first), numbers(second));
    }
    Ok(())
}

fn needs_grow(lab: &Lab) -> Outcome {
    // Vulkan 1.3, "Resource Memory Association": of images that differ in their extents alone.
    let gpu = lab.gpu()?;
    for form in
        [Form::flat(vk::Format::R8G8B8A8_UNORM, 1, 1), Form::solid(vk::Format::R32_UINT, [1; 3])]
    {
        let mut before = 0;
        for size in [1, 2, 3, 7, 16, 33, 64, 100] {
            let depth = if form.kind == vk::ImageType::TYPE_3D { size } else { 1 };
            let needs = gpu.needs_of(Form { extent: [size, size * 2, depth], ..form })?;
            require!(needs.size >= before, "{} bytes for {size}, {before} for less", needs.size);
            before = needs.size;
        }
    }
    Ok(())
}

/// Images without memory, a memory for all of them, and where each belongs in it.
fn in_one_memory(gpu: &Gpu<'_>, forms: &[Form]) -> Outcome<Vec<(Image, vk::DeviceMemory, u64)>> {
    let images: Outcome<Vec<_>> = forms.iter().map(|form| gpu.bare_image(*form)).collect();
    let images = images?;
    let (mut end, mut types, mut places) = (0u64, u32::MAX, Vec::new());
    for (_, needs) in &images {
        let place = end.next_multiple_of(needs.alignment);
        places.push(place);
        (end, types) = (place + needs.size, types & needs.memory_type_bits);
    }
    let index = gpu.memory_type(types, vk::MemoryPropertyFlags::empty())?;
    let memory = gpu.allocate(end, index)?;
    Ok(images.iter().zip(places).map(|((image, _), place)| (*image, memory, place)).collect())
}

/// Stores a pattern of its own in each image, and looks at all of them afterwards.
fn keep_apart(gpu: &Gpu<'_>, images: &[Image]) -> Outcome {
    let models: Vec<_> =
        (1..).zip(images).map(|(number, image)| Model::new(image.form, 10 * number)).collect();
    for (image, model) in images.iter().zip(&models) {
        gpu.put_levels(*image, &model.levels)?;
    }
    for (image, model) in images.iter().zip(&models) {
        for (level, expected) in (0..).zip(&model.levels) {
            same!(gpu.level_bytes(*image, level)?, *expected);
        }
    }
    Ok(())
}

/// Images that are alike enough for one memory.
const ALIKE: [Form; 4] = [FORMS[0], FORMS[1], FORMS[3], FORMS[0]];

fn at_offsets(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let places = in_one_memory(&gpu, &ALIKE)?;
    for (image, memory, place) in &places {
        gpu.bind_image(*image, *memory, *place)?;
    }
    keep_apart(&gpu, &places.iter().map(|place| place.0).collect::<Vec<_>>())
}

fn bound_at_once(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let places = in_one_memory(&gpu, &ALIKE)?;
    gpu.bind_images(&places)?;
    keep_apart(&gpu, &places.iter().map(|place| place.0).collect::<Vec<_>>())
}

fn dedicated(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let mut images = Vec::new();
    for form in [FORMS[0], FORMS[4]] {
        let (image, needs) = gpu.bare_image(form)?;
        gpu.bind_image(image, gpu.allocate_for(image, needs)?, 0)?;
        images.push(image);
    }
    keep_apart(&gpu, &images)
}

fn beside_a_buffer(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (image, needs) = gpu.bare_image(FORMS[0])?;
    let (buffer, of_buffer) = gpu.bare_buffer(256)?;
    let granularity = lab.description().properties.limits.buffer_image_granularity;
    let place = 256u64.next_multiple_of(needs.alignment.max(granularity));
    let types = needs.memory_type_bits & of_buffer.memory_type_bits;
    let index = gpu.memory_type(types, vk::MemoryPropertyFlags::empty())?;
    let memory = gpu.allocate(place + needs.size, index)?;
    let buffer = gpu.bind((buffer, 256), memory, 0, &[])?;
    gpu.bind_image(image, memory, place)?;
    let words: Vec<u32> = (0..64).collect();
    let (from, to) = (gpu.buffer_of(&words)?, gpu.buffer(64)?);
    gpu.run(|commands| {
        commands.copy(&from, &buffer, &[(0, 0, 64)]).barrier();
    })?;
    keep_apart(&gpu, &[image])?;
    gpu.run(|commands| {
        commands.copy(&buffer, &to, &[(0, 0, 64)]).barrier();
    })?;
    same!(to.read(), words);
    Ok(())
}

fn bound_late(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let bare: Outcome<Vec<_>> = ALIKE.iter().map(|form| gpu.bare_image(*form)).collect();
    let bare = bare?;
    for (image, needs) in bare.iter().rev() {
        gpu.bind_alone(*image, *needs, vk::MemoryPropertyFlags::empty())?;
    }
    keep_apart(&gpu, &bare.iter().map(|(image, _)| *image).collect::<Vec<_>>())
}
