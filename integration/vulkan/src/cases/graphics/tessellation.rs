// SPDX-License-Identifier: MIT OR Apache-2.0

//! Patches that are divided ("Tessellation").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, GREEN, Lab, Outcome, Plan, RED, Rendering, boxed, corner, pictured, sketch,
    stage,
};
use ash::vk::{self, QueryPipelineStatisticFlags as S};

pub(super) const CASES: &[Case] = &[
    case("tessellation.quads", "a patch of four corners is drawn as one", |lab| {
        let seen =
            drawn(lab, stage!("quads_equal.tese"), [1.0, 1.0], &patch([2.0, 3.0, 13.0, 12.0]))?;
        pictured(&seen, boxed([2.0, 3.0, 13.0, 12.0], RED, BLANK))
    }),
    case("tessellation.quads-divided", "a patch that is divided covers each texel once", |lab| {
        once(lab, [4.0, 7.0])
    }),
    case(
        "tessellation.even",
        "a patch that is divided in even parts covers each texel once",
        |lab| once_by(lab, stage!("quads_fractional_even.tese"), [4.5, 3.25]),
    ),
    case(
        "tessellation.odd",
        "a patch that is divided in odd parts covers each texel once",
        |lab| once_by(lab, stage!("quads_fractional_odd.tese"), [4.5, 3.25]),
    ),
    case(
        "tessellation.triangles",
        "a patch is a triangle, in the colour that is the whole patch's",
        |lab| {
            let corners = [[0.0, 0.0], [0.0, 15.5], [15.5, 0.0], [0.0, 0.0]];
            let mut patch: Vec<Corner> = corners.iter().map(|place| corner(*place, RED)).collect();
            patch[3] = corner([0.0, 0.0], GREEN);
            let seen = drawn(lab, stage!("triangles.tese"), [3.0, 2.0], &patch)?;
            pictured(&seen, |x, y| if x + y < 15.5 { GREEN } else { BLANK })
        },
    ),
    case("tessellation.lines", "a patch is as many lines as its first level says", |lab| {
        // Four lines at 0, 4, 8 and 12, each moved by half a texel.
        let seen = drawn(lab, stage!("isolines.tese"), [4.0, 1.0], &patch([0.0, 0.0, 16.0, 16.0]))?;
        pictured(&seen, |_, y| if (y - 0.5) % 4.0 == 0.0 { RED } else { BLANK })
    }),
    case("tessellation.points", "each place of a patch is a point, once", |lab| {
        let can = lab.features().core.shader_tessellation_and_geometry_point_size;
        lab.needs("shaderTessellationAndGeometryPointSize", can)?;
        // Two by two parts have three by three places.
        let seen = drawn(lab, stage!("points.tese"), [2.0, 2.0], &patch([0.0, 0.0, 16.0, 16.0]))?;
        pictured(&seen, |x, y| match [0.5, 2.5, 4.5].contains(&x) && [0.5, 2.5, 4.5].contains(&y) {
            true => RED,
            false => BLANK,
        })
    }),
    case("tessellation.none", "a patch with a level of zero is left out", |lab| {
        let seen =
            drawn(lab, stage!("quads_equal.tese"), [0.0, 4.0], &patch([0.0, 0.0, 16.0, 16.0]))?;
        pictured(&seen, |_, _| BLANK)
    }),
    case("tessellation.several", "each four vertices are a patch", |lab| {
        let both = [patch([0.0, 0.0, 5.0, 16.0]), patch([9.0, 0.0, 16.0, 7.0])].concat();
        let seen = drawn(lab, stage!("quads_equal.tese"), [2.0, 3.0], &both)?;
        pictured(&seen, |x, y| {
            boxed([0.0, 0.0, 5.0, 16.0], RED, boxed([9.0, 0.0, 16.0, 7.0], RED, BLANK)(x, y))(x, y)
        })
    }),
    case("tessellation.statistics", "a query counts patches that are divided", statistics),
    case("tessellation.limits", "a device that divides patches does so finely enough", |lab| {
        lab.graphics()?;
        needs(lab)?;
        let limits = lab.description().properties.limits;
        super::limit::at_least(&[
            ("maxTessellationGenerationLevel", limits.max_tessellation_generation_level, 64),
            ("maxTessellationPatchSize", limits.max_tessellation_patch_size, 32),
        ])
    }),
];

