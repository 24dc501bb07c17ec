// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which samples of a texel are covered and written ("Multisample Coverage", "Sample Mask", "Alpha to Coverage").

use super::scene::{PLACES, apart, canvas, canvas_of, needs_places, plan, resolved};
use crate::case::{Case, case};
use crate::lab::{
    BLANK, GREEN, Gpu, Lab, Outcome, PLAIN, Plan, RED, Rendering, SIZE, at, boxed, depth_form,
    pictured, pictured_nearly, rectangle, sketch_on, stage, triangle, whole_area,
};
use ash::vk;

/// Declares cases of numbers of samples.
macro_rules! counts {
    ($($name:literal $count:ident;)*) => {
        pub(super) const COUNTS: &[Case] = &[$(case(
            concat!("sample.count.", $name),
            concat!("texels of ", $name, " samples are drawn, and each sample is read"),
            |lab| counted(lab, vk::SampleCountFlags::$count),
        ),)*];
    };
}

counts! {
    "2" TYPE_2;
    "4" TYPE_4;
    "8" TYPE_8;
    "16" TYPE_16;
}

pub(super) const CASES: &[Case] = &[
    case("sample.edge", "a sample is covered exactly if its place is inside all edges", |lab| {
        needs_places(lab)?;
        each(
            lab,
            |_| (),
            &triangle(SLANTED, RED),
            |_, place| if is_inside(place) { RED } else { BLANK },
        )
    }),
    case("sample.half", "a texel of which half is covered has half of the samples", |lab| {
        needs_places(lab)?;
        let part = [0.0, 0.0, 5.5, 16.0];
        each(lab, |_| (), &rectangle(part, RED), |_, [x, _]| if x < 5.5 { RED } else { BLANK })
    }),
    case("sample.inside", "all samples of a texel that is covered whole are", |lab| {
        let part = [2.0, 3.0, 12.0, 14.0];
        each(lab, |_| (), &rectangle(part, RED), |_, [x, y]| boxed(part, RED, BLANK)(x, y))
    }),
    case("sample.mask", "a pipeline's mask says which samples are written", |lab| {
        each(
            lab,
            |plan| plan.mask = Some(0b0101),
            &whole_area(RED),
            |sample, _| {
                if sample % 2 == 0 { RED } else { BLANK }
            },
        )
    }),
    case("sample.mask-none", "an empty mask leaves all samples", |lab| {
        each(lab, |plan| plan.mask = Some(0), &whole_area(RED), |_, _| BLANK)
    }),
    case("sample.mask-of-fragment", "a fragment says which of its samples are written", |lab| {
        let fragment = |plan: &mut Plan<'_>| {
            plan.stage(vk::ShaderStageFlags::FRAGMENT, stage!("mask_given.frag"));
        };
        each(
            lab,
            fragment,
            &whole_area(RED),
            |sample, [x, _]| {
                if x as usize % 4 == sample { RED } else { BLANK }
            },
        )
    }),
    case("sample.mask-seen", "a fragment knows which of its samples are covered", |lab| {
        needs_places(lab)?;
        let fragment = |plan: &mut Plan<'_>| {
            plan.stage(vk::ShaderStageFlags::FRAGMENT, stage!("mask_seen.frag"));
        };
        each(lab, fragment, &triangle(SLANTED, RED), |sample, [x, y]| {
            let [x_in, y_in] = PLACES[sample];
            let is_covered = |[to_x, to_y]: [f32; 2]| is_inside([x - x_in + to_x, y - y_in + to_y]);
            let all = (0..).zip(PLACES).filter(|(_, place)| is_covered(*place));
            let mask: u32 = all.map(|(sample, _)| 1 << sample).sum();
            if is_inside([x, y]) { 0xff00_0000 | mask } else { BLANK }
        })
    }),
    case("sample.alpha-all", "an alpha of one covers all samples", |lab| {
        let to_coverage = |plan: &mut Plan<'_>| plan.samples.alpha_to_coverage_enable = vk::TRUE;
        each(lab, to_coverage, &whole_area(RED), |_, _| RED)
    }),
    case("sample.alpha-none", "an alpha of zero covers no samples", |lab| {
        let to_coverage = |plan: &mut Plan<'_>| plan.samples.alpha_to_coverage_enable = vk::TRUE;
        each(lab, to_coverage, &whole_area(RED & 0xff), |_, _| BLANK)
    }),
    case("sample.alpha-to-one", "alpha is one where a pipeline says so", |lab| {
        lab.needs("alphaToOne", lab.features().core.alpha_to_one)?;
        let to_one = |plan: &mut Plan<'_>| plan.samples.alpha_to_one_enable = vk::TRUE;
        each(lab, to_one, &whole_area(0x4000_00ff), |_, _| RED)
    }),
    case("sample.depth", "each sample has a depth of its own", depth),
];

