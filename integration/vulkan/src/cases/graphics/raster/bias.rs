// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is added to depths, and what becomes of depths beyond the range ("Depth Bias", "Primitive Clipping", "Depth Clamping").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, Failure, Lab, Outcome, Plan, RED, Rendering, State, at, boxed, corner,
    depth_form, pictured, require, sketch, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("raster.bias.constant", "a bias adds as many of the least steps as it says", |lab| {
        let (flat, moved) =
            (depth(lab, 0.5, None, false)?, depth(lab, 0.5, Some([1024.0, 0.0, 0.0]), false)?);
        // The least step of a depth of 32 bits is that of its exponent, 2^-24 for a half.
        near(moved - flat, 1024.0 / 16_777_216.0)
    }),
    case("raster.bias.negative", "a bias may be negative", |lab| {
        let (flat, moved) =
            (depth(lab, 0.5, None, false)?, depth(lab, 0.5, Some([-4096.0, 0.0, 0.0]), false)?);
        near(flat - moved, 4096.0 / 16_777_216.0)
    }),
    case("raster.bias.clamp", "no more is added than the bias's most", |lab| {
        lab.needs("depthBiasClamp", lab.features().core.depth_bias_clamp)?;
        near(depth(lab, 0.5, Some([1e9, 0.125, 0.0]), false)?, 0.625)
    }),
    case("raster.bias.slope", "a bias adds its part of a triangle's slope", slope),
    case("raster.bias.dynamic", "commands set the bias, and whether there is one", |lab| {
        let flat = depth(lab, 0.5, None, false)?;
        let moved = depth(lab, 0.5, Some([1024.0, 0.0, 0.0]), true)?;
        near(moved - flat, 1024.0 / 16_777_216.0)
    }),
    case("raster.depth.near", "what is nearer than the clip volume is left out", |lab| {
        clipped(lab, [-0.5, 0.5], false, |x| x > 8.0)
    }),
    case("raster.depth.far", "what is farther than the clip volume is left out", |lab| {
        clipped(lab, [0.5, 1.5], false, |x| x < 8.0)
    }),
    case(
        "raster.depth.clamped",
        "what is beyond the clip volume is drawn where depths are clamped",
        |lab| {
            lab.needs("depthClamp", lab.features().core.depth_clamp)?;
            clipped(lab, [-0.5, 1.5], true, |_| true)
        },
    ),
    case("raster.depth.clamped-to", "depths are clamped to those of the viewport", |lab| {
        lab.needs("depthClamp", lab.features().core.depth_clamp)?;
        let stored = stored(
            lab,
            &at(1.5, &whole_area(RED)),
            |plan| {
                plan.raster.depth_clamp_enable = vk::TRUE;
                (plan.viewports[0].min_depth, plan.viewports[0].max_depth) = (0.25, 0.75);
            },
            |_| (),
        )?;
        near(stored[0], 0.75)
    }),
];

fn near(seen: f32, right: f32) -> Outcome {
    match (seen - right).abs() <= right.abs() * 0.002 {
        true => Ok(()),
        false => Err(Failure::seen(format!("{seen} is not {right}"))),
    }
}

/// The depths that are stored of corners, in texels of 32 bits that are all 1 before.
fn stored(
    lab: &Lab,
    corners: &[Corner],
    differ: impl FnOnce(&mut Plan<'_>),
    set: impl FnOnce(&crate::lab::Recorder<'_>),
) -> Outcome<Vec<f32>> {
    let format = vk::Format::D32_SFLOAT;
    lab.needs_feature(format, vk::FormatFeatureFlags::DEPTH_STENCIL_ATTACHMENT)?;
    let gpu = lab.graphics()?;
    let depths = gpu.canvas(depth_form(format))?;
    let mut plan = Plan::plain()?;
    plan.targets(&[]).with_depth(depths, vk::CompareOp::ALWAYS);
    differ(&mut plan);
    let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(corners)?);
    gpu.run(|commands| {
        commands.begin(&Rendering::of(&[]).depth(depths.filled_to(1.0, 0)));
        commands.brush(&brush).vertices(&vertices);
        set(commands);
        commands.draw(corners.len() as u32).end();
    })?;
    gpu.depths(depths)
}

/// The depth of a rectangle, with a bias.
fn depth(lab: &Lab, depth: f32, bias: Option<[f32; 3]>, dynamic: bool) -> Outcome<f32> {
    let stored = stored(
        lab,
        &at(depth, &whole_area(RED)),
        |plan| {
            let [constant, clamp, slope] = bias.unwrap_or_default();
            plan.raster = plan.raster.depth_bias_enable(bias.is_some() && !dynamic);
            plan.raster =
                plan.raster.depth_bias_constant_factor(if dynamic { 77.0 } else { constant });
            plan.raster = plan.raster.depth_bias_clamp(clamp).depth_bias_slope_factor(slope);
            if dynamic {
                plan.dynamic =
                    vec![vk::DynamicState::DEPTH_BIAS, vk::DynamicState::DEPTH_BIAS_ENABLE];
            }
        },
        |commands| {
            if dynamic {
                commands.state(State::BiasTest(true)).state(State::Bias(bias.unwrap_or_default()));
            }
        },
    )?;
    require!(stored.iter().all(|depth| *depth == stored[0]), "{stored:?}");
    Ok(stored[0])
}

fn slope(lab: &Lab) -> Outcome {
    // From 0.25 on the left to 0.5 on the right of sixteen texels.
    let tilted: Vec<_> = whole_area(RED)
        .into_iter()
        .map(|corner| if corner[0] < 0.0 { at(0.25, &[corner])[0] } else { at(0.5, &[corner])[0] })
        .collect();
    let of = |factor: f32| {
        stored(
            lab,
            &tilted,
            |plan| {
                plan.raster = plan.raster.depth_bias_enable(true).depth_bias_slope_factor(factor);
            },
            |_| (),
        )
    };
    let (flat, moved) = (of(0.0)?, of(2.0)?);
    near(flat[3], 0.25 + 3.5 / 64.0)?;
    near(moved[3] - flat[3], 2.0 / 64.0)
}

/// Draws a rectangle whose depth grows from the left to the right.
fn clipped(
    lab: &Lab,
    [left, right]: [f32; 2],
    clamped: bool,
    is_there: impl Fn(f32) -> bool,
) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.raster.depth_clamp_enable = vk::Bool32::from(clamped);
    let place = |x, y, depth| at(depth, &[corner([x, y], RED)])[0];
    let [first, below] = [place(0.0, 0.0, left), place(0.0, 16.0, left)];
    let [beside, last] = [place(16.0, 0.0, right), place(16.0, 16.0, right)];
    let seen = sketch(&gpu, &plan, &[first, below, beside, beside, below, last])?;
    pictured(&seen, |x, y| {
        boxed([0.0, 0.0, 16.0, 16.0], if is_there(x) { RED } else { BLANK }, BLANK)(x, y)
    })
}
