// SPDX-License-Identifier: MIT OR Apache-2.0

//! Draws that a device does not survive.

use super::{LOST, adds};
use crate::case::{Case, case};
use crate::lab::{
    Failure, Gpu, Lab, Outcome, Plan, RED, Rendering, Slot, pictured, same, whole_area,
};
use ash::vk;

pub(crate) const CASES: &[Case] = &[
    case(
        "lost.vertices",
        "a draw of vertices whose memory was given back loses its device, and another device draws on",
        freed_vertices,
    ),
    case(
        "lost.indices",
        "a draw whose indices name no vertices harms nothing but what it draws",
        wild_indices,
    ),
];

/// Counts by a word until it is 1. The word is 2, which no compiler knows.
const ENDLESS: &str = "
    @group(0) @binding(0) var<storage, read> step: u32;
    fn endless() -> f32 {
        var count = 0u;
        loop {
            count += step;
            if count == 1u { break; }
        }
        return f32(count);
    }";

/// Corners of a triangle that covers everything.
const COVERS: &str = "vec4(f32(number & 1u) * 4.0 - 1.0, f32(number >> 1u) * 4.0 - 1.0, 0.0, 1.0)";

/// A stage of drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Vertex,
    Fragment,
}

impl Lab {
    /// A device that draws, if there is one that does.
    pub(super) fn drawer_if_any(&self) -> Outcome<Gpu<'_>> {
        match self.graphics() {
            Err(Failure::NotOffered(_)) => self.gpu(),
            other => other,
        }
    }
}

/// Submits a draw whose stage does not end, and returns what comes of it.
pub(super) fn hang(gpu: &Gpu<'_>, stage: Stage) -> Outcome<Result<(), vk::Result>> {
    let [vertex, fragment] = match stage {
        Stage::Vertex => ["+ endless()", "1.0"],
        Stage::Fragment => ["", "endless()"],
    };
    let source = format!(
        "{ENDLESS}
        @vertex fn vertex(@builtin(vertex_index) number: u32) -> @builtin(position) vec4<f32> {{
            return {COVERS} {vertex};
        }}
        @fragment fn fragment() -> @location(0) vec4<f32> {{ return vec4({fragment}); }}"
    );
    let mut plan = Plan::bare(&source)?;
    plan.slots = vec![Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
    let (brush, canvas) = (gpu.drawer(&plan)?, gpu.colours()?);
    let set = gpu.set(&brush, &[gpu.buffer_of(&[2])?])?;
    let queue = gpu.queue()?;
    let commands = gpu.record(queue, |commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.draw(3).end();
    })?;
    Ok(gpu.finish(queue, &[commands]))
}

/// Draws on a device.
pub(in crate::cases) fn draws(gpu: &Gpu<'_>) -> Outcome {
    let (brush, corners) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&whole_area(RED))?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&corners).draw(6).end();
    })?;
    pictured(&gpu.words(canvas)?, |_, _| RED)
}

fn freed_vertices(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let (abused, other) = (lab.graphics()?, lab.graphics()?);
    let (brush, canvas, queue) =
        (abused.drawer(&Plan::plain()?)?, abused.colours()?, abused.queue()?);
    let mut recorded = None;
    // Large memory goes back to the device, and not to a heap of the driver's.
    abused.with_short_lived(16 << 20, |buffer| {
        let commands = abused.record(queue, |commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(buffer);
            commands.draw(6).end();
        })?;
        same!(abused.finish(queue, &[commands]), Ok(()));
        recorded = Some(commands);
        Ok(())
    })?;
    same!(abused.finish(queue, &Vec::from_iter(recorded)), LOST);
    draws(&other)?;
    adds(&other)
}

fn wild_indices(lab: &Lab) -> Outcome {
    lab.bellhop_alone()?;
    let (abused, other) = (lab.graphics()?, lab.graphics()?);
    let (brush, corners) = (abused.drawer(&Plan::plain()?)?, abused.corners(&whole_area(RED))?);
    let (canvas, queue) = (abused.colours()?, abused.queue()?);
    let indices = abused.buffer_of(&[7, 0xFFFF_FFF0, 0x7FFF_FFFF, 0x8000_0000, 100_000, 6])?;
    let commands = abused.record(queue, |commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&corners);
        commands.indices(&indices, 0, vk::IndexType::UINT32).draw_indexed(6).end();
    })?;
    // Vertices that are not there are anything, or cost the device.
    let outcome = abused.finish(queue, &[commands]);
    if outcome != LOST {
        same!(outcome, Ok(()));
    }
    draws(&other)?;
    adds(&other)
}
