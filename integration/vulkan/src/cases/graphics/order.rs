// SPDX-License-Identifier: MIT OR Apache-2.0

//! Draws beside dispatches and copies ("Synchronization and Cache Control"): each sees what barriers have it see.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Buffer, GREEN, Gpu, Kernel, Lab, Module, Outcome, Plan, RED, Rendering, Slot,
    YELLOW, boxed, bytes_of, colour_form, compile, pictured, rectangle, same, shown, whole_area,
};
use ash::vk::{self, ImageLayout as L};

pub(super) const CASES: &[Case] = &[
    case(
        "graphics.order.vertices-of-a-dispatch",
        "a draw takes vertices that a dispatch stored",
        vertices,
    ),
    case("graphics.order.vertices-of-a-copy", "a draw takes vertices that a copy stored", |lab| {
        let gpu = lab.graphics()?;
        let from = gpu.corners(&rectangle(PART, RED))?;
        let to = gpu.local(48)?;
        let (brush, canvas) = (gpu.drawer(&Plan::plain()?)?, gpu.colours()?);
        gpu.run(|commands| {
            commands.copy(&from, &to, &[(0, 0, 48)]).buffer_barrier(&to);
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&to).draw(6).end();
        })?;
        pictured(&gpu.words(canvas)?, boxed(PART, RED, BLANK))
    }),
    case(
        "graphics.order.dispatch-after-draw",
        "a dispatch reads texels that a draw stored",
        dispatch_after,
    ),
    case(
        "graphics.order.draw-after-dispatch",
        "a draw reads texels that a dispatch stored",
        draw_after,
    ),
    case(
        "graphics.order.draw-after-draw",
        "a draw reads texels that another drew on another canvas",
        drawn_by_turns,
    ),
    case("graphics.order.copy-between", "copies between draws take what was drawn before", copies),
    case(
        "graphics.order.triangles",
        "triangles of one draw are drawn in their order, without blending",
        |lab| {
            let gpu = lab.graphics()?;
            let all: Vec<_> =
                (0..200).flat_map(|number| whole_area(0xff00_0000 | number)).collect();
            pictured(&crate::lab::sketch(&gpu, &Plan::plain()?, &all)?, |_, _| 0xff00_0000 | 199)
        },
    ),
    case("graphics.order.instances", "instances are drawn in their order", |lab| {
        let gpu = lab.graphics()?;
        let source = "
            struct Seen { @builtin(position) place: vec4<f32>, @location(0) @interpolate(flat) number: u32 }
            @vertex fn vertex(@location(0) place: vec4<f32>, @builtin(instance_index) instance: u32) -> Seen { return Seen(place, instance); }
            @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> { return vec4(f32(seen.number) / 255.0, 0.0, 0.0, 1.0); }";
        let (brush, vertices) = (gpu.drawer(&Plan::of(source)?)?, gpu.corners(&whole_area(RED))?);
        let canvas = gpu.colours()?;
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.draw_some([6, 100], [0, 0]).end();
        })?;
        pictured(&gpu.words(canvas)?, |_, _| 0xff00_0063)
    }),
    case(
        "graphics.order.submissions",
        "a submission draws on what one before it drew, behind a semaphore",
        submissions,
    ),
];

const PART: [f32; 4] = [2.0, 5.0, 14.0, 11.0];

fn vertices(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "@group(0) @binding(0) var<storage, read_write> words: array<vec4<f32>>;
        @compute @workgroup_size(6) fn main(@builtin(local_invocation_index) at: u32) {
            let right = f32((0x32u >> at) & 1u);
            let low = f32((0x2cu >> at) & 1u);
            words[at * 2u] = vec4(right, low * 2.0 - 1.0, 0.0, 1.0);
            words[at * 2u + 1u] = vec4(0.0, 1.0, 0.0, 1.0);
        }";
    let kernel = gpu.simple(Module(&compile(source)?), 1, 0)?;
    let stored = gpu.local(48)?;
    let set = gpu.set(&kernel, &[stored])?;
    let (brush, canvas) = (gpu.drawer(&Plan::plain()?)?, gpu.colours()?);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).buffer_barrier(&stored);
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&stored).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed([8.0, 0.0, 16.0, 16.0], GREEN, BLANK))
}