fn needs(lab: &Lab) -> Outcome {
    lab.needs("tessellationShader", lab.features().core.tessellation_shader)
}

/// A patch of four corners: the upper ones, and the lower ones.
fn patch([left, top, right, bottom]: [f32; 4]) -> Vec<Corner> {
    let places = [[left, top], [right, top], [left, bottom], [right, bottom]];
    places.map(|place| corner(place, RED)).to_vec()
}

/// A plan whose patches are divided in so many parts at their sides, and inside.
fn plan<'a>(evaluation: &[u8], levels: &'a [(u32, &'a [u8])]) -> Outcome<Plan<'a>> {
    let mut plan = Plan::plain()?;
    plan.topology = vk::PrimitiveTopology::PATCH_LIST;
    plan.patch = 4;
    plan.stage(vk::ShaderStageFlags::TESSELLATION_CONTROL, stage!("patch.tesc"));
    plan.stage(vk::ShaderStageFlags::TESSELLATION_EVALUATION, evaluation);
    plan.values = levels;
    Ok(plan)
}

fn drawn(lab: &Lab, evaluation: &[u8], levels: [f32; 2], corners: &[Corner]) -> Outcome<Vec<u32>> {
    drawn_as(lab, evaluation, levels, corners, |_| ())
}

fn drawn_as(
    lab: &Lab,
    evaluation: &[u8],
    levels: [f32; 2],
    corners: &[Corner],
    differ: impl FnOnce(&mut Plan<'_>),
) -> Outcome<Vec<u32>> {
    needs(lab)?;
    let gpu = lab.graphics()?;
    let [outer, inner] = levels.map(f32::to_le_bytes);
    let values: [(u32, &[u8]); 2] = [(0, &outer), (1, &inner)];
    let mut plan = plan(evaluation, &values)?;
    differ(&mut plan);
    sketch(&gpu, &plan, corners)
}

fn once(lab: &Lab, levels: [f32; 2]) -> Outcome {
    once_by(lab, stage!("quads_equal.tese"), levels)
}

/// Each triangle adds to what is there.
fn once_by(lab: &Lab, evaluation: &[u8], levels: [f32; 2]) -> Outcome {
    let adds = |plan: &mut Plan<'_>| {
        plan.blends[0].blend_enable = vk::TRUE;
        plan.blends[0].dst_color_blend_factor = vk::BlendFactor::ONE;
    };
    let quarter: Vec<Corner> = patch([0.0, 0.0, 16.0, 16.0])
        .into_iter()
        .map(|[x, y, z, w, ..]| [x, y, z, w, 0.2, 0.0, 0.0, 1.0])
        .collect();
    let seen = drawn_as(lab, evaluation, levels, &quarter, adds)?;
    pictured(&seen, |_, _| 0xff00_0033)
}

fn statistics(lab: &Lab) -> Outcome {
    needs(lab)?;
    lab.needs("pipelineStatisticsQuery", lab.features().core.pipeline_statistics_query)?;
    let gpu = lab.graphics()?;
    let one = 1f32.to_le_bytes();
    let values: [(u32, &[u8]); 2] = [(0, &one), (1, &one)];
    let brush = gpu.drawer(&plan(stage!("quads_equal.tese"), &values)?)?;
    let vertices = gpu.corners(&patch([0.0, 0.0, 16.0, 16.0]).repeat(5))?;
    let canvas = gpu.colours()?;
    let counted = S::TESSELLATION_CONTROL_SHADER_PATCHES;
    let pool = gpu.queries(vk::QueryType::PIPELINE_STATISTICS, 1, counted)?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.begin_query(pool, 0, vk::QueryControlFlags::empty()).draw(20);
        commands.end_query(pool, 0).end();
    })?;
    crate::lab::same!(gpu.results(pool, 1, true)?, vec![5]);
    Ok(())
}
