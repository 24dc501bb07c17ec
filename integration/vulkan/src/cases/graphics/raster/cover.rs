// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which texels triangles and points cover ("Basic Polygon Rasterization", "Basic Point Rasterization").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, Lab, Outcome, Plan, RED, Rendering, boxed, corners, drawn, pictured, rectangle,
    sketch, sketch_on, triangle,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("raster.cover.centre", "a rectangle covers a texel if it has its centre", |lab| {
        let seen = drawn(lab, |_| (), &rectangle([2.25, 3.625, 9.375, 11.75], RED))?;
        pictured(&seen, boxed([2.0, 4.0, 9.0, 12.0], RED, BLANK))
    }),
    case("raster.cover.between", "a triangle between centres covers none", |lab| {
        let seen = drawn(lab, |_| (), &triangle([[3.6, 3.6], [3.6, 4.4], [4.4, 3.6]], RED))?;
        pictured(&seen, |_, _| BLANK)
    }),
    case("raster.cover.sixteenth", "places are as exact as a sixteenth of a texel", |lab| {
        let area = [3.0 + 9.0 / 16.0, 3.0 + 7.0 / 16.0, 8.0 + 9.0 / 16.0, 8.0 + 7.0 / 16.0];
        let seen = drawn(lab, |_| (), &rectangle(area, RED))?;
        pictured(&seen, boxed([4.0, 3.0, 9.0, 8.0], RED, BLANK))
    }),
    case("raster.cover.no-area", "triangles without an area cover nothing", |lab| {
        let line = [[1.5, 1.5], [14.5, 1.5], [8.5, 1.5]];
        let point = [[4.5, 4.5]; 3];
        let seen = drawn(lab, |_| (), &corners(&[line, point].concat(), RED))?;
        pictured(&seen, |_, _| BLANK)
    }),
    case(
        "raster.cover.once",
        "triangles with a common edge never both cover a texel, and leave none out",
        |lab| {
            let (end, mid) = (16.0, 7.5);
            let ring = [[0.0, 0.0], [0.0, end], [end, end], [end, 0.0], [0.0, 0.0]];
            once(
                lab,
                &ring
                    .windows(2)
                    .flat_map(|edge| [edge[0], edge[1], [mid, mid]])
                    .collect::<Vec<_>>(),
            )
        },
    ),
    case(
        "raster.cover.diagonal",
        "the two triangles of a square share each centre on its diagonal",
        |lab| {
            once(
                lab,
                &[[0.0, 0.0], [0.0, 16.0], [16.0, 0.0], [16.0, 0.0], [0.0, 16.0], [16.0, 16.0]],
            )
        },
    ),
    case("raster.cover.grid", "small triangles that fill a square cover each texel once", |lab| {
        let side = 16.0 / 5.0;
        let cell = |place: u32| {
            let [x, y] = [place % 5, place / 5].map(|step| step as f32 * side);
            [
                [x, y],
                [x, y + side],
                [x + side, y],
                [x + side, y],
                [x, y + side],
                [x + side, y + side],
            ]
        };
        once(lab, &(0..25).flat_map(cell).collect::<Vec<_>>())
    }),
    case(
        "raster.cover.slope",
        "a triangle covers a texel exactly if its centre is inside all edges",
        |lab| {
            let places = [[1.0, 2.0], [5.0, 15.0], [14.0, 6.0]];
            let seen = drawn(lab, |_| (), &triangle(places, RED))?;
            let side = |from: usize, x: f32, y: f32| {
                let ([ax, ay], [bx, by]) = (places[from], places[(from + 1) % 3]);
                (bx - ax) * (y - ay) - (by - ay) * (x - ax)
            };
            pictured(
                &seen,
                |x, y| if (0..3).all(|edge| side(edge, x, y) < 0.0) { RED } else { BLANK },
            )
        },
    ),
    case(
        "raster.cover.point",
        "a point of one texel covers the texel that it is the centre of",
        |lab| {
            let points = vk::PrimitiveTopology::POINT_LIST;
            let seen = drawn(lab, |plan| plan.topology = points, &corners(&[[6.5, 11.5]], RED))?;
            pictured(&seen, boxed([6.0, 11.0, 7.0, 12.0], RED, BLANK))
        },
    ),
    case("raster.cover.discard", "nothing is drawn where a pipeline discards primitives", |lab| {
        let discard = |plan: &mut Plan<'_>| plan.raster.rasterizer_discard_enable = vk::TRUE;
        pictured(&drawn(lab, discard, &rectangle([1.0, 1.0, 9.0, 9.0], RED))?, |_, _| BLANK)
    }),
    case(
        "raster.cover.outside",
        "what is beside the canvas is not drawn, and what reaches in is",
        |lab| {
            let far =
                [rectangle([-9.0, -4.0, 3.0, 40.0], RED), rectangle([16.0, 0.0, 30.0, 16.0], RED)];
            let seen = drawn(lab, |_| (), &far.concat())?;
            pictured(&seen, boxed([0.0, 0.0, 3.0, 16.0], RED, BLANK))
        },
    ),
    case("raster.cover.perspective", "a corner's place is divided by its last number", |lab| {
        let gpu = lab.graphics()?;
        let scaled = rectangle([2.0, 3.0, 12.0, 13.0], RED).into_iter().zip(1..);
        let scaled: Vec<Corner> = scaled
            .map(|([x, y, z, _, r, g, b, a], w)| {
                let w = w as f32 * 0.5;
                [x * w, y * w, z * w, w, r, g, b, a]
            })
            .collect();
        let seen = sketch(&gpu, &Plan::plain()?, &scaled)?;
        pictured(&seen, boxed([2.0, 3.0, 12.0, 13.0], RED, BLANK))
    }),
];

/// Draws triangles that fill the canvas, each of which adds to what is there.
fn once(lab: &Lab, places: &[[f32; 2]]) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::plain()?;
    plan.blends[0].blend_enable = vk::TRUE;
    plan.blends[0].dst_color_blend_factor = vk::BlendFactor::ONE;
    plan.blends[0].dst_alpha_blend_factor = vk::BlendFactor::ONE;
    let canvas = gpu.colours()?;
    sketch_on(&gpu, &Rendering::blank(canvas), &plan, &corners(places, 0x0102_0304))?;
    pictured(&gpu.words(canvas)?, |_, _| 0x0102_0304)
}
