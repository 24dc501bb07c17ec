// SPDX-License-Identifier: MIT OR Apache-2.0

//! What fragments store in buffers and images ("Fragment Shader Execution", "Early Per-Fragment Tests").

use crate::case::{Case, case};
use crate::lab::{
    Form, Lab, Outcome, Plan, RED, Rendering, Slot, at, boxed, depth_form, pictured, rectangle,
    same, shown,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("fragment.count", "each texel of a triangle has one fragment", |lab| {
        counted(lab, "", &rectangle(PART, RED), 1.0, 63)
    }),
    case("fragment.count-over", "each triangle has fragments of its own", |lab| {
        counted(lab, "", &[rectangle(PART, RED), rectangle(PART, RED)].concat(), 1.0, 126)
    }),
    case(
        "fragment.early",
        "fragments that are hidden store nothing where tests come first",
        |lab| {
            counted(lab, "@early_depth_test(force)", &at(0.75, &rectangle(PART, RED)), 0.5, 0)?;
            counted(lab, "@early_depth_test(force)", &at(0.25, &rectangle(PART, RED)), 0.5, 63)
        },
    ),
    case("fragment.no-helpers", "fragments that only help their neighbours store nothing", |lab| {
        counted(lab, "", &rectangle([3.0, 3.0, 4.0, 4.0], RED), 1.0, 1)
    }),
    case("fragment.image-store", "fragments store texels of an image", image),
];

const PART: [f32; 4] = [3.0, 5.0, 12.0, 12.0];

fn counted(
    lab: &Lab,
    early: &str,
    corners: &[crate::lab::Corner],
    depth: f32,
    right: u32,
) -> Outcome {
    lab.needs("fragmentStoresAndAtomics", lab.features().core.fragment_stores_and_atomics)?;
    let gpu = lab.graphics()?;
    let source = format!(
        "@group(0) @binding(0) var<storage, read_write> count: atomic<u32>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> {{ return place; }}
        @fragment {early} fn fragment(@builtin(position) place: vec4<f32>) -> @location(0) vec4<f32> {{
            atomicAdd(&count, 1u);
            return vec4(dpdx(place.x), 0.0, 0.0, 1.0);
        }}"
    );
    let mut plan = Plan::of(&source)?;
    plan.slots = vec![Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
    let (canvas, depths) = (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D16_UNORM))?);
    plan.with_depth(depths, vk::CompareOp::LESS);
    let (brush, vertices, count) = (gpu.drawer(&plan)?, gpu.corners(corners)?, gpu.buffer(1)?);
    // What is drawn twice at one depth is not hidden by itself.
    plan.depth.depth_write_enable = vk::FALSE;
    let brush = if corners.len() > 6 { gpu.drawer(&plan)? } else { brush };
    let set = gpu.set(&brush, &[count])?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).depth(depths.filled_to(depth, 0)));
        commands.brush(&brush).brush_sets(&brush, &[set], &[]).vertices(&vertices);
        commands.draw(corners.len() as u32).end().barrier();
    })?;
    same!(count.word(0), right);
    Ok(())
}

fn image(lab: &Lab) -> Outcome {
    lab.needs("fragmentStoresAndAtomics", lab.features().core.fragment_stores_and_atomics)?;
    let gpu = lab.graphics()?;
    let source = "
        @group(0) @binding(0) var stored: texture_storage_2d<r32uint, write>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment(@builtin(position) place: vec4<f32>) -> @location(0) vec4<f32> {
            textureStore(stored, vec2<u32>(place.yx), vec4(9u));
            return vec4(1.0);
        }";
    let mut plan = Plan::of(source)?;
    plan.slots = vec![Slot(0, vk::DescriptorType::STORAGE_IMAGE, 1)];
    let form = Form::flat(vk::Format::R32_UINT, 16, 16).storage();
    let image = gpu.image_of(form, &[vec![0; 1024]])?;
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&rectangle(PART, RED))?);
    let set = gpu.empty_set(&brush, 0)?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    gpu.write_images(set, 0, vk::DescriptorType::STORAGE_IMAGE, &[shown(view)]);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.vertices(&vertices).draw(6).end();
    })?;
    let [left, top, right, bottom] = PART;
    pictured(&gpu.level_words(image, 0)?, boxed([top, left, bottom, right], 9, 0))
}
