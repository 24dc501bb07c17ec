// SPDX-License-Identifier: MIT OR Apache-2.0

//! Stores to parts of what is in a buffer: what is beside them stays.

use super::execute;
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, same};

/// Words of the buffer.
const WORDS: u32 = 32;

/// Has one invocation store in a `Data` whose words are their numbers at first. Some of them are others then.
fn stores(lab: &Lab, declarations: &str, body: &str, changed: &[(usize, u32)]) -> Outcome {
    let source = format!(
        "
        {declarations}
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> data: Data;
        @compute @workgroup_size(1)
        fn main() {{
            // No compiler knows it.
            let two = input[2];
            {body}
        }}"
    );
    let before: Vec<u32> = (0..WORDS).collect();
    let seen = execute(lab, &source, [&before, &before], [1, 1, 1])?;
    let mut expected = before;
    for (place, value) in changed {
        expected[*place] = *value;
    }
    same!(seen, expected);
    Ok(())
}

/// Declares cases: a name, what it shows, `Data` in WGSL, what is stored, and the words that are others then.
macro_rules! cases {
    ($($name:literal, $shows:literal, $declarations:literal, $body:literal, $changed:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(concat!("store.", $name), $shows, |lab| stores(lab, $declarations, $body, &$changed)),
        )*];
    };
}

cases! {
    "vector-of-three", "a store of a vector of three leaves the number behind it",
        "struct Data { a: vec3<u32>, b: u32, c: vec3<u32>, d: u32 }",
        "data.a = vec3<u32>(100u, 101u, 102u); data.c.y = 105u;",
        [(0, 100), (1, 101), (2, 102), (5, 105)];
    "chosen-component", "a store to a component that is chosen by a number leaves the others",
        "alias Data = array<vec4<u32>, 8>;",
        "data[1][two] = 100u; data[two * 3u][two + 1u] = 101u;",
        [(6, 100), (27, 101)];
    "column", "a store to a column of a matrix leaves the others, and one to an element its column",
        "struct Data { m: mat4x4<f32> }",
        "data.m[two] = vec4<f32>(1.0, -2.0, 0.5, 4.0); data.m[1][two] = 8.0;",
        [(6, 8f32.to_bits()), (8, 1f32.to_bits()), (9, (-2f32).to_bits()), (10, 0.5f32.to_bits()), (11, 4f32.to_bits())];
    "member-of-an-element", "a store to a member of one structure in an array leaves all others",
        "struct Part { a: u32, b: vec2<u32>, c: array<u32, 2> } alias Data = array<Part, 5>;",
        "data[two].b.x = 100u; data[two].c[1] = 101u; data[4].a = 102u;",
        [(14, 100), (17, 101), (24, 102)];
    "whole-structure", "a structure is copied whole within a buffer",
        "struct Part { a: u32, b: u32, c: vec2<u32>, d: array<u32, 4> } alias Data = array<Part, 4>;",
        "data[two + 1u] = data[two - 1u];",
        [(24, 8), (25, 9), (26, 10), (27, 11), (28, 12), (29, 13), (30, 14), (31, 15)];
    "swapped", "two elements are swapped through a variable",
        "alias Data = array<array<u32, 4>, 8>;",
        "let first = data[0]; data[0] = data[two * 3u]; data[two * 3u] = first;",
        [(0, 24), (1, 25), (2, 26), (3, 27), (24, 0), (25, 1), (26, 2), (27, 3)];
    "through-a-pointer", "elements are changed through a pointer to a part of one that a number chooses",
        "struct Part { a: array<u32, 4> } alias Data = array<Part, 8>;",
        "let part = &data[two].a; for (var at = 0u; at < 4u; at++) { (*part)[at] += 10u * at; }",
        [(9, 19), (10, 30), (11, 41)];
}
