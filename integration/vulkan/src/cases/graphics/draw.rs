// SPDX-License-Identifier: MIT OR Apache-2.0

//! Draws, and what shaders take beside vertices ("Drawing Commands", "Binding Descriptors and Pipelines").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, BLUE, GREEN, Lab, Outcome, Plan, RED, Rendering, SIZE, boxed, drawn, is_in, pictured,
    rectangle, same, triangle, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("draw.triangle", "a triangle colours the texels whose centres it covers", |lab| {
        let seen = drawn(lab, |_| (), &triangle([[0.0, 0.0], [0.0, 15.5], [15.5, 0.0]], RED))?;
        pictured(&seen, |x, y| if x + y < 15.5 { RED } else { BLANK })
    }),
    case("draw.nothing", "draws of no vertices or no instances do nothing", nothing),
    case("draw.incomplete", "vertices that are too few for a triangle draw nothing", |lab| {
        let area = [2.0, 2.0, 10.0, 9.0];
        let seen = drawn(lab, |_| (), &rectangle(area, RED)[..5])?;
        let is_first = |x, y| 7.0 * (x - 2.0) + 8.0 * (y - 2.0) < 56.0;
        pictured(&seen, |x, y| if is_in(x, y, area) && is_first(x, y) { RED } else { BLANK })
    }),
    case("draw.first-vertex", "a draw begins with the vertex that it names", first_vertex),
    case("draw.instances", "each instance is drawn, and has a number of its own", |lab| {
        numbered(lab, [4, 0])
    }),
    case("draw.first-instance", "instances are numbered from the one that a draw names", |lab| {
        numbered(lab, [3, 2])
    }),
    case("draw.vertex-number", "vertices are numbered from the one that a draw names", |lab| {
        let gpu = lab.graphics()?;
        let brush = gpu.drawer(&Plan::bare(BY_VERTEX)?)?;
        let canvas = gpu.colours()?;
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush);
            commands.draw_some([6, 1], [6, 0]).draw_some([6, 1], [18, 0]).end();
        })?;
        pictured(&gpu.words(canvas)?, columns(&[1, 3]))
    }),
    case("draw.many", "1,000 draws in one rendering all reach their texels", many),
    case("draw.very-many", "100,000 draws of one submission all count, in their order", very_many),
    case("draw.pipelines", "each draw is with the pipeline that was bound last", pipelines),
    case("draw.again", "a command buffer that draws is submitted twice", again),
    case(
        "draw.beside-dispatch",
        "a bound pipeline that computes leaves the one that draws",
        beside,
    ),
];

/// Rectangles of four columns, by the number of an instance.
const BY_INSTANCE: &str = "
    @vertex fn vertex(@builtin(vertex_index) vertex: u32, @builtin(instance_index) instance: u32)
        -> @builtin(position) vec4<f32> {
        let right = (0x32u >> vertex) & 1u;
        let low = (0x2cu >> vertex) & 1u;
        return vec4(f32(instance + right) * 0.5 - 1.0, f32(low) * 2.0 - 1.0, 0.0, 1.0);
    }
    @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(1.0, 0.0, 0.0, 1.0); }";

/// The same by the number of a vertex, six for each.
const BY_VERTEX: &str = "
    @vertex fn vertex(@builtin(vertex_index) vertex: u32) -> @builtin(position) vec4<f32> {
        let right = (0x32u >> (vertex % 6u)) & 1u;
        let low = (0x2cu >> (vertex % 6u)) & 1u;
        return vec4(f32(vertex / 6u + right) * 0.5 - 1.0, f32(low) * 2.0 - 1.0, 0.0, 1.0);
    }
    @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(1.0, 0.0, 0.0, 1.0); }";

/// One texel of a canvas of 16 by 16 for each instance, over and over, in a colour that says how often it was drawn.
const OVER_AND_OVER: &str = "
    struct Out { @builtin(position) place: vec4<f32>, @location(0) @interpolate(flat) often: u32 }
    @vertex fn vertex(@builtin(vertex_index) number: u32, @builtin(instance_index) all: u32) -> Out {
        let texel = vec2(f32(all % 16u), f32(all / 16u % 16u));
        let corner = vec2(f32(number & 1u), f32(number >> 1u)) * 1.4;
        return Out(vec4((texel + corner) / 8.0 - 1.0, 0.0, 1.0), all / 256u);
    }
    @fragment fn fragment(in: Out) -> @location(0) vec4<f32> {
        return vec4(f32(in.often % 256u) / 255.0, 0.0, 0.0, 1.0);
    }";

/// Red in these of four columns.
fn columns(red: &[u32]) -> impl Fn(f32, f32) -> u32 {
    move |x, _| if red.contains(&(x as u32 / 4)) { RED } else { BLANK }
}

fn nothing(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&whole_area(RED))?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.draw(0).draw_some([6, 0], [0, 0]).end();
    })?;
    pictured(&gpu.words(canvas)?, |_, _| BLANK)
}