/// A kernel that stores, as words, how red an image of 16 by 16 texels is.
fn reads<'g>(gpu: &'g Gpu<'_>) -> Outcome<(Kernel, Buffer<'g>)> {
    let source = "@group(0) @binding(0) var image: texture_2d<f32>;
        @group(0) @binding(1) var<storage, read_write> words: array<u32>;
        @compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
            words[at.y * 16u + at.x] = u32(textureLoad(image, at.xy, 0).r * 255.0);
        }";
    let slots = [
        Slot(0, vk::DescriptorType::SAMPLED_IMAGE, 1),
        Slot(1, vk::DescriptorType::STORAGE_BUFFER, 1),
    ];
    Ok((gpu.kernel(Module(&compile(source)?), &[&slots], 0, &[])?, gpu.buffer(256)?))
}

fn dispatch_after(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let form = colour_form(vk::Format::R8G8B8A8_UNORM).used(vk::ImageUsageFlags::SAMPLED);
    let canvas = gpu.canvas(form)?;
    let (kernel, words) = reads(&gpu)?;
    let set = gpu.empty_set(&kernel, 0)?;
    let read = L::SHADER_READ_ONLY_OPTIMAL;
    let image = vk::DescriptorImageInfo::default().image_view(canvas.view).image_layout(read);
    gpu.write_images(set, 0, vk::DescriptorType::SAMPLED_IMAGE, &[image]);
    gpu.write(set, 1, vk::DescriptorType::STORAGE_BUFFER, &[crate::lab::whole(&words)]);
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&rectangle(PART, RED))?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices).draw(6).end();
        commands.change_2(canvas.image, [canvas.layout, read]);
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(1, 1, 1).barrier();
    })?;
    pictured(&words.read(), boxed(PART, 255, 0))
}

/// A pipeline that draws the texels of an image, each at its place, and exchanges red and green.
fn shows(gpu: &Gpu<'_>) -> Outcome<Kernel> {
    let source = "
        @group(0) @binding(0) var image: texture_2d<f32>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment(@builtin(position) place: vec4<f32>) -> @location(0) vec4<f32> {
            return textureLoad(image, vec2<u32>(place.xy), 0).grba;
        }";
    let mut plan = Plan::of(source)?;
    plan.slots = vec![Slot(0, vk::DescriptorType::SAMPLED_IMAGE, 1)];
    gpu.drawer(&plan)
}

fn draw_after(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "@group(0) @binding(0) var image: texture_storage_2d<rgba8unorm, write>;
        @compute @workgroup_size(16, 16) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
            textureStore(image, at.xy, vec4(f32(at.x), f32(at.y), 0.0, 255.0) / 255.0);
        }";
    let slots = [Slot(0, vk::DescriptorType::STORAGE_IMAGE, 1)];
    let kernel = gpu.kernel(Module(&compile(source)?), &[&slots], 0, &[])?;
    let form = crate::lab::Form::flat(vk::Format::R8G8B8A8_UNORM, 16, 16).storage().sampled();
    let image = gpu.image_of(form, &[bytes_of(&[0; 256])])?;
    let view = gpu.view(image.look(vk::ImageViewType::TYPE_2D))?;
    let (brush, vertices, canvas) = (shows(&gpu)?, gpu.corners(&whole_area(RED))?, gpu.colours()?);
    let sets = [gpu.empty_set(&kernel, 0)?, gpu.empty_set(&brush, 0)?];
    gpu.write_images(sets[0], 0, vk::DescriptorType::STORAGE_IMAGE, &[shown(view)]);
    gpu.write_images(sets[1], 0, vk::DescriptorType::SAMPLED_IMAGE, &[shown(view)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &sets[..1]).dispatch(1, 1, 1).barrier();
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &sets[1..], &[]);
        commands.vertices(&vertices).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, |x, y| 0xff00_0000 | (x as u32) << 8 | y as u32)
}

