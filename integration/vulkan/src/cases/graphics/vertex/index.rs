// SPDX-License-Identifier: MIT OR Apache-2.0

//! Indices ("Drawing Commands", "Primitive Topologies").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, Corner, GREEN, Lab, Outcome, Plan, RED, Recorder, Rendering, YELLOW, boxed,
    bytes_of, corners, drawn, is_in, pictured, rectangle,
};
use ash::vk;

const WORDS: vk::IndexType = vk::IndexType::UINT32;
const HALVES: vk::IndexType = vk::IndexType::UINT16;
const STRIP: vk::PrimitiveTopology = vk::PrimitiveTopology::TRIANGLE_STRIP;

pub(super) const CASES: &[Case] = &[
    case("index.words", "indices of 32 bits choose vertices", |lab| {
        indexed(lab, &bytes_of(&LEFT_OF_TWO), &[true, false], |commands, buffer| {
            commands.indices(buffer, 0, WORDS).draw_indexed(6);
        })
    }),
    case("index.halves", "indices of 16 bits choose vertices", |lab| {
        indexed(lab, &halves(&LEFT_OF_TWO), &[true, false], |commands, buffer| {
            commands.indices(buffer, 0, HALVES).draw_indexed(6);
        })
    }),
    case("index.offset", "indices begin at the byte that they are bound from", |lab| {
        let bytes = [halves(&[0xabc; 5]), halves(&RIGHT_OF_TWO)].concat();
        indexed(lab, &bytes, &[false, true], |commands, buffer| {
            commands.indices(buffer, 10, HALVES).draw_indexed(6);
        })
    }),
    case("index.first", "a draw begins with the index that it names", |lab| {
        let words = [[0; 6], RIGHT_OF_TWO].concat();
        indexed(lab, &bytes_of(&words), &[false, true], |commands, buffer| {
            commands.indices(buffer, 0, WORDS).draw_indexed_some([6, 1], [6, 0], 0);
        })
    }),
    case("index.added", "a number is added to each index", |lab| {
        indexed(lab, &halves(&LEFT_OF_TWO), &[false, true], |commands, buffer| {
            commands.indices(buffer, 0, HALVES).draw_indexed_some([6, 1], [0, 0], 4);
        })
    }),
    case("index.subtracted", "a number is subtracted from each index", |lab| {
        let far = RIGHT_OF_TWO.map(|index| index + 1000);
        indexed(lab, &halves(&far), &[true, false], |commands, buffer| {
            commands.indices(buffer, 0, HALVES).draw_indexed_some([6, 1], [0, 0], -1004);
        })
    }),
    case("index.wide", "indices of 32 bits are not cut before a number is added", |lab| {
        let far = RIGHT_OF_TWO.map(|index| index + 70_000);
        indexed(lab, &bytes_of(&far), &[false, true], |commands, buffer| {
            commands.indices(buffer, 0, WORDS).draw_indexed_some([6, 1], [0, 0], -70_000);
        })
    }),
    case("index.instances", "each instance has all indices", |lab| {
        indexed(lab, &bytes_of(&LEFT_OF_TWO), &[true, false], |commands, buffer| {
            commands.indices(buffer, 0, WORDS).draw_indexed_some([6, 3], [0, 7], 0);
        })
    }),
    case("index.rebound", "each draw has the indices that were bound last", |lab| {
        let bytes = [bytes_of(&LEFT_OF_TWO), halves(&RIGHT_OF_TWO)].concat();
        indexed(lab, &bytes, &[true, true], |commands, buffer| {
            commands.indices(buffer, 0, WORDS).draw_indexed(6);
            commands.indices(buffer, 24, HALVES).draw_indexed(6);
        })
    }),
    case("index.number", "a vertex has its index, with what is added, for a number", number),
    case("index.restart-halves", "the greatest index of 16 bits ends a strip", |lab| {
        restarted(lab, &halves(&[0, 1, 2, 0xffff, 3, 4, 5]), HALVES, true)
    }),
    case("index.restart-words", "the greatest index of 32 bits ends a strip", |lab| {
        restarted(lab, &bytes_of(&[0, 1, 2, u32::MAX, 3, 4, 5]), WORDS, true)
    }),
    case(
        "index.restart-added",
        "what ends a strip is what the buffer has, before a number is added",
        |lab| {
            let gpu = lab.graphics()?;
            let mut plan = Plan::plain()?;
            (plan.topology, plan.restart) = (STRIP, true);
            let brush = gpu.drawer(&plan)?;
            let vertices =
                gpu.corners(&[corners(&[[0.0; 2]; 3], RED), two_triangles()].concat())?;
            let indices = gpu.buffer_of_bytes(&halves(&[0, 1, 2, 0xffff, 3, 4, 5]))?;
            let canvas = gpu.colours()?;
            gpu.run(|commands| {
                commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
                commands.indices(&indices, 0, HALVES).draw_indexed_some([7, 1], [0, 0], 3).end();
            })?;
            pictured(&gpu.words(canvas)?, apart)
        },
    ),
    case("index.restart-dynamic", "whether an index ends a strip is set by a command", |lab| {
        restarted(lab, &bytes_of(&[0, 1, 2, u32::MAX, 3, 4, 5]), WORDS, false)
    }),
    case("index.shared", "triangles share vertices by their indices", |lab| {
        let seen = drawn(lab, |_| (), &rectangle([1.0, 1.0, 9.0, 5.0], BLUE))?;
        pictured(&seen, boxed([1.0, 1.0, 9.0, 5.0], BLUE, BLANK))?;
        indexed(
            lab,
            &halves(&[0, 1, 2, 2, 1, 3, 4, 5, 6, 6, 5, 7]),
            &[true, true],
            |commands, buffer| {
                commands.indices(buffer, 0, HALVES).draw_indexed(12);
            },
        )
    }),
];

