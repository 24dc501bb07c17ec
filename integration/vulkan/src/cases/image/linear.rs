// SPDX-License-Identifier: MIT OR Apache-2.0

//! Linear images, whose texels the processor finds in memory.

use super::model::Model;
use crate::case::{Case, case};
use crate::lab::{Failure, Form, Lab, Outcome, bytes_of, require, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("image.linear.places", "rows do not overlap, and are within the image's memory", places),
    case("image.linear.seen", "the processor finds what was copied into a linear image", seen),
    case(
        "image.linear.stored",
        "what the processor stores before an image is used is its content",
        stored,
    ),
    case(
        "image.linear.layers-and-levels",
        "levels and layers of a linear image do not overlap",
        parts,
    ),
    case(
        "image.linear.to-optimal",
        "a linear image is copied to one that is not, and back",
        to_optimal,
    ),
];

const FORM: Form = Form::flat(vk::Format::R8G8B8A8_UNORM, 21, 13).linear();
const VISIBLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

fn places(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    for form in [FORM, Form::flat(vk::Format::R8_UNORM, 7, 50).linear()] {
        let (image, needs) = gpu.bare_image(form)?;
        let place = gpu.place(image, 0, 0);
        let [width, height, _] = form.extent.map(u64::from);
        let row = form.bytes(0) as u64 / height;
        same!(row % width, 0);
        require!(place.row_pitch >= row, "rows of {row} bytes are {} apart", place.row_pitch);
        let end = (height - 1) * place.row_pitch + row;
        require!(place.size >= end, "{} bytes for {end}", place.size);
        require!(place.offset + place.size <= needs.size, "beyond {} bytes", needs.size);
    }
    Ok(())
}

fn seen(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (image, needs) = gpu.bare_image(FORM)?;
    let memory = gpu.bind_alone(image, needs, VISIBLE)?;
    let model = Model::new(FORM, 1);
    gpu.put_levels(image, &model.levels)?;
    let place = gpu.place(image, 0, 0);
    let words = gpu.map(memory, needs.size)?;
    for (row, expected) in (0..).zip(model.levels[0].chunks(21 * 4)) {
        let first = (place.offset + row * place.row_pitch) as usize / 4;
        let row = words.iter().skip(first).take(21);
        let row: Vec<u32> =
            row.map(|word| word.load(std::sync::atomic::Ordering::Relaxed)).collect();
        same!(bytes_of(&row), expected);
    }
    Ok(())
}

fn stored(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    lab.offers(FORM)?;
    let information = FORM.information().initial_layout(vk::ImageLayout::PREINITIALIZED);
    let image = gpu.image_as(FORM, information)?;
    let needs = gpu.image_needs(image);
    let memory = gpu.bind_alone(image, needs, VISIBLE)?;
    let place = gpu.place(image, 0, 0);
    let words = gpu.map(memory, needs.size)?;
    let texel = |x: u64, y: u64| (y * 100 + x + 7) as u32;
    for (x, y) in (0..13).flat_map(|y| (0..21).map(move |x| (x, y))) {
        let word = (place.offset + y * place.row_pitch) as usize / 4 + x as usize;
        words[word].store(texel(x, y), std::sync::atomic::Ordering::Relaxed);
    }
    gpu.run(|commands| {
        commands.change(image, [vk::ImageLayout::PREINITIALIZED, vk::ImageLayout::GENERAL]);
    })?;
    let expected = (0..13).flat_map(|y| (0..21).map(move |x| texel(x, y)));
    same!(gpu.level_words(image, 0)?, expected.collect::<Vec<_>>());
    Ok(())
}

fn parts(lab: &Lab) -> Outcome {
    let most = lab.most(&FORM)?;
    let (levels, layers) = (most.max_mip_levels.min(3), most.max_array_layers.min(3));
    if levels == 1 && layers == 1 {
        return Err(Failure::not_offered("linear images have one level and one layer"));
    }
    let gpu = lab.gpu()?;
    let form = FORM.levels(levels).layers(layers);
    let (image, needs) = gpu.bare_image(form)?;
    let mut places = Vec::new();
    for level in 0..levels {
        let [width, height, _] = form.extent_of(level).map(u64::from);
        for place in (0..layers).map(|layer| gpu.place(image, level, layer)) {
            // The rows alone: drivers differ in what they count as a subresource's size.
            let rows = (0..height).map(|row| place.offset + row * place.row_pitch);
            places.extend(rows.map(|row| (row, row + 4 * width)));
        }
    }
    places.sort_unstable();
    for pair in places.windows(2) {
        require!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
    require!(places.iter().all(|place| place.1 <= needs.size), "beyond {} bytes", needs.size);
    gpu.bind_alone(image, needs, vk::MemoryPropertyFlags::empty())?;
    let model = Model::new(form, 1);
    gpu.put_levels(image, &model.levels)?;
    for (level, expected) in (0..).zip(&model.levels) {
        same!(gpu.level_bytes(image, level)?, *expected);
    }
    Ok(())
}

fn to_optimal(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let model = Model::new(FORM, 1);
    let from = gpu.image_of(FORM, &model.levels)?;
    let between = gpu.image(Form::flat(FORM.format, 21, 13))?;
    let to = gpu.image(FORM)?;
    let whole = vk::ImageCopy::default()
        .src_subresource(crate::lab::layers(0, 0, 1))
        .dst_subresource(crate::lab::layers(0, 0, 1))
        .extent(FORM.extent_3d(0));
    gpu.run(|commands| {
        commands.ready(&[between, to]).copy_image(from, between, &[whole]).barrier();
        commands.copy_image(between, to, &[whole]).barrier();
    })?;
    same!(gpu.level_bytes(to, 0)?, model.levels[0]);
    Ok(())
}