fn drawn_by_turns(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let form = colour_form(vk::Format::R8G8B8A8_UNORM).used(vk::ImageUsageFlags::SAMPLED);
    let canvases = [gpu.canvas(form)?, gpu.canvas(form)?];
    let (first, brush) = (gpu.drawer(&Plan::plain()?)?, shows(&gpu)?);
    let vertices = gpu.corners(&[rectangle(PART, RED), whole_area(RED)].concat())?;
    let read = L::SHADER_READ_ONLY_OPTIMAL;
    let sets = [gpu.empty_set(&brush, 0)?, gpu.empty_set(&brush, 0)?];
    for (set, canvas) in sets.iter().zip(canvases) {
        let image = vk::DescriptorImageInfo::default().image_view(canvas.view).image_layout(read);
        gpu.write_images(*set, 0, vk::DescriptorType::SAMPLED_IMAGE, &[image]);
    }
    gpu.run(|commands| {
        commands
            .vertices(&vertices)
            .begin(&Rendering::blank(canvases[0]))
            .brush(&first)
            .draw(6)
            .end();
        // Nine times there or back.
        for turn in 0..9 {
            let (from, to) = (canvases[turn % 2], canvases[(turn + 1) % 2]);
            commands.change(from.image, [from.layout, read]);
            commands.begin(&Rendering::blank(to)).brush(&brush);
            commands.brush_sets(&brush, &[sets[turn % 2]], &[]).draw_some([6, 1], [6, 0]).end();
            commands.change(from.image, [read, from.layout]);
        }
    })?;
    pictured(&gpu.words(canvases[1])?, boxed(PART, GREEN, BLANK))
}

fn copies(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = gpu.colours()?;
    let all = [whole_area(RED), rectangle(PART, BLUE), whole_area(YELLOW)].concat();
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&all)?);
    let copies = [gpu.buffer(256)?, gpu.buffer(256)?, gpu.buffer(256)?];
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).end().barrier();
        for (first, copy) in [0, 6, 12].into_iter().zip(&copies) {
            commands.begin(&Rendering::on(canvas)).brush(&brush).vertices(&vertices);
            commands.draw_some([6, 1], [first, 0]).end();
            commands.change(canvas.image, [canvas.layout, L::TRANSFER_SRC_OPTIMAL]);
            let whole = [canvas.image.form.whole(0)];
            commands.out_of_image_in((canvas.image, L::TRANSFER_SRC_OPTIMAL), copy, &whole);
            commands.change(canvas.image, [L::TRANSFER_SRC_OPTIMAL, canvas.layout]);
        }
        commands.barrier();
    })?;
    pictured(&copies[0].read(), |_, _| RED)?;
    pictured(&copies[1].read(), boxed(PART, BLUE, RED))?;
    pictured(&copies[2].read(), |_, _| YELLOW)
}

fn submissions(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let queue = gpu.queue()?;
    let (canvas, timeline) = (gpu.colours()?, gpu.timeline(0)?);
    let all = [whole_area(RED), rectangle(PART, BLUE)].concat();
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&all)?);
    let draws = |rendering: Rendering, first| {
        gpu.record(queue, |commands| {
            commands.begin(&rendering).brush(&brush).vertices(&vertices);
            commands.draw_some([6, 1], [first, 0]).end();
        })
    };
    let parts = [draws(Rendering::blank(canvas), 0)?, draws(Rendering::on(canvas), 6)?];
    for (value, part) in (0..).zip(&parts) {
        let (wait, signal) =
            ([crate::lab::At(timeline, value)], [crate::lab::At(timeline, value + 1)]);
        let submit = crate::lab::Submit {
            wait: &wait,
            commands: std::slice::from_ref(part),
            signal: &signal,
        };
        gpu.submit_2(queue, submit, vk::Fence::null())?;
    }
    gpu.wait_for(&[crate::lab::At(timeline, 2)], true, crate::lab::PATIENCE)?;
    pictured(&gpu.words(canvas)?, boxed(PART, BLUE, RED))?;
    same!(gpu.value(timeline)?, 2);
    Ok(())
}
