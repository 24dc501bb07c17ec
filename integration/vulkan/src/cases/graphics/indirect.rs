// SPDX-License-Identifier: MIT OR Apache-2.0

//! Draws whose parameters are in buffers ("Indirect Drawing").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Buffer, Gpu, Kernel, Lab, Module, Outcome, Parameters, Plan, RED, Recorder, Rendering,
    compile, pictured, rectangle,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("draw.indirect", "a draw takes its parameters from a buffer when it executes", |lab| {
        drawn(lab, &[0, 0, 6, 1, 6, 0], &[1], |commands, buffer| {
            commands.draw_indirect(Parameters { buffer, offset: 8, stride: 16 }, 1);
        })
    }),
    case("draw.indirect-none", "no draws of a buffer, or one of no instances, are none", |lab| {
        drawn(lab, &[6, 0, 6, 0], &[], |commands, buffer| {
            let from = Parameters { buffer, offset: 0, stride: 16 };
            commands.draw_indirect(from, 0).draw_indirect(from, 1);
        })
    }),
    case("draw.indirect-several", "several draws are as far apart as the command says", |lab| {
        several(lab)?;
        drawn(lab, &[6, 1, 0, 0, 9, 6, 1, 18, 0, 9, 6, 1, 12, 0], &[0, 2, 3], |commands, buffer| {
            commands.draw_indirect(Parameters { buffer, offset: 0, stride: 20 }, 3);
        })
    }),
    case(
        "draw.indirect-first-instance",
        "instances begin with the one that a buffer names",
        |lab| {
            let can = lab.features().core.draw_indirect_first_instance;
            lab.needs("drawIndirectFirstInstance", can)?;
            // The instance moves by whole columns.
            drawn(lab, &[6, 2, 0, 2], &[2, 3], |commands, buffer| {
                commands.draw_indirect(Parameters { buffer, offset: 0, stride: 16 }, 1);
            })
        },
    ),
    case(
        "draw.indirect-of-the-gpu",
        "a draw takes its parameters from what a dispatch stored",
        of_the_gpu,
    ),
    case("draw.indexed-indirect", "a draw of indices takes its parameters from a buffer", |lab| {
        drawn(lab, &[0, 6, 1, 6, 12, 0], &[2], |commands, buffer| {
            commands.draw_indexed_indirect(Parameters { buffer, offset: 4, stride: 20 }, 1);
        })
    }),
    case(
        "draw.indexed-indirect-several",
        "several draws of indices are as far apart as said",
        |lab| {
            several(lab)?;
            drawn(lab, &[6, 1, 0, 0, 0, 9, 6, 1, 0, 12, 0], &[0, 2], |commands, buffer| {
                commands.draw_indexed_indirect(Parameters { buffer, offset: 0, stride: 24 }, 2);
            })
        },
    ),
    case("draw.indirect-count", "a buffer says how many draws there are", |lab| {
        counted(lab)?;
        drawn(lab, &[2, 6, 1, 0, 0, 6, 1, 6, 0, 6, 1, 12, 0], &[0, 1], |commands, buffer| {
            let from = Parameters { buffer, offset: 4, stride: 16 };
            commands.draw_indirect_count(from, (buffer, 0), 3);
        })
    }),
    case("draw.indirect-count-most", "there are never more draws than the command says", |lab| {
        counted(lab)?;
        drawn(lab, &[99, 6, 1, 0, 0, 6, 1, 6, 0, 6, 1, 12, 0], &[0, 1], |commands, buffer| {
            let from = Parameters { buffer, offset: 4, stride: 16 };
            commands.draw_indirect_count(from, (buffer, 0), 2);
        })
    }),
    case("draw.indirect-count-none", "a count of none is no draw", |lab| {
        counted(lab)?;
        drawn(lab, &[0, 6, 1, 0, 0], &[], |commands, buffer| {
            let from = Parameters { buffer, offset: 4, stride: 16 };
            commands.draw_indirect_count(from, (buffer, 0), 1);
        })
    }),
    case(
        "draw.indexed-indirect-count",
        "a buffer says how many draws of indices there are",
        |lab| {
            counted(lab)?;
            drawn(
                lab,
                &[6, 1, 0, 0, 0, 6, 1, 0, 18, 0, 6, 1, 0, 6, 0, 2],
                &[0, 3],
                |commands, buffer| {
                    let from = Parameters { buffer, offset: 0, stride: 20 };
                    commands.draw_indexed_indirect_count(from, (buffer, 60), 3);
                },
            )
        },
    ),
];

fn several(lab: &Lab) -> Outcome {
    lab.needs("multiDrawIndirect", lab.features().core.multi_draw_indirect)
}

fn counted(lab: &Lab) -> Outcome {
    lab.needs("drawIndirectCount", lab.features().since_1_2.draw_indirect_count)
}

/// Takes corners, and moves them by a column for each instance.
const MOVED: &str = "
    @vertex fn vertex(@location(0) place: vec4<f32>, @builtin(instance_index) instance: u32)
        -> @builtin(position) vec4<f32> {
        return place + vec4(f32(instance) * 0.5, 0.0, 0.0, 0.0);
    }
    @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(1.0, 0.0, 0.0, 1.0); }";

/// A pipeline, and vertices of four columns.
fn scene<'g>(gpu: &'g Gpu<'_>) -> Outcome<(Kernel, Buffer<'g>)> {
    let column = |number: u32| {
        let left = number as f32 * 4.0;
        rectangle([left, 0.0, left + 4.0, 16.0], RED)
    };
    let corners: Vec<_> = (0..4).flat_map(column).collect();
    Ok((gpu.drawer(&Plan::of(MOVED)?)?, gpu.corners(&corners)?))
}

/// Requires that these of four columns are there.
fn columns(seen: &[u32], red: &[u32]) -> Outcome {
    pictured(seen, |x, _| if red.contains(&(x as u32 / 4)) { RED } else { BLANK })
}

/// Draws as a buffer says, whose words are stored after the recording. Its indices are 0 to 5, and 6 to 11.
fn drawn(
    lab: &Lab,
    words: &[u32],
    red: &[u32],
    draw: impl FnOnce(&Recorder<'_>, &Buffer<'_>),
) -> Outcome {
    let gpu = lab.graphics()?;
    let queue = gpu.queue()?;
    let (brush, vertices) = scene(&gpu)?;
    let (parameters, canvas) = (gpu.buffer(words.len())?, gpu.colours()?);
    let indices = gpu.buffer_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(|index| index % 6))?;
    let commands = gpu.record(queue, |commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.indices(&indices, 0, vk::IndexType::UINT32);
        draw(commands, &parameters);
        commands.end();
    })?;
    parameters.write(words);
    gpu.finish(queue, &[commands])?;
    columns(&gpu.words(canvas)?, red)
}

fn of_the_gpu(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (brush, vertices) = scene(&gpu)?;
    let source = "@group(0) @binding(0) var<storage, read_write> words: array<u32>;
        @compute @workgroup_size(1) fn main() { words[0] = 6; words[1] = 1; words[2] = 12; words[3] = 0; }";
    let writer = gpu.simple(Module(&compile(source)?), 1, 0)?;
    let (parameters, canvas) = (gpu.local(4)?, gpu.colours()?);
    let set = gpu.set(&writer, &[parameters])?;
    gpu.run(|commands| {
        commands.bind(&writer).sets(&writer, &[set]).dispatch(1, 1, 1).barrier();
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        let from = Parameters { buffer: &parameters, offset: 0, stride: 16 };
        commands.draw_indirect(from, 1).end();
    })?;
    columns(&gpu.words(canvas)?, &[2])
}
