// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that several images and buffers have ("Memory Aliasing").

use super::model::Model;
use crate::case::{Case, case};
use crate::lab::{Form, Gpu, Image, Lab, Outcome, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "image.alias.images",
        "two images of one memory that are made alike hold the same",
        images,
    ),
    case(
        "image.alias.in-turns",
        "images take turns in one memory, each with what it is given",
        in_turns,
    ),
    case("image.alias.buffer", "a buffer of a linear image's memory holds its texels", buffer),
];

const FORM: Form =
    Form::flat(vk::Format::R32_UINT, 20, 30).levels(2).flags(vk::ImageCreateFlags::ALIAS);

/// Images of one memory from its beginning, with these forms.
fn of_one_memory<const N: usize>(gpu: &Gpu<'_>, forms: [Form; N]) -> Outcome<[Image; N]> {
    let bare: Outcome<Vec<_>> = forms.iter().map(|form| gpu.bare_image(*form)).collect();
    let bare = bare?;
    let size = bare.iter().map(|(_, needs)| needs.size).max().unwrap_or_default();
    let types = bare.iter().fold(u32::MAX, |types, (_, needs)| types & needs.memory_type_bits);
    let index = gpu.memory_type(types, vk::MemoryPropertyFlags::empty())?;
    let memory = gpu.allocate(size, index)?;
    for (image, _) in &bare {
        gpu.bind_image(*image, memory, 0)?;
    }
    Ok(std::array::from_fn(|number| bare[number].0))
}

fn images(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let [one, other] = of_one_memory(&gpu, [FORM; 2])?;
    let model = Model::new(FORM, 1);
    let general = vk::ImageLayout::GENERAL;
    gpu.put_levels(one, &model.levels)?;
    // The other keeps what is there: it is in the layout that the first has.
    gpu.run(|commands| {
        commands.change(other, [general, general]);
    })?;
    same!(gpu.level_bytes(other, 0)?, model.levels[0]);
    same!(gpu.level_bytes(other, 1)?, model.levels[1]);
    Ok(())
}

fn in_turns(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let forms = [
        FORM,
        Form::solid(vk::Format::R8_UNORM, [16, 16, 7]),
        Form::row(vk::Format::R32_UINT, 500),
    ];
    let images = of_one_memory(&gpu, forms)?;
    for (number, image) in (1..).zip([images, images].concat()) {
        let model = Model::new(image.form, 10 * number);
        gpu.put_levels(image, &model.levels)?;
        same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    }
    Ok(())
}

fn buffer(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let form = Form::flat(vk::Format::R32_UINT, 13, 9).linear();
    let (image, needs) = gpu.bare_image(form)?;
    let (raw, of_buffer) = gpu.bare_buffer(needs.size / 4 * 4)?;
    let types = needs.memory_type_bits & of_buffer.memory_type_bits;
    let index = gpu.memory_type(types, vk::MemoryPropertyFlags::empty())?;
    let memory = gpu.allocate(needs.size.max(of_buffer.size), index)?;
    gpu.bind_image(image, memory, 0)?;
    let buffer = gpu.bind((raw, needs.size / 4 * 4), memory, 0, &[])?;
    let model = Model::new(form, 1);
    gpu.put_levels(image, &model.levels)?;
    let place = gpu.place(image, 0, 0);
    let seen = gpu.buffer(13 * 9)?;
    let rows: Vec<_> =
        (0..9).map(|row| ((place.offset + row * place.row_pitch) / 4, 13 * row, 13)).collect();
    gpu.run(|commands| {
        commands.barrier().copy(&buffer, &seen, &rows).barrier();
    })?;
    same!(crate::lab::bytes_of(&seen.read()), model.levels[0]);
    Ok(())
}
