// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images and their views as objects: made, named, destroyed, many at once.

use super::model::Model;
use crate::case::{Case, case};
use crate::lab::{Form, Lab, Outcome, range, same};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("image.object.named", "images, their views and their memory may have names", named),
    case(
        "image.object.without-memory",
        "an image that never had memory is destroyed, and so is none",
        |lab| {
            let gpu = lab.gpu()?;
            gpu.make_and_destroy(FORM)?;
            gpu.make_and_destroy(FORM.levels(2).layers(3))
        },
    ),
    case("image.object.views-destroyed", "an image outlives its views", views_destroyed),
    case(
        "image.object.views-of-each-kind",
        "an image is seen as a whole, as layers, and as levels",
        views,
    ),
    case("image.object.many", "300 images are there at once, each with its own texels", many),
];

const FORM: Form = Form::flat(vk::Format::R32_UINT, 8, 8).storage().sampled();

fn named(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let (image, needs) = gpu.bare_image(FORM)?;
    let memory = gpu.bind_alone(image, needs, vk::MemoryPropertyFlags::empty())?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    gpu.name_image(image, c"picture")?;
    gpu.name_object(view, c"a view of it")?;
    gpu.name_object(memory, c"its memory")?;
    let model = Model::new(FORM, 1);
    gpu.put_levels(image, &model.levels)?;
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    // A name may be taken away.
    gpu.name_image(image, c"")
}

fn views_destroyed(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let model = Model::new(FORM, 1);
    let image = gpu.image_of(FORM, &model.levels)?;
    for _ in 0..20 {
        gpu.with_view(image.look(vk::ImageViewType::TYPE_2D), |one| {
            gpu.with_view(image.look(vk::ImageViewType::TYPE_2D), |other| {
                crate::lab::require!(one != other, "two views are one");
                Ok(())
            })
        })?;
    }
    same!(gpu.level_bytes(image, 0)?, model.levels[0]);
    Ok(())
}

fn views(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    use vk::ImageViewType as T;
    let flat = gpu.image(FORM.levels(3).layers(4))?;
    gpu.view(flat.look(T::TYPE_2D_ARRAY))?;
    gpu.view(flat.look(T::TYPE_2D).at(range([1, 2], [3, 1])))?;
    let remaining = range([1, vk::REMAINING_MIP_LEVELS], [1, vk::REMAINING_ARRAY_LAYERS]);
    gpu.view(flat.look(T::TYPE_2D_ARRAY).at(remaining))?;
    let row = gpu.image(Form::row(vk::Format::R32_UINT, 9).layers(2).storage())?;
    gpu.view(row.look(T::TYPE_1D_ARRAY))?;
    gpu.view(row.look(T::TYPE_1D).at(range([0, 1], [1, 1])))?;
    gpu.view(gpu.image(Form::solid(vk::Format::R32_UINT, [4; 3]).storage())?.look(T::TYPE_3D))?;
    let cube = gpu.image(Form::cube(vk::Format::R8G8B8A8_UNORM, 4).sampled())?;
    gpu.view(cube.look(T::CUBE))?;
    gpu.view(cube.look(T::TYPE_2D_ARRAY))?;
    Ok(())
}

fn many(lab: &Lab) -> Outcome {
    let gpu = lab.gpu()?;
    let images: Outcome<Vec<_>> = (0..300).map(|_| gpu.image(FORM)).collect();
    let images = images?;
    let clear = |number| vk::ClearColorValue { uint32: [number; 4] };
    let seen = gpu.buffer(images.len())?;
    gpu.run(|commands| {
        commands.ready(&images);
        for (number, image) in (0..).zip(&images) {
            commands.clear(*image, clear(number * 3), &[FORM.range()]);
        }
        commands.barrier();
        for (number, image) in (0..).zip(&images) {
            let texel = FORM.whole(0).buffer_offset(4 * number);
            let texel = texel.image_extent(vk::Extent3D { width: 1, height: 1, depth: 1 });
            commands.out_of_image(*image, &seen, &[texel]);
        }
        commands.barrier();
    })?;
    same!(seen.read(), (0..300).map(|number| number * 3).collect::<Vec<_>>());
    Ok(())
}
