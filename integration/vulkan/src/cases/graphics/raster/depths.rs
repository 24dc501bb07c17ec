// SPDX-License-Identifier: MIT OR Apache-2.0

//! Depths that are not clipped, or begin with -1 (`VK_EXT_depth_clip_enable`, `VK_EXT_depth_clip_control`).

use crate::case::{Case, case};
use crate::lab::{BLANK, Plan, RED, Rendering, at, depth_form, drawn, pictured, same, whole_area};
use ash::vk::{self, CompareOp};

pub(super) const CASES: &[Case] = &[
    case(
        "raster.depth.not-clipped",
        "what is beyond the depths is drawn where none are clipped",
        |lab| {
            lab.needs("depthClipEnable", lab.extended()?.depth_clip_enable.depth_clip_enable)?;
            for (clips, depth, is_there) in
                [(false, 1.5, true), (false, -0.5, true), (true, 1.5, false), (true, 0.5, true)]
            {
                let differ = |plan: &mut Plan<'_>| plan.newer.clip = Some(clips);
                let seen = drawn(lab, differ, &at(depth, &whole_area(RED)))?;
                pictured(&seen, |_, _| if is_there { RED } else { BLANK })?;
            }
            Ok(())
        },
    ),
    case(
        "raster.depth.clamped-and-clipped",
        "depths may be clamped, and clipped all the same",
        |lab| {
            lab.needs("depthClipEnable", lab.extended()?.depth_clip_enable.depth_clip_enable)?;
            lab.needs("depthClamp", lab.features().core.depth_clamp)?;
            for (clips, is_there) in [(true, false), (false, true)] {
                let differ = |plan: &mut Plan<'_>| {
                    plan.raster.depth_clamp_enable = vk::TRUE;
                    plan.newer.clip = Some(clips);
                };
                let seen = drawn(lab, differ, &at(1.5, &whole_area(RED)))?;
                pictured(&seen, |_, _| if is_there { RED } else { BLANK })?;
            }
            Ok(())
        },
    ),
    case(
        "raster.depth.from-minus-one",
        "depths from -1 to 1 are stored as depths from 0 to 1",
        |lab| {
            lab.needs("depthClipControl", lab.extended()?.depth_clip_control.depth_clip_control)?;
            let gpu = lab.graphics()?;
            for (depth, stored) in [(-1.0, 0.0), (-0.5, 0.25), (0.0, 0.5), (0.5, 0.75)] {
                let (canvas, depths) =
                    (gpu.colours()?, gpu.canvas(depth_form(vk::Format::D32_SFLOAT))?);
                let mut plan = Plan::plain()?;
                plan.with_depth(depths, CompareOp::ALWAYS);
                plan.newer.from_minus_one = true;
                let corners = at(depth, &whole_area(RED));
                let (brush, vertices) = (gpu.drawer(&plan)?, gpu.corners(&corners)?);
                gpu.run(|commands| {
                    commands.begin(&Rendering::blank(canvas).depth(depths.filled_to(1.0, 0)));
                    commands.brush(&brush).vertices(&vertices).draw(6).end();
                })?;
                pictured(&gpu.words(canvas)?, |_, _| RED)?;
                same!(gpu.depths(depths)?.iter().all(|seen| *seen == stored), true);
            }
            Ok(())
        },
    ),
];
