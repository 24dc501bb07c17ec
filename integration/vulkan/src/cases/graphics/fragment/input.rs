// SPDX-License-Identifier: MIT OR Apache-2.0

//! What fragments have of vertices ("Interpolation Decorations", "Polygon Rasterization").

use crate::case::{Case, case};
use crate::lab::{
    Corner, Lab, Outcome, Plan, RED, Rendering, SIZE, colour_form, require, sketch_on, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case(
        "fragment.linear",
        "a number that vertices have is that of the place between them",
        |lab| seen(lab, "", [1.0; 2], |x, _| x / 16.0),
    ),
    case("fragment.perspective", "a number is nearer to that of a nearer vertex", |lab| {
        // From 0 at the left, where w is 1, to 1 at the right, where w is 4.
        seen(lab, "", [1.0, 4.0], |x, _| {
            let t = x / 16.0;
            (t / 4.0) / ((1.0 - t) + t / 4.0)
        })
    }),
    case(
        "fragment.no-perspective",
        "a number is that of the place on the canvas if it is to be so",
        |lab| seen(lab, "@interpolate(linear)", [1.0, 4.0], |x, _| x / 16.0),
    ),
    case("fragment.flat", "a flat number is that of a triangle's first vertex", |lab| {
        // The first triangle begins at the left, the second at the right.
        seen(lab, "@interpolate(flat)", [1.0, 4.0], |x, y| if x + y < 16.0 { 0.0 } else { 1.0 })
    }),
    case("fragment.integers", "whole numbers reach fragments as they are", integers),
    case("fragment.many-inputs", "fragments have numbers at fifteen locations", many),
    case("fragment.input-parts", "locations have one to four numbers", parts),
];

/// What fragments see of a number that is 0 at the left and 1 at the right, where corners have these last numbers.
fn seen(
    lab: &Lab,
    how: &str,
    [left, right]: [f32; 2],
    expected: impl Fn(f32, f32) -> f32,
) -> Outcome {
    let source = format!(
        "struct Seen {{ @builtin(position) place: vec4<f32>, @location(0) {how} number: f32 }}
        @vertex fn vertex(@location(0) place: vec4<f32>, @location(1) colour: vec4<f32>) -> Seen {{
            return Seen(place, colour.r);
        }}
        @fragment fn fragment(seen: Seen) -> @location(0) f32 {{ return seen.number; }}"
    );
    let corner = |corner: Corner| {
        let [x, y, ..] = corner;
        let (w, number) = if x < 0.0 { (left, 0.0) } else { (right, 1.0) };
        [x * w, y * w, 0.0, w, number, 0.0, 0.0, 1.0]
    };
    let corners: Vec<_> = whole_area(RED).into_iter().map(corner).collect();
    let words = stored(lab, &source, vk::Format::R32_SFLOAT, &corners)?;
    for (place, word) in (0..).zip(words) {
        let (x, y) = ((place % SIZE) as f32 + 0.5, (place / SIZE) as f32 + 0.5);
        let (seen, right) = (f32::from_bits(word), expected(x, y));
        // Centres on the diagonal are in either triangle.
        let is_near = (seen - right).abs() < 1e-3 || (how.contains("flat") && x + y == 16.0);
        require!(is_near, "{seen} is seen at {x}, {y}, not {right}");
    }
    Ok(())
}

/// The first words of what fragments give to a target of this format.
fn stored(lab: &Lab, source: &str, format: vk::Format, corners: &[Corner]) -> Outcome<Vec<u32>> {
    let gpu = lab.graphics()?;
    let mut plan = Plan::of(source)?;
    plan.targets(&[format]);
    let canvas = gpu.canvas(colour_form(format))?;
    sketch_on(&gpu, &Rendering::blank(canvas), &plan, corners)?;
    gpu.words(canvas)
}

fn integers(lab: &Lab) -> Outcome {
    let source = "
        struct Seen {
            @builtin(position) place: vec4<f32>,
            @location(0) @interpolate(flat) unsigned: vec3<u32>,
            @location(4) @interpolate(flat) signed: i32,
        }
        @vertex fn vertex(@location(0) place: vec4<f32>) -> Seen {
            return Seen(place, vec3(4000000001u, 0u, 16777217u), -2147483647);
        }
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<u32> {
            return vec4(seen.unsigned, bitcast<u32>(seen.signed));
        }";
    let words = stored(lab, source, vk::Format::R32G32B32A32_UINT, &whole_area(RED))?;
    let right = [4_000_000_001, 0, 16_777_217, (-2_147_483_647i32).cast_unsigned()];
    require!(words.chunks(4).all(|texel| texel == right), "{:?}", words.iter().take(4));
    Ok(())
}

fn many(lab: &Lab) -> Outcome {
    let lines = |line: &dyn Fn(u32) -> String, between: &str| {
        (0..15).map(line).collect::<Vec<_>>().join(between)
    };
    let members = lines(&|at| format!("@location({at}) @interpolate(flat) n{at}: vec4<u32>,"), " ");
    let values = lines(&|at| format!("vec4({at}u, {at}u * 2u, 1u, 7u)"), ", ");
    let sum = lines(&|at| format!("seen.n{at} * {}u", at + 1), " + ");
    let source = format!(
        "struct Seen {{ @builtin(position) place: vec4<f32>, {members} }}
        @vertex fn vertex(@location(0) place: vec4<f32>) -> Seen {{ return Seen(place, {values}); }}
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<u32> {{ return {sum}; }}"
    );
    let words = stored(lab, &source, vk::Format::R32G32B32A32_UINT, &whole_area(RED))?;
    let squares: u32 = (0..15).map(|at| at * (at + 1)).sum();
    let right = [squares, squares * 2, 120, 840];
    require!(words.chunks(4).all(|texel| texel == right), "{:?}", words.iter().take(4));
    Ok(())
}

fn parts(lab: &Lab) -> Outcome {
    let source = "
        struct Seen {
            @builtin(position) place: vec4<f32>,
            @location(0) one: f32,
            @location(1) two: vec2<f32>,
            @location(3) three: vec3<f32>,
            @location(2) four: vec4<f32>,
        }
        @vertex fn vertex(@location(0) place: vec4<f32>) -> Seen {
            return Seen(place, 1.0, vec2(2.0, 3.0), vec3(4.0, 5.0, 6.0), vec4(7.0, 8.0, 9.0, 10.0));
        }
        @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> {
            return vec4(seen.one + seen.four.w, seen.two.y * seen.two.x, seen.three.z + seen.three.x, seen.four.x - seen.four.z);
        }";
    let words = stored(lab, source, vk::Format::R32G32B32A32_SFLOAT, &whole_area(RED))?;
    let is_near = |(bits, right): (&u32, &f32)| (f32::from_bits(*bits) - right).abs() < 1e-3;
    let right = [11.0, 6.0, 10.0, -2.0];
    require!(words.chunks(4).all(|texel| texel.iter().zip(&right).all(is_near)), "{words:x?}");
    Ok(())
}
