// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory that the invocations of a work group share, and barriers.

use super::execute;
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, same};

/// Invocations of a work group.
pub(super) const GROUP: usize = 64;
/// Work groups.
const GROUPS: usize = 5;

/// Runs a piece of WGSL that makes a `result` of what each invocation has as `mine`. What a work group is to return is expected of
/// what it has.
pub(super) fn check(
    lab: &Lab,
    declarations: &str,
    body: &str,
    expected: fn(&[u32]) -> Vec<u32>,
) -> Outcome {
    let source = format!(
        "
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> output: array<u32>;
        {declarations}
        @compute @workgroup_size({GROUP})
        fn main(
            @builtin(local_invocation_index) index: u32,
            @builtin(global_invocation_id) id: vec3<u32>,
        ) {{
            let mine = input[id.x];
            var result = 0u;
            {body}
            output[id.x] = result;
        }}"
    );
    let mine: Vec<u32> =
        (0..(GROUP * GROUPS) as u32).map(|id| id.wrapping_mul(0x9e37_79b9) >> 8).collect();
    let seen = execute(lab, &source, [&mine, &[0; GROUP * GROUPS]], [GROUPS as u32, 1, 1])?;
    same!(seen, mine.chunks(GROUP).flat_map(expected).collect::<Vec<_>>());
    Ok(())
}

/// Declares cases: a name, what it shows, declarations in WGSL, what each invocation does, and the same in Rust for a work group.
macro_rules! cases {
    ($($name:literal, $shows:literal, $declarations:literal, $body:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("workgroup.", $name),
                concat!("with memory that a work group shares, ", $shows),
                |lab| check(lab, $declarations, $body, $expected),
            ),
        )*];
    };
}

pub(super) use cases;

cases! {
    "reversed", "its invocations reverse their numbers",
    "var<workgroup> all: array<u32, 64>;",
    "all[index] = mine;
    workgroupBarrier();
    result = all[63u - index];",
    |mine| mine.iter().rev().copied().collect();

    "rotated", "numbers go around it step by step",
    "var<workgroup> all: array<u32, 64>;",
    "all[index] = mine;
    for (var step = 0; step < 10; step++) {
        workgroupBarrier();
        let next = all[(index + 1u) & 63u];
        workgroupBarrier();
        all[index] = next + 1u;
    }
    result = all[index];",
    |mine| (0..GROUP).map(|at| mine[(at + 10) % GROUP] + 10).collect();

    "transposed", "a matrix that is written by rows is read by columns",
    "var<workgroup> rows: array<array<u32, 8>, 8>;",
    "rows[index / 8u][index % 8u] = mine;
    workgroupBarrier();
    result = rows[index % 8u][index / 8u];",
    |mine| (0..GROUP).map(|at| mine[at % 8 * 8 + at / 8]).collect();

    "structures", "members of structures in it are apart from each other",
    "struct Part { a: u32, b: vec3<u32>, c: array<u32, 3> }
    var<workgroup> parts: array<Part, 64>;",
    "parts[index].a = mine;
    parts[index].b = vec3<u32>(mine + 1u, mine + 2u, mine + 3u);
    parts[index].c[index % 3u] = mine + 4u;
    workgroupBarrier();
    let other = (index * 5u + 3u) & 63u;
    let part = parts[other];
    result = part.a ^ (part.b.x * 3u) ^ (part.b.y * 5u) ^ (part.b.z * 7u) ^ (part.c[other % 3u] * 11u);",
    |mine| (0..GROUP).map(|at| {
        let of = mine[(at * 5 + 3) % GROUP];
        of ^ ((of + 1) * 3) ^ ((of + 2) * 5) ^ ((of + 3) * 7) ^ (of + 4).wrapping_mul(11)
    }).collect();

    "matrix-product", "whole numbers in two matrices of floating-point numbers are multiplied",
    "var<workgroup> left: array<array<f32, 8>, 8>; var<workgroup> right: array<array<f32, 8>, 8>;",
    "let row = index / 8u;
    let column = index % 8u;
    left[row][column] = f32(mine & 0xffu);
    right[row][column] = f32((mine >> 8u) & 0xffu);
    workgroupBarrier();
    var sum = 0.0;
    for (var at = 0u; at < 8u; at++) { sum += left[row][at] * right[at][column]; }
    result = u32(sum);",
    |mine| (0..GROUP).map(|at| {
        let product = |middle: usize| (mine[at / 8 * 8 + middle] & 0xff) * ((mine[middle * 8 + at % 8] >> 8) & 0xff);
        (0..8).map(product).sum()
    }).collect();

    "one-for-all", "what one invocation decides, all others do",
    "var<workgroup> chosen: u32;",
    "if index == 17u { chosen = mine % 3u; }
    let choice = workgroupUniformLoad(&chosen);
    if choice == 0u { result = mine; } else if choice == 1u { result = mine * 2u; } else { result = ~mine; }",
    |mine| mine.iter().map(|number| match mine[17] % 3 {
        0 => *number,
        1 => number * 2,
        _ => !number,
    }).collect();

    "through-a-buffer", "its invocations also see each other's numbers in a buffer behind a barrier",
    "",
    "output[id.x] = mine * 3u;
    storageBarrier();
    let other = output[id.x ^ 21u];
    storageBarrier();
    result = other + 1u;",
    |mine| (0..GROUP).map(|at| mine[at ^ 21] * 3 + 1).collect();
}
