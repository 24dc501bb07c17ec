// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queries of what was drawn ("Occlusion Queries", "Pipeline Statistics Queries").

use crate::case::{Case, case};
use crate::lab::{
    Corner, Gpu, Lab, Module, Outcome, Plan, RED, Recorder, Rendering, WITHIN_COLOURS, at, compile,
    depth_form, rectangle, require, same, whole_area,
};
use ash::vk::{self, QueryControlFlags, QueryPipelineStatisticFlags as S, QueryType};

pub(super) const CASES: &[Case] = &[
    case("occlusion.exact", "a query counts the texels that a draw reaches", |lab| {
        precise(lab)?;
        same!(reached(lab, &rectangle(PART, RED), QueryControlFlags::PRECISE)?, 35);
        Ok(())
    }),
    case("occlusion.any", "a query knows whether a draw reaches anything", |lab| {
        require!(
            reached(lab, &rectangle(PART, RED), QueryControlFlags::empty())? > 0,
            "nothing is reached"
        );
        Ok(())
    }),
    case("occlusion.none", "a query of a draw that reaches nothing has none", |lab| {
        same!(
            reached(lab, &rectangle([20.0, 20.0, 30.0, 30.0], RED), QueryControlFlags::empty())?,
            0
        );
        Ok(())
    }),
    case("occlusion.hidden", "texels that are farther than others are not counted", hidden),
    case("occlusion.several", "each of several queries counts its own draws", several),
    case("occlusion.copied", "results are copied into a buffer, with their availability", copied),
    case("occlusion.again", "a query that is reset counts again", again),
    case("occlusion.secondary", "a query counts what secondary command buffers draw", secondary),
    case("statistics.vertices", "vertices, triangles and fragments are counted", |lab| {
        let flags =
            S::INPUT_ASSEMBLY_VERTICES | S::INPUT_ASSEMBLY_PRIMITIVES | S::CLIPPING_INVOCATIONS;
        let all = [rectangle(PART, RED), rectangle(PART, RED), rectangle(PART, RED)].concat();
        same!(
            counted(
                lab,
                flags,
                3,
                |commands| {
                    commands.draw(all.len() as u32);
                },
                &all
            )?,
            vec![18, 6, 6]
        );
        Ok(())
    }),
    case("statistics.instances", "vertices of each instance are counted", |lab| {
        let flags = S::INPUT_ASSEMBLY_VERTICES | S::INPUT_ASSEMBLY_PRIMITIVES;
        let draw = |commands: &Recorder<'_>| {
            commands.draw_some([6, 4], [0, 0]);
        };
        same!(counted(lab, flags, 2, draw, &whole_area(RED))?, vec![24, 8]);
        Ok(())
    }),
    case("statistics.vertex-shader", "a vertex shader runs for each vertex", |lab| {
        let draw = |commands: &Recorder<'_>| {
            commands.draw(6);
        };
        let all = counted(lab, S::VERTEX_SHADER_INVOCATIONS, 1, draw, &whole_area(RED))?;
        require!(all[0] >= 6, "{all:?}");
        Ok(())
    }),
    case("statistics.fragment-shader", "a fragment shader runs for each texel", |lab| {
        let draw = |commands: &Recorder<'_>| {
            commands.draw(6);
        };
        let all = counted(lab, S::FRAGMENT_SHADER_INVOCATIONS, 1, draw, &whole_area(RED))?;
        require!(all[0] >= 256, "{all:?}");
        Ok(())
    }),
    case("statistics.clipped", "triangles that are left out are none behind the clipping", |lab| {
        let flags = S::CLIPPING_INVOCATIONS | S::CLIPPING_PRIMITIVES;
        let draw = |commands: &Recorder<'_>| {
            commands.draw(6);
        };
        let all = counted(lab, flags, 2, draw, &at(-3.0, &whole_area(RED)))?;
        same!(all, vec![2, 0]);
        Ok(())
    }),
    case("statistics.compute", "dispatches beside draws are counted by themselves", compute),
];

const PART: [f32; 4] = [3.0, 4.0, 10.0, 9.0];
const NONE: S = S::empty();

fn precise(lab: &Lab) -> Outcome {
    lab.needs("occlusionQueryPrecise", lab.features().core.occlusion_query_precise)
}

fn statistics(lab: &Lab) -> Outcome {
    lab.needs("pipelineStatisticsQuery", lab.features().core.pipeline_statistics_query)
}

/// How many texels a draw of corners reaches.
fn reached(lab: &Lab, corners: &[Corner], flags: QueryControlFlags) -> Outcome<u64> {
    let gpu = lab.graphics()?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(corners)?);
    let (canvas, pool) = (gpu.colours()?, gpu.queries(QueryType::OCCLUSION, 1, NONE)?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.begin_query(pool, 0, flags).draw(corners.len() as u32).end_query(pool, 0).end();
    })?;
    Ok(gpu.results(pool, 1, true)?[0])
}

fn hidden(lab: &Lab) -> Outcome {
    precise(lab)?;
    let gpu = lab.graphics()?;
    let (canvas, depths) = (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D16_UNORM))?);
    let mut plan = Plan::plain()?;
    plan.with_depth(depths, vk::CompareOp::LESS);
    let all = [at(0.25, &rectangle(PART, RED)), at(0.5, &whole_area(RED))].concat();
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&all)?);
    let pool = gpu.queries(QueryType::OCCLUSION, 1, NONE)?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).depth(depths.filled_to(1.0, 0)));
        commands.brush(&brush).vertices(&vertices).draw(6);
        commands.begin_query(pool, 0, QueryControlFlags::PRECISE).draw_some([6, 1], [6, 0]);
        commands.end_query(pool, 0).end();
    })?;
    same!(gpu.results(pool, 1, true)?, vec![256 - 35]);
    Ok(())
}

