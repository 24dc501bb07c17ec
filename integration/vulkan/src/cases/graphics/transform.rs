// SPDX-License-Identifier: MIT OR Apache-2.0

//! Transformed vertices that are stored ("Transform Feedback"), and how primitives are counted ("Transform Feedback Queries", "Primitives
//! Generated Queries").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, Gpu, Kernel, Lab, Outcome, Plan, RED, Rendering, boxed, pictured, rectangle,
    require, same, stage,
};
use ash::vk::{self, QueryPipelineStatisticFlags, QueryType};

pub(super) const CASES: &[Case] = &[
    case("transform.stored", "vertices are stored as the shader gives them", |lab| {
        let gpu = gpu(lab)?;
        let (brush, corners) = (keeper(&gpu)?, rectangle(AREA, RED));
        let (kept, counter) = (gpu.buffer(8 * 6)?, gpu.buffer(1)?);
        let (vertices, canvas) = (gpu.corners(&corners)?, gpu.colours()?);
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.keep(&[(&kept, 192)], None).draw(6).keep_no_more(Some((&counter, 1))).end();
            commands.barrier();
        })?;
        same!(kept.read(), words(&mirrored(&corners)));
        same!(counter.word(0), 192);
        pictured(&gpu.words(canvas)?, boxed(AREA, RED, BLANK))
    }),
    case("transform.resumed", "storing goes on behind what a counter says", |lab| {
        let gpu = gpu(lab)?;
        let brush = keeper(&gpu)?;
        let corners = [rectangle(AREA, RED), rectangle([1.0, 2.0, 3.0, 4.0], RED)].concat();
        let (kept, counter) = (gpu.buffer(8 * 12)?, gpu.buffer(1)?);
        let (vertices, canvas) = (gpu.corners(&corners)?, gpu.colours()?);
        gpu.run(|commands| {
            let (whole, word) = ([(&kept, 384)], Some((&counter, 1)));
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.keep(&whole, None).draw(6).keep_no_more(word).end().barrier();
            commands.begin(&Rendering::of(&[canvas.loaded()])).brush(&brush);
            commands.keep(&whole, word).draw_some([6, 1], [6, 0]).keep_no_more(word).end();
            commands.barrier();
        })?;
        same!(kept.read(), words(&mirrored(&corners)));
        same!(counter.word(0), 384);
        Ok(())
    }),
    case("transform.drawn-again", "a counter says how many stored vertices are drawn", |lab| {
        let gpu = gpu(lab)?;
        let (brush, again) = (keeper(&gpu)?, gpu.drawer(&Plan::plain()?)?);
        let vertices = gpu.corners(&rectangle([1.0, 2.0, 7.0, 9.0], RED))?;
        let (kept, counter, canvas) = (gpu.buffer(8 * 6)?, gpu.buffer(1)?, gpu.colours()?);
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.keep(&[(&kept, 192)], None).draw(6).keep_no_more(Some((&counter, 1))).end();
            commands.barrier();
            commands.begin(&Rendering::blank(canvas)).brush(&again).vertices(&kept);
            commands.draw_kept(&counter, 32).end();
        })?;
        pictured(&gpu.words(canvas)?, boxed([9.0, 2.0, 15.0, 9.0], RED, BLANK))
    }),
    case(
        "transform.counted",
        "primitives are counted that are stored, and those for which there is no room",
        |lab| {
            let gpu = gpu(lab)?;
            let (brush, vertices) = (keeper(&gpu)?, gpu.corners(&rectangle(AREA, RED).repeat(2))?);
            let (kept, canvas) = (gpu.buffer(8 * 9)?, gpu.colours()?);
            let pool = gpu.queries(QueryType::TRANSFORM_FEEDBACK_STREAM_EXT, 1, NONE)?;
            gpu.run(|commands| {
                commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
                commands.begin_query_of(pool, 0, 0).keep(&[(&kept, 288)], None).draw(12);
                commands.keep_no_more(None).end_query_of(pool, 0, 0).end();
            })?;
            same!(gpu.statistics(pool, 2)?, vec![3, 4]);
            Ok(())
        },
    ),
    case("transform.streams", "each stream has its own vertices and queries", |lab| {
        lab.needs("geometryStreams", lab.extended()?.transform_feedback.geometry_streams)?;
        let gpu = gpu(lab)?;
        let mut plan = Plan::plain()?;
        plan.topology = vk::PrimitiveTopology::POINT_LIST;
        plan.stage(vk::ShaderStageFlags::GEOMETRY, stage!("streams.geom"));
        plan.raster.rasterizer_discard_enable = vk::TRUE;
        plan.stages.retain(|stage| stage.is_not(vk::ShaderStageFlags::FRAGMENT));
        let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&rectangle(AREA, RED))?);
        let (one, other, counters) = (gpu.buffer(4)?, gpu.buffer(4)?, gpu.buffer(2)?);
        let [first, second] =
            [0, 1].map(|_| gpu.queries(QueryType::TRANSFORM_FEEDBACK_STREAM_EXT, 1, NONE));
        let (first, second, canvas) = (first?, second?, gpu.colours()?);
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.begin_query_of(first, 0, 0).begin_query_of(second, 0, 1);
            commands.keep(&[(&one, 16), (&other, 16)], None).draw(2);
            commands.keep_no_more(Some((&counters, 2)));
            commands.end_query_of(second, 0, 1).end_query_of(first, 0, 0).end().barrier();
        })?;
        same!(one.first(2), vec![1.5f32.to_bits(); 2]);
        same!(other.read(), [2.5f32, 3.5, 2.5, 3.5].map(f32::to_bits).to_vec());
        same!(counters.read(), vec![8, 16]);
        same!(gpu.statistics(first, 2)?, vec![2, 2]);
        same!(gpu.statistics(second, 2)?, vec![4, 4]);
        Ok(())
    }),
    case("statistics.made", "primitives are counted where none is stored or drawn", |lab| {
        let made = lab.extended()?.primitives_generated_query.primitives_generated_query;
        lab.needs("primitivesGeneratedQuery", made)?;
        let gpu = lab.graphics()?;
        let outside = rectangle([20.0, 20.0, 30.0, 30.0], RED);
        let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&outside)?);
        let pool = gpu.queries(QueryType::PRIMITIVES_GENERATED_EXT, 1, NONE)?;
        let canvas = gpu.colours()?;
        gpu.run(|commands| {
            commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
            commands.begin_query(pool, 0, vk::QueryControlFlags::empty());
            commands.draw_some([6, 3], [0, 0]).end_query(pool, 0).end();
        })?;
        same!(gpu.results(pool, 1, true)?, vec![6]);
        Ok(())
    }),
];

const AREA: [f32; 4] = [3.0, 4.0, 10.0, 9.0];
const NONE: QueryPipelineStatisticFlags = QueryPipelineStatisticFlags::empty();

/// A device that stores vertices.
fn gpu(lab: &Lab) -> Outcome<Gpu<'_>> {
    lab.needs("transformFeedback", lab.extended()?.transform_feedback.transform_feedback)?;
    lab.graphics()
}

/// A pipeline that gives corners their colour, and has their mirror kept.
fn keeper(gpu: &Gpu<'_>) -> Outcome<Kernel> {
    let mut plan = Plan::plain()?;
    plan.stage(vk::ShaderStageFlags::VERTEX, stage!("kept.vert"));
    let kernel = gpu.drawer(&plan)?;
    require!(plan.stages.len() == 2, "a stage is missing");
    Ok(kernel)
}

fn mirrored(corners: &[Corner]) -> Vec<Corner> {
    let mirror = |[x, y, z, w, r, g, b, a]: Corner| [-x, y, z, w, r, g, b, a];
    corners.iter().copied().map(mirror).collect()
}

fn words(corners: &[Corner]) -> Vec<u32> {
    corners.as_flattened().iter().map(|number| number.to_bits()).collect()
}
