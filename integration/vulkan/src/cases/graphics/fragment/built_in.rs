// SPDX-License-Identifier: MIT OR Apache-2.0

//! What fragments know of themselves ("Built-In Variables"), derivatives, and fragments that give up.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Corner, GREEN, Lab, Outcome, Plan, RED, Rendering, SIZE, at, boxed, colour_form,
    pictured, rectangle, require, sketch, sketch_on, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "fragment.place",
        "a fragment knows its centre, its depth, and what it was divided by",
        |lab| {
            let twice =
                |[x, y, z, w, r, g, b, a]: Corner| [x * 2.0, y * 2.0, z * 2.0, w * 2.0, r, g, b, a];
            let corners: Vec<_> = at(0.25, &whole_area(RED)).into_iter().map(twice).collect();
            seen(lab, "place", "@builtin(position) place: vec4<f32>", &corners, |x, y| {
                [x, y, 0.25, 0.5]
            })
        },
    ),
    case("fragment.facing", "a fragment knows whether its triangle faces the front", |lab| {
        let turned: Vec<_> = rectangle([0.0, 0.0, 8.0, 16.0], RED).into_iter().rev().collect();
        let both = [turned, rectangle([8.0, 0.0, 16.0, 16.0], RED)].concat();
        seen(
            lab,
            "vec4(select(2.0, 1.0, facing))",
            "@builtin(front_facing) facing: bool",
            &both,
            |x, _| [if x > 8.0 { 1.0 } else { 2.0 }; 4],
        )
    }),
    case("fragment.derivative", "derivatives are the differences between neighbours", |lab| {
        let given = "vec4(dpdx(place.x * 3.0), dpdy(place.y * -2.0), fwidth(place.x + place.y), dpdxFine(place.y))";
        seen(lab, given, "@builtin(position) place: vec4<f32>", &whole_area(RED), |_, _| {
            [3.0, -2.0, 2.0, 0.0]
        })
    }),
    case(
        "fragment.derivative-fine",
        "fine derivatives are those of a fragment's own row and column",
        |lab| {
            let given = "vec4(dpdxFine(place.x * place.x), dpdyFine(place.y * place.y), 0.0, 0.0)";
            seen(lab, given, "@builtin(position) place: vec4<f32>", &whole_area(RED), |x, y| {
                // The two of a pair have the same one, that at the texel's edge between them.
                let edge = |it: f32| 2.0 * ((it as u32 & !1) + 1) as f32;
                [edge(x), edge(y), 0.0, 0.0]
            })
        },
    ),
    case(
        "fragment.primitive",
        "a fragment knows the number of its triangle in the draw",
        primitive,
    ),
    case("fragment.discard", "fragments that give up change nothing", |lab| {
        let gpu = lab.graphics()?;
        let plan = Plan::of(GIVES_UP)?;
        let seen = sketch(
            &gpu,
            &plan,
            &[whole_area(RED), rectangle([2.0, 2.0, 12.0, 6.0], GREEN)].concat(),
        )?;
        pictured(&seen, |x, y| match (x as u32 + y as u32) % 2 {
            0 => boxed([2.0, 2.0, 12.0, 6.0], GREEN, RED)(x, y),
            _ => BLANK,
        })
    }),
    case("fragment.discard-depth", "fragments that give up store no depths", |lab| {
        let gpu = lab.graphics()?;
        let depths = gpu.canvas(crate::lab::depth_form(vk::Format::D16_UNORM))?;
        let mut plan = Plan::of(GIVES_UP)?;
        plan.with_depth(depths, vk::CompareOp::LESS);
        let canvas = gpu.colours()?;
        let rendering = Rendering::blank(canvas).depth(depths.filled_to(1.0, 0));
        sketch_on(&gpu, &rendering, &plan, &whole_area(RED))?;
        let bytes = gpu.bytes_of_canvas(depths, crate::lab::DEPTH)?;
        for (place, texel) in bytes.chunks(2).enumerate() {
            let right = if (place % 16 + place / 16) % 2 == 0 { [0; 2] } else { [0xff; 2] };
            crate::lab::same!(texel, right);
        }
        Ok(())
    }),
];

/// Gives up at every other texel.
const GIVES_UP: &str = "
    struct Seen { @builtin(position) place: vec4<f32>, @location(0) colour: vec4<f32> }
    @vertex fn vertex(@location(0) place: vec4<f32>, @location(1) colour: vec4<f32>) -> Seen {
        return Seen(place, colour);
    }
    @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> {
        if (u32(seen.place.x) + u32(seen.place.y)) % 2u == 1u { discard; }
        return seen.colour;
    }";

/// Requires what fragments give at each place.
fn seen(
    lab: &Lab,
    given: &str,
    taken: &str,
    corners: &[Corner],
    expected: impl Fn(f32, f32) -> [f32; 4],
) -> Outcome {
    let gpu = lab.graphics()?;
    let source = format!(
        "@vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> {{ return place; }}
        @fragment fn fragment({taken}) -> @location(0) vec4<f32> {{ return {given}; }}"
    );
    let mut plan = Plan::of(&source)?;
    let format = vk::Format::R32G32B32A32_SFLOAT;
    plan.targets(&[format]);
    let canvas = gpu.canvas(colour_form(format))?;
    sketch_on(&gpu, &Rendering::blank(canvas), &plan, corners)?;
    for (place, texel) in (0..).zip(gpu.words(canvas)?.chunks(4)) {
        let right = expected((place % SIZE) as f32 + 0.5, (place / SIZE) as f32 + 0.5);
        let seen: Vec<_> = texel.iter().map(|bits| f32::from_bits(*bits)).collect();
        let near = seen.iter().zip(&right).all(|(seen, right)| (seen - right).abs() < 1e-3);
        require!(near, "texel {place} is {seen:?}, not {right:?}");
    }
    Ok(())
}

fn primitive(lab: &Lab) -> Outcome {
    // Fragments have it where there may be a geometry shader.
    lab.needs("geometryShader", lab.features().core.geometry_shader)?;
    let gpu = lab.graphics()?;
    let source = "
        enable primitive_index;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment(@builtin(primitive_index) number: u32) -> @location(0) u32 { return number + 1u; }";
    let mut plan = Plan::of(source)?;
    let format = vk::Format::R32_UINT;
    plan.targets(&[format]);
    let column =
        |place: u32| rectangle([place as f32 * 4.0, 0.0, place as f32 * 4.0 + 4.0, 16.0], RED);
    let canvas = gpu.canvas(colour_form(format))?;
    sketch_on(
        &gpu,
        &Rendering::blank(canvas),
        &plan,
        &(0..4).flat_map(column).collect::<Vec<_>>(),
    )?;
    let seen = gpu.words(canvas)?;
    // At the upper left and the lower right of each column.
    let right = [0, 1, 2, 3].map(|column| [column * 2 + 1, column * 2 + 2]);
    for (column, [first, second]) in right.into_iter().enumerate() {
        crate::lab::same!([seen[column * 4], seen[15 * 16 + column * 4 + 3]], [first, second]);
    }
    Ok(())
}
