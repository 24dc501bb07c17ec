// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attachments whose memory is taken from draws.

use super::drawing::draws;
use super::{LOST, adds};
use crate::case::{Case, case};
use crate::lab::{
    Canvas, Failure, Form, Gpu, Kernel, Lab, Outcome, PATIENCE, Plan, RED, Rendering, Submit, area,
    same, viewport, whole_area,
};
use ash::vk;
use std::thread;

pub(crate) const CASES: &[Case] = &[
    case(
        "lost.attachment",
        "draws on an image whose memory was given back lose their device, and another device draws on",
        freed_before,
    ),
    case(
        "lost.attachment-meanwhile",
        "memory that is given back at any moment of draws on it costs their device at most, and another device draws on",
        freed_meanwhile,
    ),
];

/// Texels of a canvas, in each direction: its memory goes back to the device, and not to a heap of the driver's.
const WIDE: u32 = 2048;
/// Draws of all of it, which take some milliseconds each.
const DRAWS: usize = 20;
/// Moments at which memory is given back, and how often a processor is left to others from one to the next.
const MOMENTS: usize = 12;
const PAUSE: usize = 200;

/// A device with what draws on all of a canvas.
struct Abused<'l> {
    gpu: Gpu<'l>,
    plan: Plan<'static>,
}

impl<'l> Abused<'l> {
    fn new(lab: &'l Lab) -> Outcome<Self> {
        let mut plan = Plan::plain()?;
        let side = WIDE as f32;
        plan.viewports = vec![viewport([0.0; 2], [side; 2])];
        plan.scissors = vec![area([0; 2], [WIDE; 2])];
        Ok(Self { gpu: lab.graphics()?, plan })
    }

    /// Records draws on a canvas.
    fn record(&self, brush: &Kernel, canvas: Canvas) -> Outcome<vk::CommandBuffer> {
        let corners = self.gpu.corners(&whole_area(RED))?;
        let whole = area([0; 2], [WIDE; 2]);
        self.gpu.record(self.gpu.queue()?, |commands| {
            commands.begin(&Rendering::blank(canvas).within(whole)).brush(brush);
            commands.vertices(&corners);
            for _ in 0..DRAWS {
                commands.draw(6);
            }
            commands.end();
        })
    }

    /// A canvas with memory that can be given back, and commands that draw on it.
    fn prepare(&self) -> Outcome<(vk::DeviceMemory, vk::CommandBuffer)> {
        let form = Form::flat(vk::Format::R8G8B8A8_UNORM, WIDE, WIDE)
            .used(vk::ImageUsageFlags::COLOR_ATTACHMENT);
        let (canvas, memory) = self.gpu.short_lived_canvas(form)?;
        Ok((memory, self.record(&self.gpu.drawer(&self.plan)?, canvas)?))
    }
}

fn freed_before(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let (abused, other) = (Abused::new(lab)?, lab.graphics()?);
    let (memory, commands) = abused.prepare()?;
    let queue = abused.gpu.queue()?;
    same!(abused.gpu.finish(queue, &[commands]), Ok(()));
    abused.gpu.give_back(memory);
    same!(abused.gpu.finish(queue, &[commands]), LOST);
    draws(&other)?;
    adds(&other)
}

fn freed_meanwhile(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let other = lab.graphics()?;
    for moment in 0..MOMENTS {
        let abused = Abused::new(lab)?;
        let (memory, commands) = abused.prepare()?;
        let (queue, fence) = (abused.gpu.queue()?, abused.gpu.fence(false)?);
        let submit = Submit { commands: &[commands], ..Submit::default() };
        abused.gpu.submit(queue, &[submit], fence)?;
        (0..moment * PAUSE).for_each(|_| thread::yield_now());
        abused.gpu.give_back(memory);
        let outcome = abused.gpu.wait_fences(&[fence], true, PATIENCE);
        if outcome != LOST {
            same!(outcome, Ok(()));
        }
        draws(&other).map_err(|why| Failure::seen(format!("after moment {moment}: {why}")))?;
    }
    adds(&other)
}
