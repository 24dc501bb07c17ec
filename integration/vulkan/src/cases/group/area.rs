// SPDX-License-Identifier: MIT OR Apache-2.0

//! Renderings of which each device of a group has a part (`VkDeviceGroupRenderPassBeginInfo`).

use super::count::all;
use crate::case::{Case, case};
use crate::lab::{
    BLUE, Canvas, GREEN, Gpu, Lab, Outcome, PassForm, Plan, RED, Rendering, SIZE, area, begun,
    pictured, sketch_on, whole_area,
};
use ash::vk::{self, AttachmentLoadOp as Load, SubpassContents};

pub(super) const CASES: &[Case] = &[
    case("group.area.rendering", "each device of a rendering fills and draws its area", rendering),
    case("group.area.pass", "each device of a render pass fills its area", pass),
    case("group.area.mask", "a rendering is on the devices of its mask alone", mask),
    case(
        "group.area.interrupted",
        "a barrier in a render pass leaves each device its area",
        interrupted,
    ),
    case("group.area.after", "what comes behind such a rendering is for all devices again", after),
];

type OfGroup<'a> = vk::DeviceGroupRenderPassBeginInfo<'a>;

/// The value that renderings fill with.
const FILLING: [f32; 4] = [0.0, 1.0, 0.0, 1.0];
/// What is left free between the areas of two devices.
const GAP: u32 = 2;

/// Rows of each device's area.
const fn rows(devices: u32) -> u32 {
    SIZE / devices - GAP
}

/// The area of each device: a stripe.
fn stripes(devices: u32) -> Vec<vk::Rect2D> {
    let stripe = |device| area([0, (device * (SIZE / devices)) as i32], [SIZE, rows(devices)]);
    (0..devices).map(stripe).collect()
}

/// What is seen where the stripes of these devices have one colour, and the rest another.
fn striped(devices: u32, mask: u32, [inside, outside]: [u32; 2]) -> impl Fn(f32, f32) -> u32 {
    move |_, y| {
        let (device, row) = (y as u32 / (SIZE / devices), y as u32 % (SIZE / devices));
        let is_inside = device < devices && row < rows(devices) && mask >> device & 1 == 1;
        if is_inside { inside } else { outside }
    }
}

/// A canvas that is blue, for whichever device.
fn blue<'g>(gpu: &'g Gpu<'g>) -> Outcome<Canvas> {
    let canvas = gpu.colours()?;
    sketch_on(gpu, &Rendering::blank(canvas), &Plan::plain()?, &whole_area(BLUE))?;
    Ok(canvas)
}

fn rendering(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.drawing_group()?;
    let (canvas, queue) = (blue(&gpu)?, gpu.queue()?);
    let stripes = stripes(devices);
    let group = OfGroup::default().device_mask(all(devices)).device_render_areas(&stripes);
    let filled = Rendering::of(&[canvas.filled_with(FILLING)]);
    let commands = gpu.record(queue, |commands| {
        commands.begin_of_group(&filled, group).end();
    })?;
    for mask in 1..=all(devices) {
        sketch_on(&gpu, &Rendering::blank(canvas), &Plan::plain()?, &whole_area(BLUE))?;
        gpu.finish_on(queue, commands, mask)?;
        pictured(&gpu.words(canvas)?, striped(devices, mask, [GREEN, BLUE]))?;
    }
    // Each device draws in its area, too.
    let corners = gpu.corners(&whole_area(RED))?;
    let brushes = stripes.iter().map(|stripe| {
        let mut plan = Plan::plain()?;
        plan.scissors = vec![*stripe];
        gpu.drawer(&plan)
    });
    let brushes = brushes.collect::<Outcome<Vec<_>>>()?;
    let commands = gpu.record(queue, |commands| {
        let group = OfGroup::default().device_mask(all(devices)).device_render_areas(&stripes);
        commands.begin_of_group(&filled, group);
        for (device, brush) in (0..).zip(&brushes) {
            commands.only(1 << device).brush(brush).vertices(&corners).draw(6);
        }
        commands.only(all(devices)).end();
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    pictured(&gpu.words(canvas)?, striped(devices, all(devices), [RED, BLUE]))
}

fn pass(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.drawing_group()?;
    let (canvas, queue) = (blue(&gpu)?, gpu.queue()?);
    let pass = gpu.pass(&PassForm::simple(canvas, Load::CLEAR))?;
    let framebuffer = gpu.framebuffer(pass, &[canvas])?;
    let stripes = stripes(devices);
    let mut group = OfGroup::default().device_mask(all(devices)).device_render_areas(&stripes);
    let values = [vk::ClearValue { color: vk::ClearColorValue { float32: FILLING } }];
    let begin = begun(pass, framebuffer, &values).push_next(&mut group);
    let commands = gpu.record(queue, |commands| {
        commands.begin_pass(&begin, SubpassContents::INLINE).end_pass();
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    pictured(&gpu.words(canvas)?, striped(devices, all(devices), [GREEN, BLUE]))
}

fn mask(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.drawing_group()?;
    let (canvas, queue) = (blue(&gpu)?, gpu.queue()?);
    let filled = Rendering::of(&[canvas.filled_with(FILLING)]);
    for device in 0..devices {
        let commands = gpu.record(queue, |commands| {
            let group = OfGroup::default().device_mask(1 << device);
            commands.begin_of_group(&filled, group).end();
        })?;
        for other in 0..devices {
            sketch_on(&gpu, &Rendering::blank(canvas), &Plan::plain()?, &whole_area(BLUE))?;
            gpu.finish_on(queue, commands, 1 << other)?;
            let right = if other == device { GREEN } else { BLUE };
            pictured(&gpu.words(canvas)?, |_, _| right)?;
        }
    }
    Ok(())
}

fn interrupted(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.drawing_group()?;
    let (canvas, queue) = (blue(&gpu)?, gpu.queue()?);
    let stripes = stripes(devices);
    let filled = Rendering::of(&[canvas.filled_with(FILLING)]);
    let commands = gpu.record(queue, |commands| {
        let group = OfGroup::default().device_mask(all(devices)).device_render_areas(&stripes);
        commands.begin_of_group(&filled, group);
        // Another mask has the rendering end and go on.
        for device in 0..devices {
            commands.only(1 << device);
        }
        commands.only(all(devices)).end();
    })?;
    gpu.finish_on(queue, commands, all(devices))?;
    pictured(&gpu.words(canvas)?, striped(devices, all(devices), [GREEN, BLUE]))
}

fn after(lab: &Lab) -> Outcome {
    let (gpu, devices) = lab.drawing_group()?;
    let (canvas, queue) = (blue(&gpu)?, gpu.queue()?);
    let marks = gpu.buffer(devices as usize)?;
    let filled = Rendering::of(&[canvas.filled_with(FILLING)]);
    let commands = gpu.record(queue, |commands| {
        let group = OfGroup::default().device_mask(0b10);
        commands.begin_of_group(&filled, group).end();
        commands.fill(&marks, 0, 4, 7).barrier();
    })?;
    gpu.finish_on(queue, commands, 1)?;
    pictured(&gpu.words(canvas)?, |_, _| BLUE)?;
    crate::lab::same!(marks.first(1), [7]);
    Ok(())
}
