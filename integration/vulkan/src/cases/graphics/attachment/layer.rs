// SPDX-License-Identifier: MIT OR Apache-2.0

//! Parts of images that are drawn on: levels, layers, planes, and texels as those of another format.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Canvas, Form, GREEN, Gpu, Lab, Outcome, Plan, RED, Rendering, colour_form, pictured,
    range, same, sketch_on, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("attachment.level", "a level of an image is drawn on, and the others stay", |lab| {
        let form = Form::flat(vk::Format::R8G8B8A8_UNORM, 64, 64).levels(4);
        part(
            lab,
            form,
            vk::ImageViewType::TYPE_2D,
            range([2, 1], [0, 1]),
            [false, false, true, false],
        )
    }),
    case("attachment.layer", "a layer of an image is drawn on, and the others stay", |lab| {
        let form = colour_form(vk::Format::R8G8B8A8_UNORM).layers(4);
        layers(lab, form, vk::ImageViewType::TYPE_2D, [3, 1])
    }),
    case("attachment.face", "a face of a cube is drawn on as any other layer", |lab| {
        let form = Form::cube(vk::Format::R8G8B8A8_UNORM, 16);
        layers(lab, form, vk::ImageViewType::TYPE_2D, [4, 1])
    }),
    case("attachment.plane", "a plane of a solid image is drawn on, and the others stay", |lab| {
        let form = Form::solid(vk::Format::R8G8B8A8_UNORM, [16, 16, 4])
            .flags(vk::ImageCreateFlags::TYPE_2D_ARRAY_COMPATIBLE);
        layers(lab, form, vk::ImageViewType::TYPE_2D, [2, 1])
    }),
    case(
        "attachment.layers-filled",
        "all layers of a rendering are filled, and no others",
        |lab| {
            let gpu = lab.graphics()?;
            let form = colour_form(vk::Format::R8G8B8A8_UNORM).layers(5);
            let canvas = blank(&gpu, form)?;
            let look =
                canvas.image.look(vk::ImageViewType::TYPE_2D_ARRAY).at(range([0, 1], [1, 3]));
            let some = Canvas { view: gpu.view(look)?, ..canvas };
            gpu.run(|commands| {
                commands
                    .begin(&Rendering::of(&[some.filled_with([0.0, 1.0, 0.0, 1.0])]).layers(3))
                    .end();
            })?;
            by_layer(&gpu.words(canvas)?, &[BLANK, GREEN, GREEN, GREEN, BLANK])
        },
    ),
    case(
        "attachment.first-layer",
        "what is drawn without a layer is in the first of a view",
        |lab| {
            let gpu = lab.graphics()?;
            let form = colour_form(vk::Format::R8G8B8A8_UNORM).layers(4);
            let canvas = blank(&gpu, form)?;
            let look =
                canvas.image.look(vk::ImageViewType::TYPE_2D_ARRAY).at(range([0, 1], [1, 2]));
            let some = Canvas { view: gpu.view(look)?, ..canvas };
            sketch_on(&gpu, &Rendering::on(some).layers(2), &Plan::plain()?, &whole_area(RED))?;
            by_layer(&gpu.words(canvas)?, &[BLANK, RED, BLANK, BLANK])
        },
    ),
    case("attachment.other-format", "texels are drawn as those of a view's format", |lab| {
        let gpu = lab.graphics()?;
        let form =
            colour_form(vk::Format::R8G8B8A8_UNORM).flags(vk::ImageCreateFlags::MUTABLE_FORMAT);
        let canvas = blank(&gpu, form)?;
        let uint = vk::Format::R8G8B8A8_UINT;
        let look = canvas.image.look(vk::ImageViewType::TYPE_2D).format(uint);
        let numbers = Canvas { view: gpu.view(look)?, ..canvas };
        let source = "
            @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
            @fragment fn fragment() -> @location(0) vec4<u32> { return vec4(1u, 2u, 3u, 4u); }";
        let mut plan = Plan::of(source)?;
        plan.targets(&[uint]);
        sketch_on(&gpu, &Rendering::on(numbers), &plan, &whole_area(RED))?;
        pictured(&gpu.words(canvas)?, |_, _| 0x0403_0201)
    }),
    case("attachment.general", "a target may be in the layout for everything", |lab| {
        let gpu = lab.graphics()?;
        let mut canvas = gpu.colours()?;
        let general = vk::ImageLayout::GENERAL;
        gpu.run(|commands| {
            commands.change(canvas.image, [canvas.layout, general]);
        })?;
        canvas.layout = general;
        sketch_on(&gpu, &Rendering::blank(canvas), &Plan::plain()?, &whole_area(RED))?;
        pictured(&gpu.words(canvas)?, |_, _| RED)
    }),
    case(
        "attachment.optimal",
        "a target may be in the layout that Vulkan 1.3 has for any",
        |lab| {
            let gpu = lab.graphics()?;
            let mut canvas = gpu.colours()?;
            let any = vk::ImageLayout::ATTACHMENT_OPTIMAL;
            gpu.run(|commands| {
                commands.change_2(canvas.image, [canvas.layout, any]);
            })?;
            canvas.layout = any;
            sketch_on(&gpu, &Rendering::blank(canvas), &Plan::plain()?, &whole_area(GREEN))?;
            pictured(&gpu.words(canvas)?, |_, _| GREEN)
        },
    ),
];

