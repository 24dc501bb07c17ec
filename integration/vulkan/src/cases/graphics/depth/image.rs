// SPDX-License-Identifier: MIT OR Apache-2.0

//! Depths as images: filled, copied, loaded, and read by shaders.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Canvas, DEPTH, GREEN, Gpu, Lab, Outcome, Plan, RED, Rendering, STENCIL, Slot, at, boxed,
    depth_form, pictured, rectangle, require, same, sketch_on, whole_area,
};
use ash::vk::{self, ImageAspectFlags, ImageLayout as L};

pub(super) const CASES: &[Case] = &[
    case("depth.filled", "a command fills depths and stencils outside of a rendering", |lab| {
        filled(lab, DEPTH | STENCIL, (0.625, 9))
    }),
    case("depth.filled-alone", "a command fills depths, and leaves stencils", |lab| {
        filled(lab, DEPTH, (0.625, 3))
    }),
    case("stencil.filled-alone", "a command fills stencils, and leaves depths", |lab| {
        filled(lab, STENCIL, (0.25, 9))
    }),
    case("depth.loaded", "depths of one rendering are compared in the next", loaded),
    case("depth.read-only", "depths in a layout for reading are compared, and stay", read_only),
    case("depth.sampled", "a shader reads depths that were drawn", sampled),
    case("depth.written", "a fragment's own depth is compared and stored", written),
    case("depth.copied", "depths are copied from a buffer, and compared", copied),
    case("depth.in-part", "a part of depths and stencils is filled within a rendering", in_part),
];

fn both(gpu: &Gpu<'_>, lab: &Lab) -> Outcome<Canvas> {
    gpu.canvas(depth_form(lab.both_format()?))
}

/// Whether all depths are near one.
fn all_near(gpu: &Gpu<'_>, canvas: Canvas, right: f32) -> Outcome {
    let bytes = gpu.bytes_of_canvas(canvas, DEPTH)?;
    let word = |texel: &[u8; 4]| match canvas.image.form.format {
        vk::Format::D24_UNORM_S8_UINT => {
            (u32::from_le_bytes(*texel) & 0x00ff_ffff) as f32 / 16_777_215.0
        }
        _ => f32::from_le_bytes(*texel),
    };
    let all: Vec<f32> = bytes.as_chunks().0.iter().map(word).collect();
    require!(all.iter().all(|it| (it - right).abs() < 1e-6), "{:?} is not {right}", all.first());
    Ok(())
}

/// Fills all with 0.25 and 3, and then a part of each texel with 0.625 and 9.
fn filled(lab: &Lab, part: ImageAspectFlags, (depth, stencil): (f32, u8)) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = both(&gpu, lab)?;
    let range = canvas.image.form.range();
    let target = L::TRANSFER_DST_OPTIMAL;
    gpu.run(|commands| {
        commands.change(canvas.image, [canvas.layout, target]);
        commands.clear_depth(canvas.image, (0.25, 3), &[range]).barrier();
        commands.clear_depth(canvas.image, (0.625, 9), &[range.aspect_mask(part)]);
        commands.change(canvas.image, [target, canvas.layout]);
    })?;
    all_near(&gpu, canvas, depth)?;
    same!(gpu.bytes_of_canvas(canvas, STENCIL)?, vec![stencil; 256]);
    Ok(())
}

const LEFT: [f32; 4] = [0.0, 0.0, 6.0, 16.0];

/// Depths of a half at the left, and of 1 at the right.
fn halved(gpu: &Gpu<'_>, usage: vk::ImageUsageFlags) -> Outcome<Canvas> {
    let depths = gpu.canvas(depth_form(vk::Format::D16_UNORM).used(usage))?;
    let mut plan = Plan::plain()?;
    plan.targets(&[]).with_depth(depths, vk::CompareOp::LESS);
    let rendering = Rendering::of(&[]).depth(depths.filled_to(1.0, 0));
    sketch_on(gpu, &rendering, &plan, &at(0.5, &rectangle(LEFT, RED)))?;
    Ok(depths)
}

fn loaded(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, halved(&gpu, vk::ImageUsageFlags::empty())?);
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, vk::CompareOp::GREATER);
    let rendering = Rendering::blank(canvas).depth(depths.loaded());
    sketch_on(&gpu, &rendering, &plan, &at(0.75, &whole_area(RED)))?;
    pictured(&gpu.words(canvas)?, boxed(LEFT, RED, BLANK))
}

