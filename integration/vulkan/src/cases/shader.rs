// SPDX-License-Identifier: MIT OR Apache-2.0

//! What shaders compute, operation by operation, beside the processor.

mod atomic;
mod builtin;
mod contest;
mod conversion;
mod float;
mod layout;
mod program;
mod reduction;
mod signed;
mod store;
mod subgroup;
mod unsigned;
mod wide;
mod workgroup;

use crate::case::Case;
use crate::lab::{Failure, Lab, Module, Outcome, compile, same};

pub(super) const CASES: &[&[Case]] = &[
    unsigned::CASES,
    signed::CASES,
    float::CASES,
    wide::CASES,
    conversion::CASES,
    program::CASES,
    layout::CASES,
    store::CASES,
    builtin::CASES,
    atomic::CASES,
    contest::CASES,
    workgroup::CASES,
    reduction::CASES,
    subgroup::CASES,
];

/// Three numbers for each invocation, and one that is not used: a `vec4`.
type Input = [u32; 4];

/// Invocations of a work group.
const GROUP: usize = 64;

/// A function of three numbers, `a`, `b` and `c`, in WGSL.
#[derive(Clone, Copy)]
struct Function<'a> {
    /// What its body names.
    declarations: &'a str,
    /// The type of its numbers.
    number: &'a str,
    body: &'a str,
}

impl<'a> Function<'a> {
    /// One that names nothing of a module's.
    const fn new(number: &'a str, body: &'a str) -> Self {
        Self { declarations: "", number, body }
    }
}

/// Runs a shader with these words as its bindings 0 and 1, storage buffers both. Returns what the second holds then.
fn execute(
    lab: &Lab,
    source: &str,
    [input, output]: [&[u32]; 2],
    [x, y, z]: [u32; 3],
) -> Outcome<Vec<u32>> {
    let spirv = compile(source)?;
    let gpu = lab.gpu()?;
    let kernel = gpu.simple(Module(&spirv), 2, 0)?;
    let (input, output) = (gpu.buffer_of(input)?, gpu.buffer_of(output)?);
    let set = gpu.set(&kernel, &[input, output])?;
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]).dispatch(x, y, z).barrier();
    })?;
    Ok(output.read())
}

/// Runs a function for each of these. Returns what it returned.
fn run(lab: &Lab, function: Function<'_>, inputs: &[Input]) -> Outcome<Vec<u32>> {
    let Function { declarations, number, body } = function;
    let source = format!(
        "
        @group(0) @binding(0) var<storage, read> input: array<vec4<u32>>;
        @group(0) @binding(1) var<storage, read_write> output: array<u32>;
        {declarations}
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
    let groups = inputs.len().div_ceil(GROUP) as u32;
    execute(lab, &source, [&inputs.concat(), &vec![0; inputs.len()]], [groups, 1, 1])
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
    function: Function<'_>,
    inputs: &[Input],
    expected: impl Fn(&Input) -> u32,
) -> Outcome {
    let seen = run(lab, function, inputs)?;
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
    let seen = run(lab, Function::new("f32", body), &bits)?;
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