/// A triangle whose edges touch no sample.
const SLANTED: [[f32; 2]; 3] = [[1.03, 2.07], [5.11, 15.03], [14.05, 6.01]];

fn is_inside([x, y]: [f32; 2]) -> bool {
    (0..3).all(|from| {
        let ([ax, ay], [bx, by]) = (SLANTED[from], SLANTED[(from + 1) % 3]);
        (bx - ax) * (y - ay) - (by - ay) * (x - ax) < 0.0
    })
}

fn counted(lab: &Lab, samples: vk::SampleCountFlags) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = canvas_of(&gpu, samples)?;
    let mut plan = Plan::plain()?;
    plan.sampled(samples);
    plan.mask = Some(0x5555_5555);
    let green = Rendering::of(&[canvas.filled_with([0.0, 1.0, 0.0, 1.0])]);
    sketch_on(&gpu, &green, &plan, &whole_area(RED))?;
    for (sample, texels) in apart(&gpu, canvas)?.iter().enumerate() {
        pictured(texels, |_, _| if sample % 2 == 0 { RED } else { GREEN })?;
    }
    // A half of each.
    pictured_nearly(&resolved(&gpu, canvas)?, 1, |_, _| 0xff00_8080)
}

/// Draws corners, and requires each sample's colour at its place.
fn each(
    lab: &Lab,
    differ: impl FnOnce(&mut Plan<'_>),
    corners: &[crate::lab::Corner],
    right: impl Fn(usize, [f32; 2]) -> u32,
) -> Outcome {
    let gpu = lab.graphics()?;
    let canvas = canvas(&gpu)?;
    let mut plan = plan(PLAIN)?;
    differ(&mut plan);
    sketch_on(&gpu, &Rendering::blank(canvas), &plan, corners)?;
    for (sample, (texels, [x_in, y_in])) in apart(&gpu, canvas)?.iter().zip(PLACES).enumerate() {
        pictured(texels, |x, y| right(sample, [x - 0.5 + x_in, y - 0.5 + y_in]))?;
    }
    Ok(())
}

fn depth(lab: &Lab) -> Outcome {
    let gpu: Gpu<'_> = lab.graphics()?;
    let canvas = canvas(&gpu)?;
    let depths = gpu.canvas(depth_form(vk::Format::D16_UNORM).samples(super::scene::FOUR))?;
    let mut near = plan(PLAIN)?;
    near.with_depth(depths, vk::CompareOp::LESS);
    // The nearer one has two samples, and the farther one gets the others.
    near.mask = Some(0b0011);
    let mut far = near.clone();
    far.mask = None;
    let brushes = [gpu.drawer(&near)?, gpu.drawer(&far)?];
    let all = [at(0.25, &whole_area(RED)), at(0.5, &whole_area(GREEN))].concat();
    let vertices = gpu.corners(&all)?;
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas).depth(depths.filled_to(1.0, 0)));
        commands.vertices(&vertices).brush(&brushes[0]).draw(6);
        commands.brush(&brushes[1]).draw_some([6, 1], [6, 0]).end();
    })?;
    for (sample, texels) in apart(&gpu, canvas)?.iter().enumerate() {
        crate::lab::same!(texels.len() as u32, SIZE * SIZE);
        pictured(texels, |_, _| if sample < 2 { RED } else { GREEN })?;
    }
    Ok(())
}