fn very_many(lab: &Lab) -> Outcome {
    const RENDERINGS: u32 = 100;
    const DRAWS: u32 = 1000;
    let gpu = lab.graphics()?;
    let (brush, canvas) = (gpu.drawer(&Plan::bare(OVER_AND_OVER)?)?, gpu.colours()?);
    gpu.run(|commands| {
        for rendering in 0..RENDERINGS {
            commands.begin(&Rendering::on(canvas)).brush(&brush);
            for draw in 0..DRAWS {
                commands.draw_some([3, 1], [0, rendering * DRAWS + draw]);
            }
            commands.end().barrier();
        }
    })?;
    let last = |texel: u32| (RENDERINGS * DRAWS - 1 - texel) / 256 % 256;
    pictured(&gpu.words(canvas)?, |x, y| 0xff00_0000 | last(x as u32 + 16 * y as u32))
}

fn first_vertex(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let left = [0.0, 0.0, 8.0, 16.0];
    let all = [whole_area(RED), rectangle(left, GREEN)].concat();
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&all)?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.draw_some([6, 1], [6, 0]).end();
    })?;
    pictured(&gpu.words(canvas)?, boxed(left, GREEN, BLANK))
}

fn numbered(lab: &Lab, [count, first]: [u32; 2]) -> Outcome {
    let gpu = lab.graphics()?;
    let brush = gpu.drawer(&Plan::bare(BY_INSTANCE)?)?;
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush);
        commands.draw_some([6, count], [0, first]).end();
    })?;
    pictured(&gpu.words(canvas)?, columns(&(first..first + count).collect::<Vec<_>>()))
}

fn many(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let texel = |place: u32, colour| {
        let [x, y] = [place % SIZE, place / SIZE].map(|texel| texel as f32);
        rectangle([x, y, x + 1.0, y + 1.0], colour)
    };
    let colour = |round: u32, place: u32| BLUE | (round << 8) | place;
    let all = (0..4).flat_map(|round| (0..256).map(move |place| (round, place)));
    let corners: Vec<_> =
        all.take(1000).flat_map(|(round, place)| texel(place, colour(round, place))).collect();
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&corners)?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        for draw in 0..1000 {
            commands.draw_some([6, 1], [draw * 6, 0]);
        }
        commands.end();
    })?;
    // The last round ends before the canvas does.
    let right: Vec<_> =
        (0..256).map(|place| colour(if place < 1000 - 768 { 3 } else { 2 }, place)).collect();
    same!(gpu.words(canvas)?, right);
    Ok(())
}

fn pipelines(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let inverse = "
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> {
            return place * vec4(-1.0, 1.0, 1.0, 1.0);
        }
        @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(0.0, 1.0, 0.0, 1.0); }";
    let brushes = [gpu.drawer(&Plan::plain()?)?, gpu.drawer(&Plan::of(inverse)?)?];
    let vertices = gpu.corners(&rectangle([0.0, 0.0, 4.0, 16.0], RED))?;
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).vertices(&vertices);
        for _ in 0..10 {
            for brush in &brushes {
                commands.brush(brush).draw(6);
            }
        }
        commands.end();
    })?;
    let side = |x: f32| if x < 4.0 { RED } else { BLANK };
    pictured(&gpu.words(canvas)?, |x, _| if x > 12.0 { GREEN } else { side(x) })
}

fn again(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    // Each adds a sixteenth of red.
    plan.blends[0].blend_enable = vk::TRUE;
    plan.blends[0].dst_color_blend_factor = vk::BlendFactor::ONE;
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&whole_area(0xff00_0010))?);
    let canvas = gpu.colours()?;
    let queue = gpu.queue()?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).end().barrier();
    })?;
    let commands = gpu.record(queue, |commands| {
        commands.begin(&Rendering::on(canvas)).brush(&brush).vertices(&vertices);
        commands.draw(6).end().barrier();
    })?;
    gpu.finish(queue, &[commands])?;
    gpu.finish(queue, &[commands])?;
    pictured(&gpu.words(canvas)?, |_, _| 0xff00_0020)
}

fn beside(lab: &Lab) -> Outcome {
    let gpu = lab.graphics()?;
    let kernel = gpu.simple(crate::lab::module!("accumulate"), 1, 8)?;
    let state = gpu.buffer_of(&[1])?;
    let set = gpu.set(&kernel, &[state])?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&whole_area(RED))?);
    let canvas = gpu.colours()?;
    gpu.run(|commands| {
        commands.brush(&brush).vertices(&vertices);
        commands.bind(&kernel).sets(&kernel, &[set]).push(&kernel, &[3, 4]).dispatch(1, 1, 1);
        commands.barrier().begin(&Rendering::blank(canvas)).draw(6).end();
        commands.dispatch(1, 1, 1).barrier();
    })?;
    same!(state.word(0), 25);
    pictured(&gpu.words(canvas)?, |_, _| RED)
}