/// An image whose levels are all 0.
fn blank(gpu: &Gpu<'_>, form: Form) -> Outcome<Canvas> {
    let form = form.used(vk::ImageUsageFlags::COLOR_ATTACHMENT);
    let canvas = gpu.canvas(form)?;
    let general = vk::ImageLayout::GENERAL;
    gpu.run(|commands| {
        commands.change(canvas.image, [canvas.layout, general]);
        commands.clear(canvas.image, vk::ClearColorValue::default(), &[form.range()]);
        commands.change(canvas.image, [general, canvas.layout]);
    })?;
    Ok(canvas)
}

/// Requires that each layer has one colour.
fn by_layer(seen: &[u32], right: &[u32]) -> Outcome {
    same!(seen.len(), right.len() * 256);
    for (layer, colour) in seen.chunks(256).zip(right) {
        pictured(layer, |_, _| *colour)?;
    }
    Ok(())
}

/// Draws on a layer, or a plane.
fn layers(lab: &Lab, form: Form, kind: vk::ImageViewType, [first, count]: [u32; 2]) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = blank(&gpu, form)?;
    let view = gpu.view(canvas.image.look(kind).at(range([0, 1], [first, count])))?;
    sketch_on(&gpu, &Rendering::on(Canvas { view, ..canvas }), &Plan::plain()?, &whole_area(RED))?;
    let all = form.layers.max(form.extent[2]);
    let colour = |layer| if (first..first + count).contains(&layer) { RED } else { BLANK };
    by_layer(&gpu.words(canvas)?, &(0..all).map(colour).collect::<Vec<_>>())
}

/// Draws on a level of 16 by 16 texels.
fn part(
    lab: &Lab,
    form: Form,
    kind: vk::ImageViewType,
    which: vk::ImageSubresourceRange,
    right: [bool; 4],
) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = blank(&gpu, form)?;
    let view = gpu.view(canvas.image.look(kind).at(which))?;
    sketch_on(&gpu, &Rendering::on(Canvas { view, ..canvas }), &Plan::plain()?, &whole_area(RED))?;
    gpu.run(|commands| {
        commands.change(canvas.image, [canvas.layout, vk::ImageLayout::GENERAL]);
    })?;
    for (level, is_red) in (0..).zip(right) {
        let words = gpu.level_words(canvas.image, level)?;
        let colour = if is_red { RED } else { BLANK };
        same!(words.iter().all(|word| *word == colour), true);
    }
    Ok(())
}