fn read_only(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, halved(&gpu, vk::ImageUsageFlags::empty())?);
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, vk::CompareOp::GREATER);
    plan.depth.depth_write_enable = vk::FALSE;
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&at(0.75, &whole_area(GREEN)))?);
    let layout = L::DEPTH_STENCIL_READ_ONLY_OPTIMAL;
    let mut target = depths.loaded();
    (target.layout, target.store) = (layout, vk::AttachmentStoreOp::NONE);
    gpu.run(|commands| {
        commands.change(depths.image, [depths.layout, layout]);
        commands.begin(&Rendering::blank(canvas).depth(target));
        commands.brush(&brush).vertices(&vertices).draw(6).end();
        commands.change(depths.image, [layout, depths.layout]);
    })?;
    pictured(&gpu.words(canvas)?, boxed(LEFT, GREEN, BLANK))?;
    let stored = gpu.bytes_of_canvas(depths, DEPTH)?;
    same!(stored[30..32], [0xff, 0xff]);
    require!(stored[..2] != [0xff, 0xff], "the left is not nearer");
    Ok(())
}

fn sampled(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let depths = halved(&gpu, vk::ImageUsageFlags::SAMPLED)?;
    let source = "
        @group(0) @binding(0) var depths: texture_depth_2d;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment(@builtin(position) place: vec4<f32>) -> @location(0) vec4<f32> {
            return vec4(step(textureLoad(depths, vec2<u32>(place.xy), 0), 0.9), 0.0, 0.0, 1.0);
        }";
    let mut plan = Plan::of(source)?;
    plan.slots = vec![Slot(0, vk::DescriptorType::SAMPLED_IMAGE, 1)];
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&whole_area(RED))?);
    let set = gpu.empty_set(&brush, 0)?;
    let layout = L::DEPTH_STENCIL_READ_ONLY_OPTIMAL;
    let shown = vk::DescriptorImageInfo::default().image_view(depths.view).image_layout(layout);
    gpu.write_images(set, 0, vk::DescriptorType::SAMPLED_IMAGE, &[shown]);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.change(depths.image, [depths.layout, layout]);
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.vertices(&vertices).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(LEFT, RED, 0xff00_0000))
}

fn written(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, halved(&gpu, vk::ImageUsageFlags::empty())?);
    let source = "
        struct Both { @location(0) colour: vec4<f32>, @builtin(frag_depth) depth: f32 }
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment(@builtin(position) place: vec4<f32>) -> Both {
            return Both(vec4(1.0, 0.0, 0.0, 1.0), select(0.25, 0.75, place.y < 8.0));
        }";
    let mut plan = Plan::of(source)?;
    plan.with_depth(depths, vk::CompareOp::LESS);
    let rendering = Rendering::blank(canvas).depth(depths.loaded());
    sketch_on(&gpu, &rendering, &plan, &at(0.9, &whole_area(RED)))?;
    pictured(&gpu.words(canvas)?, boxed([0.0, 0.0, 6.0, 8.0], BLANK, RED))
}

fn copied(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let depths = gpu.canvas(depth_form(vk::Format::D16_UNORM))?;
    let rows = (0..256u32).map(|place| (place / 16 * 4096) as u16);
    let buffer = gpu.buffer_of_bytes(&rows.flat_map(u16::to_le_bytes).collect::<Vec<_>>())?;
    let target = L::TRANSFER_DST_OPTIMAL;
    gpu.run(|commands| {
        commands.change(depths.image, [depths.layout, target]);
        commands.to_image_in(&buffer, (depths.image, target), &[depths.image.form.whole(0)]);
        commands.change(depths.image, [target, depths.layout]);
    })?;
    let canvas = gpu.colours()?;
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, vk::CompareOp::LESS);
    let rendering = Rendering::blank(canvas).depth(depths.loaded());
    // Between the depths of the fifth row and the sixth.
    sketch_on(&gpu, &rendering, &plan, &at(4.5 / 16.0, &whole_area(RED)))?;
    pictured(&gpu.words(canvas)?, |_, y| if y > 5.0 { RED } else { BLANK })
}

fn in_part(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = both(&gpu, lab)?;
    let clear = |part, depth, stencil| {
        let depth_stencil = vk::ClearDepthStencilValue { depth, stencil };
        let value = vk::ClearValue { depth_stencil };
        vk::ClearAttachment::default().aspect_mask(part).clear_value(value)
    };
    let rect = |x| vk::ClearRect {
        rect: crate::lab::area([x, 0], [8, 16]),
        base_array_layer: 0,
        layer_count: 1,
    };
    gpu.run(|commands| {
        commands.begin(&Rendering::of(&[]).both(canvas.filled_to(0.5, 1)));
        commands.clear_targets(&[clear(STENCIL, 0.9, 7)], &[rect(0)]);
        commands.clear_targets(&[clear(DEPTH, 0.5, 8)], &[rect(0), rect(8)]).end();
    })?;
    all_near(&gpu, canvas, 0.5)?;
    let right: Vec<u8> = (0..256).map(|place| if place % 16 < 8 { 7 } else { 1 }).collect();
    same!(gpu.bytes_of_canvas(canvas, STENCIL)?, right);
    Ok(())
}
