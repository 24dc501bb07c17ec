// SPDX-License-Identifier: MIT OR Apache-2.0

//! What shaders compute, operation by operation, beside the processor.

mod float;
mod signed;
mod unsigned;

use crate::case::Case;
use crate::lab::{Failure, Lab, Module, Outcome, compile, same};

pub(super) const CASES: &[&[Case]] = &[unsigned::CASES, signed::CASES, float::CASES];

/// Three numbers for each invocation, and one that is not used: a `vec4`.
type Input = [u32; 4];

/// Invocations of a work group.
const GROUP: usize = 64;

/// Runs a function of three numbers, given as its body, for each of these. Returns what it returned.
fn run(lab: &Lab, number: &str, body: &str, inputs: &[Input]) -> Outcome<Vec<u32>> {
    let source = format!(
        "
        @group(0) @binding(0) var<storage, read> input: array<vec4<u32>>;
        @group(0) @binding(1) var<storage, read_write> output: array<u32>;
        fn compute(a: {number}, b: {number}, c: {number}) -> {number} {{ {body} }}
        @compute @workgroup_size({GROUP})
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            if id.x < {count}u {{
                let all = bitcast<vec4<{number}>>(input[id.x]);
                output[id.x] = bitcast<u32>(compute(all.x, all.y, all.z));
            }}
        }}",
        count = inputs.len()
    );
    let spirv = compile(&source)?;
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(Module(&spirv), 2, 0)?;
    let (input, output) = (gpu.buffer_of(&inputs.concat())?, gpu.buffer(inputs.len())?);
    let set = gpu.set(&kernel, &[input, output])?;
    let groups = inputs.len().div_ceil(GROUP) as u32;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(groups, 1, 1).barrier();
    })?;
    Ok(output.read())
}

/// All pairs of these numbers, with a third one.
fn pairs(numbers: &[u32]) -> Vec<Input> {
    let of =
        |a: &u32| numbers.iter().map(|b| [*a, *b, a.rotate_left(7) ^ b, 0]).collect::<Vec<_>>();
    numbers.iter().flat_map(of).collect()
}

/// A function of whole numbers is the same everywhere.
fn exact(
    lab: &Lab,
    number: &str,
    body: &str,
    inputs: &[Input],
    expected: impl Fn(&Input) -> u32,
) -> Outcome {
    let seen = run(lab, number, body, inputs)?;
    same!(seen, inputs.iter().map(expected).collect::<Vec<_>>());
    Ok(())
}

/// How far a result may be from the exact one.
#[derive(Clone, Copy)]
struct Near {
    /// Of the exact one.
    relative: f64,
    absolute: f64,
}

/// A function of floating-point numbers is as near as Vulkan's specification has it ("Precision of core SPIR-V Instructions").
fn near(
    lab: &Lab,
    body: &str,
    inputs: &[[f32; 3]],
    Near { relative, absolute }: Near,
    expected: impl Fn(f64, f64, f64) -> f64,
) -> Outcome {
    let bits: Vec<Input> =
        inputs.iter().map(|[a, b, c]| [a.to_bits(), b.to_bits(), c.to_bits(), 0]).collect();
    let seen = run(lab, "f32", body, &bits)?;
    for (input, seen) in inputs.iter().zip(seen) {
        let [a, b, c] = input.map(f64::from);
        let (seen, expected) = (f64::from(f32::from_bits(seen)), expected(a, b, c));
        let off = (seen - expected).abs();
        // A result that is no number is far from all.
        let is_near = off <= absolute + relative * expected.abs();
        if !is_near {
            return Err(Failure::seen(format!("of {input:?} it is {seen:e}, not {expected:e}")));
        }
    }
    Ok(())
}
