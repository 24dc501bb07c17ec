// SPDX-License-Identifier: MIT OR Apache-2.0

//! Canvases of several samples, and each of these by itself.

use crate::lab::{
    Canvas, Gpu, Lab, Outcome, Plan, RED, Rendering, SIZE, Slot, colour_form, whole_area,
};
use ash::vk;

pub(super) const FOUR: vk::SampleCountFlags = vk::SampleCountFlags::TYPE_4;

/// A canvas of four samples, which every device has, that shaders may read.
pub(super) fn canvas(gpu: &Gpu<'_>) -> Outcome<Canvas> {
    canvas_of(gpu, FOUR)
}

/// A canvas of so many samples.
pub(super) fn canvas_of(gpu: &Gpu<'_>, samples: vk::SampleCountFlags) -> Outcome<Canvas> {
    let form = colour_form(vk::Format::R8G8B8A8_UNORM);
    gpu.canvas(form.samples(samples).used(vk::ImageUsageFlags::SAMPLED))
}

/// A plan for four samples.
pub(super) fn plan<'a>(source: &str) -> Outcome<Plan<'a>> {
    let mut plan = Plan::of(source)?;
    plan.sampled(FOUR);
    Ok(plan)
}

/// Where each of four samples is in its texel, where a device has them at the places that the specification names.
pub(super) const PLACES: [[f32; 2]; 4] =
    [[0.375, 0.125], [0.875, 0.375], [0.125, 0.625], [0.625, 0.875]];

/// Says so unless the samples are there.
pub(super) fn needs_places(lab: &Lab) -> Outcome {
    let limits = lab.description().properties.limits;
    lab.needs("standardSampleLocations", limits.standard_sample_locations)
}

/// The texels of each of a canvas's samples.
pub(super) fn apart(gpu: &Gpu<'_>, canvas: Canvas) -> Outcome<Vec<Vec<u32>>> {
    let source = "
        @group(0) @binding(0) var several: texture_multisampled_2d<f32>;
        var<immediate> which: i32;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment(@builtin(position) place: vec4<f32>) -> @location(0) vec4<f32> {
            return textureLoad(several, vec2<u32>(place.xy), which);
        }";
    let mut plan = Plan::of(source)?;
    plan.slots = vec![Slot(0, vk::DescriptorType::SAMPLED_IMAGE, 1)];
    plan.push = 4;
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&whole_area(RED))?);
    let set = gpu.empty_set(&brush, 0)?;
    let layout = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
    let shown = vk::DescriptorImageInfo::default().image_view(canvas.view).image_layout(layout);
    gpu.write_images(set, 0, vk::DescriptorType::SAMPLED_IMAGE, &[shown]);
    let each = (0..canvas.image.form.samples.as_raw()).map(|sample| {
        let one = gpu.colours()?;
        gpu.run(|commands| {
            commands.change(canvas.image, [canvas.layout, layout]);
            commands.begin(&Rendering::blank(one)).brush(&brush);
            commands.brush_sets(&brush, &[set], &[]).brush_push(&brush, &[sample]);
            commands.vertices(&vertices).draw(6).end();
            commands.change(canvas.image, [layout, canvas.layout]);
        })?;
        gpu.words(one)
    });
    each.collect()
}

/// Resolves a canvas to a new one of one sample, by a command.
pub(super) fn resolved(gpu: &Gpu<'_>, canvas: Canvas) -> Outcome<Vec<u32>> {
    let one = gpu.colours()?;
    let (read, written) =
        (vk::ImageLayout::TRANSFER_SRC_OPTIMAL, vk::ImageLayout::TRANSFER_DST_OPTIMAL);
    let extent = vk::Extent3D { width: SIZE, height: SIZE, depth: 1 };
    let layers = canvas.image.form.layers_of(0, 0, 1);
    let region = vk::ImageResolve::default().src_subresource(layers).dst_subresource(layers);
    gpu.run(|commands| {
        commands.change(canvas.image, [canvas.layout, read]);
        commands.change(one.image, [one.layout, written]);
        commands.resolve(canvas.image, one.image, &[region.extent(extent)]);
        commands.change(one.image, [written, one.layout]);
        commands.change(canvas.image, [read, canvas.layout]);
    })?;
    gpu.words(one)
}