/// Two queries of one, and of four texels; each is of two draws.
fn scene(
    gpu: &Gpu<'_>,
    record: impl FnOnce(&Recorder<'_>, vk::QueryPool),
) -> Outcome<vk::QueryPool> {
    let one = rectangle([1.0, 1.0, 2.0, 2.0], RED);
    let four = rectangle([4.0, 4.0, 6.0, 6.0], RED);
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&[one, four].concat())?);
    let (canvas, pool) = (gpu.colours()?, gpu.queries(QueryType::OCCLUSION, 2, NONE)?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        for (query, first) in [(0, 0), (1, 6)] {
            commands.begin_query(pool, query, QueryControlFlags::PRECISE);
            commands
                .draw_some([6, 1], [first, 0])
                .draw_some([6, 1], [first, 0])
                .end_query(pool, query);
        }
        commands.end();
        record(commands, pool);
    })?;
    Ok(pool)
}

fn several(lab: &Lab) -> Outcome {
    precise(lab)?;
    let gpu = lab.graphics()?;
    let pool = scene(&gpu, |_, _| ())?;
    same!(gpu.results(pool, 2, true)?, vec![2, 8]);
    Ok(())
}

fn copied(lab: &Lab) -> Outcome {
    precise(lab)?;
    let gpu = lab.graphics()?;
    let buffer = gpu.buffer(8)?;
    scene(&gpu, |commands, pool| {
        commands.copy_results(pool, 2, &buffer).barrier();
    })?;
    same!(buffer.read(), vec![2, 0, 1, 0, 8, 0, 1, 0]);
    Ok(())
}

fn again(lab: &Lab) -> Outcome {
    precise(lab)?;
    let gpu = lab.graphics()?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&rectangle(PART, RED))?);
    let (canvas, pool) = (gpu.colours()?, gpu.queries(QueryType::OCCLUSION, 1, NONE)?);
    for instances in 1..4u64 {
        gpu.run(|commands| {
            commands.reset_queries(pool, 0, 1).begin(&Rendering::blank(canvas));
            commands.brush(&brush).vertices(&vertices);
            commands.begin_query(pool, 0, QueryControlFlags::PRECISE);
            commands.draw_some([6, instances as u32], [0, 0]).end_query(pool, 0).end();
        })?;
        same!(gpu.results(pool, 1, true)?, vec![35 * instances]);
    }
    Ok(())
}

fn secondary(lab: &Lab) -> Outcome {
    lab.needs("inheritedQueries", lab.features().core.inherited_queries)?;
    let gpu = lab.graphics()?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&rectangle(PART, RED))?);
    let (canvas, pool) = (gpu.colours()?, gpu.queries(QueryType::OCCLUSION, 1, NONE)?);
    let part = gpu.record_within(&WITHIN_COLOURS, NONE, |commands| {
        commands.brush(&brush).vertices(&vertices).draw(6);
    })?;
    let others = vk::RenderingFlags::CONTENTS_SECONDARY_COMMAND_BUFFERS;
    gpu.run(|commands| {
        commands.begin_query(pool, 0, QueryControlFlags::empty());
        commands.begin(&Rendering::blank(canvas).flags(others)).execute(&[part]).end();
        commands.end_query(pool, 0);
    })?;
    require!(gpu.results(pool, 1, true)?[0] > 0, "nothing is reached");
    Ok(())
}

/// What a draw of corners counts.
fn counted(
    lab: &Lab,
    flags: S,
    numbers: usize,
    draw: impl FnOnce(&Recorder<'_>),
    corners: &[Corner],
) -> Outcome<Vec<u64>> {
    statistics(lab)?;
    let gpu = lab.graphics()?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(corners)?);
    let (canvas, pool) = (gpu.colours()?, gpu.queries(QueryType::PIPELINE_STATISTICS, 1, flags)?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.begin_query(pool, 0, QueryControlFlags::empty());
        draw(commands);
        commands.end_query(pool, 0).end();
    })?;
    gpu.statistics(pool, numbers)
}

fn compute(lab: &Lab) -> Outcome {
    statistics(lab)?;
    let gpu = lab.graphics()?;
    let source = "@group(0) @binding(0) var<storage, read_write> words: array<u32>;
        @compute @workgroup_size(8) fn main(@builtin(local_invocation_index) at: u32) { words[at] = at; }";
    let kernel = gpu.simple(Module(&compile(source)?), 1, 0)?;
    let set = gpu.set(&kernel, &[gpu.buffer(8)?])?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&whole_area(RED))?);
    let flags = S::INPUT_ASSEMBLY_VERTICES | S::COMPUTE_SHADER_INVOCATIONS;
    let (canvas, pool) = (gpu.colours()?, gpu.queries(QueryType::PIPELINE_STATISTICS, 1, flags)?);
    gpu.run(|commands| {
        commands.begin_query(pool, 0, QueryControlFlags::empty());
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(3, 1, 1).barrier();
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices).draw(6).end();
        commands.end_query(pool, 0);
    })?;
    same!(gpu.statistics(pool, 2)?, vec![6, 24]);
    Ok(())
}
