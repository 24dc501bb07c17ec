// SPDX-License-Identifier: MIT OR Apache-2.0

//! Conditions of draws and dispatches ("Conditional Rendering").

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Gpu, Lab, Outcome, Plan, RED, Rendering, compile, pictured, same, whole_area,
};
use ash::vk;

pub(super) const CASES: &[Case] = &[
    case("condition.draw", "a draw is done if the word is not 0", |lab| {
        for (word, is_there) in [(0, false), (1, true), (0x8000_0000, true)] {
            drawn(lab, word, false, is_there)?;
        }
        Ok(())
    }),
    case("condition.inverted", "inverted, a draw is done if the word is 0", |lab| {
        for (word, is_there) in [(0, true), (1, false)] {
            drawn(lab, word, true, is_there)?;
        }
        Ok(())
    }),
    case("condition.across", "a condition holds for several renderings", |lab| {
        let gpu = gpu(lab)?;
        let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&whole_area(RED))?);
        let (one, other, words) = (gpu.colours()?, gpu.colours()?, gpu.buffer_of(&[7, 0])?);
        gpu.run(|commands| {
            commands.only_if(&words, 1, false);
            for canvas in [one, other] {
                commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
                commands.draw(6).end().barrier();
            }
            commands.in_any_case();
        })?;
        for canvas in [one, other] {
            pictured(&gpu.words(canvas)?, |_, _| BLANK)?;
        }
        Ok(())
    }),
    case("condition.dispatch", "a dispatch is done if the word is not 0", |lab| {
        let gpu = gpu(lab)?;
        let spirv = compile(
            "@group(0) @binding(0) var<storage, read_write> to: array<u32>;
            @compute @workgroup_size(1) fn main() { to[0] += 1u; }",
        )?;
        let buffer = crate::lab::Slot(0, vk::DescriptorType::STORAGE_BUFFER, 1);
        let kernel = gpu.kernel(crate::lab::Module(&spirv), &[&[buffer]], 0, &[])?;
        let (to, words) = (gpu.buffer(1)?, gpu.buffer_of(&[0, 3])?);
        let set = gpu.empty_set(&kernel, 0)?;
        gpu.write(set, 0, vk::DescriptorType::STORAGE_BUFFER, &[crate::lab::whole(&to)]);
        gpu.run(|commands| {
            commands.bind(&kernel).sets(&kernel, &[set]);
            for word in [0, 1, 0, 1] {
                commands.only_if(&words, word, false).dispatch(1, 1, 1).in_any_case().barrier();
            }
        })?;
        same!(to.word(0), 2);
        Ok(())
    }),
];

/// A device that has conditions.
fn gpu(lab: &Lab) -> Outcome<Gpu<'_>> {
    let has = lab.extended()?.conditional_rendering.conditional_rendering;
    lab.needs("conditionalRendering", has)?;
    lab.graphics()
}

/// Draws under a condition of a word in a rendering, and then without one.
fn drawn(lab: &Lab, word: u32, inverted: bool, is_there: bool) -> Outcome {
    let gpu = gpu(lab)?;
    let (brush, vertices) = (gpu.drawer(&Plan::plain()?)?, gpu.corners(&whole_area(RED))?);
    let (canvas, words) = (gpu.colours()?, gpu.buffer_of(&[word])?);
    gpu.run(|commands| {
        commands.begin(&Rendering::blank(canvas)).brush(&brush).vertices(&vertices);
        commands.only_if(&words, 0, inverted).draw(6).in_any_case().end();
    })?;
    pictured(&gpu.words(canvas)?, |_, _| if is_there { RED } else { BLANK })
}
