// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fragments for each sample ("Sample Shading").

use super::scene::{PLACES, apart, canvas, needs_places, plan};
use crate::case::{Case, case};
use crate::lab::{
    Lab, Outcome, RED, Rendering, Slot, pictured, pictured_nearly, require, sketch_on, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("sample.shading-index", "each sample has a fragment that knows which it is", |lab| {
        each(lab, "@builtin(sample_index) which: u32", "f32(which) / 255.0, 0.0", 0, |sample, _| {
            0xff00_0000 | sample as u32
        })
    }),
    case("sample.shading-place", "the place of a sample's fragment is the sample's", |lab| {
        needs_places(lab)?;
        let taken = "@builtin(position) place: vec4<f32>, @builtin(sample_index) which: u32";
        each(lab, taken, "fract(place.x) + f32(which) * 0.0, fract(place.y)", 1, |sample, _| {
            let [x, y] = PLACES[sample].map(|it| (it * 255.0).round() as u32);
            0xff00_0000 | y << 8 | x
        })
    }),
    case(
        "sample.shading-interpolated",
        "numbers of vertices are those of the sample's place if they are to be so",
        |lab| {
            needs_places(lab)?;
            let source = "
            struct Seen { @builtin(position) place: vec4<f32>, @location(0) @interpolate(perspective, sample) number: vec2<f32> }
            @vertex fn vertex(@location(0) place: vec4<f32>) -> Seen { return Seen(place, place.xy * 8.0 + 8.0); }
            @fragment fn fragment(seen: Seen) -> @location(0) vec4<f32> { return vec4(fract(seen.number), 0.0, 1.0); }";
            drawn(lab, source, 2, |sample, _| {
                let [x, y] = PLACES[sample].map(|it| (it * 255.0).round() as u32);
                0xff00_0000 | y << 8 | x
            })
        },
    ),
    case("sample.shading-all", "a pipeline has a fragment for each sample", all),
    case("sample.no-shading", "samples of a texel have one fragment, and its colour", |lab| {
        let source = "
            @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
            @fragment fn fragment(@builtin(position) place: vec4<f32>) -> @location(0) vec4<f32> {
                return vec4(floor(place.xy) / 255.0, 0.0, 1.0);
            }";
        drawn(lab, source, 0, |_, [x, y]| 0xff00_0000 | (y as u32) << 8 | x as u32)
    }),
];

fn each(
    lab: &Lab,
    taken: &str,
    given: &str,
    off: u8,
    right: impl Fn(usize, [f32; 2]) -> u32,
) -> Outcome {
    let source = format!(
        "@vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> {{ return place; }}
        @fragment fn fragment({taken}) -> @location(0) vec4<f32> {{ return vec4({given}, 0.0, 1.0); }}"
    );
    drawn(lab, &source, off, right)
}

/// Draws all of a canvas, and requires each sample's colour.
fn drawn(lab: &Lab, source: &str, off: u8, right: impl Fn(usize, [f32; 2]) -> u32) -> Outcome {
    lab.needs("sampleRateShading", lab.features().core.sample_rate_shading)?;
    let gpu = lab.graphics()?;
    let canvas = canvas(&gpu)?;
    sketch_on(&gpu, &Rendering::blank(canvas), &plan(source)?, &whole_area(RED))?;
    for (sample, texels) in apart(&gpu, canvas)?.iter().enumerate() {
        pictured_nearly(texels, off, |x, y| right(sample, [x, y]))?;
    }
    Ok(())
}

fn all(lab: &Lab) -> Outcome {
    lab.needs("sampleRateShading", lab.features().core.sample_rate_shading)?;
    lab.needs("fragmentStoresAndAtomics", lab.features().core.fragment_stores_and_atomics)?;
    let gpu = lab.graphics()?;
    let source = "
        @group(0) @binding(0) var<storage, read_write> count: atomic<u32>;
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() -> @location(0) vec4<f32> { atomicAdd(&count, 1u); return vec4(1.0, 0.0, 0.0, 1.0); }";
    let mut plan = plan(source)?;
    plan.slots = vec![Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1)];
    plan.samples = plan.samples.sample_shading_enable(true).min_sample_shading(1.0);
    let (brush, vertices, count) =
        (gpu.drawer(&plan)?, gpu.corners(&whole_area(RED))?, gpu.buffer(1)?);
    let (set, canvas) = (gpu.set(&brush, &[count])?, canvas(&gpu)?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).brush_sets(&brush, &[set], &[]);
        commands.vertices(&vertices).draw(6).end().barrier();
    })?;
    // One for each sample, which neither triangle shares with the other.
    require!(count.word(0) == 4 * 256, "there are {} fragments", count.word(0));
    for texels in apart(&gpu, canvas)? {
        pictured(&texels, |_, _| RED)?;
    }
    Ok(())
}