/// Indices of the left of two rectangles with four corners each, and of the right.
const LEFT_OF_TWO: [u32; 6] = [0, 1, 2, 2, 1, 3];
const RIGHT_OF_TWO: [u32; 6] = [4, 5, 6, 6, 5, 7];
const LEFT: [f32; 4] = [1.0, 2.0, 7.0, 12.0];
const RIGHT: [f32; 4] = [9.0, 3.0, 14.0, 15.0];

/// Indices of 16 bits.
fn halves(indices: &[u32]) -> Vec<u8> {
    indices.iter().flat_map(|index| (*index as u16).to_le_bytes()).collect()
}

/// The corners of a rectangle, once each.
fn four([left, top, right, bottom]: [f32; 4], colour: u32) -> Vec<Corner> {
    corners(&[[left, top], [left, bottom], [right, top], [right, bottom]], colour)
}

/// Draws from indices, and requires that these of two rectangles are there.
fn indexed(
    lab: &Lab,
    bytes: &[u8],
    there: &[bool; 2],
    draw: impl FnOnce(&Recorder<'_>, &crate::lab::Buffer<'_>),
) -> Outcome {
    let gpu = lab.graphics()?;
    let brush = gpu.drawer(&Plan::plain()?)?;
    let vertices = gpu.corners(&[four(LEFT, GREEN), four(RIGHT, YELLOW)].concat())?;
    let (indices, canvas) = (gpu.buffer_of_bytes(bytes)?, gpu.colours()?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        draw(commands, &indices);
        commands.end();
    })?;
    pictured(&gpu.words(canvas)?, |x, y| match [LEFT, RIGHT].map(|area| is_in(x, y, area)) {
        [true, _] if there[0] => GREEN,
        [_, true] if there[1] => YELLOW,
        _ => BLANK,
    })
}

/// Two triangles, one at the upper left and one at the lower right.
fn two_triangles() -> Vec<Corner> {
    let first = corners(&[[0.0, 0.0], [0.0, 7.5], [7.5, 0.0]], GREEN);
    let second = corners(&[[16.0, 16.0], [16.0, 8.5], [8.5, 16.0]], GREEN);
    [first, second].concat()
}

/// The two, with nothing between them.
fn apart(x: f32, y: f32) -> u32 {
    if x + y < 7.5 || x + y > 24.5 { GREEN } else { BLANK }
}

fn restarted(lab: &Lab, bytes: &[u8], kind: vk::IndexType, fixed: bool) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    (plan.topology, plan.restart) = (STRIP, fixed);
    if !fixed {
        plan.dynamic = vec![vk::DynamicState::PRIMITIVE_RESTART_ENABLE];
    }
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&two_triangles())?);
    let (indices, canvas) = (gpu.buffer_of_bytes(bytes)?, gpu.colours()?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        if !fixed {
            commands.state(crate::lab::State::Restart(true));
        }
        commands.indices(&indices, 0, kind).draw_indexed(7).end();
    })?;
    pictured(&gpu.words(canvas)?, apart)
}

fn number(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let source = "
        @vertex fn vertex(@builtin(vertex_index) vertex: u32) -> @builtin(position) vec4<f32> {
            return vec4(f32(vertex % 16u) / 8.0 - 0.9375, f32(vertex / 16u) / 8.0 - 0.9375, 0.0, 1.0);
        }
        @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(1.0, 0.0, 0.0, 1.0); }";
    let mut plan = Plan::bare(source)?;
    plan.topology = vk::PrimitiveTopology::POINT_LIST;
    let (brush, canvas) = (gpu.drawer(&plan)?, gpu.colours()?);
    let indices = gpu.buffer_of(&[0, 17, 3, 250])?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).indices(&indices, 0, WORDS);
        commands.draw_indexed_some([4, 1], [0, 0], 5).end();
    })?;
    let right = [5.0, 22.0, 8.0, 255.0];
    pictured(&gpu.words(canvas)?, |x, y| {
        if right.contains(&(x - 0.5 + (y - 0.5) * 16.0)) { RED } else { BLANK }
    })
}
