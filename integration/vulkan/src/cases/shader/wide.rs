// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers of 64 bits, where the device has them.

use super::{GROUP, execute};
use crate::case::{Case, case};
use crate::lab::{Failure, Lab, Outcome, same};
use ash::vk;

/// Whole numbers at the edges of 32 and 64 bits, and some between.
const NUMBERS: [u64; 10] = [
    0,
    1,
    3,
    63,
    0xffff_ffff,
    0x1_0000_0001,
    0x1234_5678_9abc_def0,
    i64::MAX as u64,
    i64::MIN as u64,
    u64::MAX - 4,
];

/// Numbers of floating point whose sums and products 64 bits have exactly, and 32 do not.
const REALS: [f64; 7] =
    [1.0, -1.5, 33_554_433.0, 0.000_976_562_5, 0.125, 1_099_511_627_776.0, -824_633_720_832.0];

/// Tries a function of two numbers of 64 bits for all pairs, given as its body in WGSL, on the bits of them.
fn check(
    lab: &Lab,
    number: &str,
    body: &str,
    numbers: &[u64],
    expected: impl Fn(u64, u64) -> u64,
) -> Outcome {
    let pairs: Vec<_> = numbers.iter().flat_map(|a| numbers.iter().map(|b| (*a, *b))).collect();
    let source = format!(
        "
        @group(0) @binding(0) var<storage, read> input: array<{number}>;
        @group(0) @binding(1) var<storage, read_write> output: array<{number}>;
        fn compute(a: {number}, b: {number}) -> {number} {{ {body} }}
        @compute @workgroup_size({GROUP})
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            if id.x < {count}u {{ output[id.x] = compute(input[id.x * 2u], input[id.x * 2u + 1u]); }}
        }}",
        count = pairs.len()
    );
    let words = |number: u64| [number as u32, (number >> 32) as u32];
    let input: Vec<u32> =
        pairs.iter().flat_map(|(a, b)| [words(*a), words(*b)]).flatten().collect();
    let groups = pairs.len().div_ceil(GROUP) as u32;
    let seen = execute(lab, &source, [&input, &vec![0; pairs.len() * 2]], [groups, 1, 1])?;
    same!(seen, pairs.iter().flat_map(|(a, b)| words(expected(*a, *b))).collect::<Vec<_>>());
    Ok(())
}

/// Numbers without a sign.
fn unsigned(lab: &Lab, body: &str, expected: fn(u64, u64) -> u64) -> Outcome {
    require_whole(lab)?;
    check(lab, "u64", body, &NUMBERS, expected)
}

/// Numbers with a sign.
fn signed(lab: &Lab, body: &str, expected: fn(i64, i64) -> i64) -> Outcome {
    require_whole(lab)?;
    let of = |a: u64, b: u64| expected(a.cast_signed(), b.cast_signed()).cast_unsigned();
    check(lab, "i64", body, &NUMBERS, of)
}

/// Numbers of floating point.
fn real(lab: &Lab, body: &str, expected: fn(f64, f64) -> f64) -> Outcome {
    if lab.features().core.shader_float64 == vk::FALSE {
        return Err(Failure::not_offered("shaderFloat64"));
    }
    let of = |a, b| expected(f64::from_bits(a), f64::from_bits(b)).to_bits();
    check(lab, "f64", body, &REALS.map(f64::to_bits), of)
}

fn require_whole(lab: &Lab) -> Outcome {
    if lab.features().core.shader_int64 == vk::FALSE {
        return Err(Failure::not_offered("shaderInt64"));
    }
    Ok(())
}

/// Declares cases: a name, how it is tried, the body of a WGSL function of `a` and `b`, and the same in Rust.
macro_rules! cases {
    ($($name:literal, $try:ident, $body:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("shader.", $name),
                concat!("a shader computes with 64 bits: ", $body),
                |lab| $try(lab, $body, $expected),
            ),
        )*];
    };
}

cases! {
    "u64-add", unsigned, "return a + b;", u64::wrapping_add;
    "u64-multiply", unsigned, "return a * b;", u64::wrapping_mul;
    "u64-divide", unsigned, "return a / max(b, 1lu) + a % max(b, 1lu);", |a, b| (a / b.max(1)).wrapping_add(a % b.max(1));
    "u64-bits", unsigned, "return (a & b) ^ ~(a | (b ^ 5lu));", |a, b| (a & b) ^ !(a | (b ^ 5));
    "u64-shift", unsigned, "return (a << (u32(b) & 63u)) ^ (a >> (u32(b) & 63u));", |a, b| (a << (b & 63)) ^ (a >> (b & 63));
    "u64-compare", unsigned, "return select(a - b, b - a, a < b) + select(0lu, 7lu, a == b);", |a, b| a.abs_diff(b) + if a == b { 7 } else { 0 };
    "i64-multiply", signed, "return a * b - a;", |a, b| a.wrapping_mul(b).wrapping_sub(a);
    "i64-shift", signed, "return a >> (u32(b) & 63u);", |a, b| a >> (b & 63);
    "i64-least", signed, "return min(a, b) ^ max(a, 5li);", |a, b| a.min(b) ^ a.max(5);
    "i64-widened", signed, "return i64(i32(a)) ^ (i64(u64(u32(b))) << 8u);", |a, b| i64::from(a as i32) ^ (i64::from(b as u32) << 8);
    "f64-add", real, "return a + b;", |a, b| a + b;
    "f64-multiply", real, "return a * b;", |a, b| a * b;
    "f64-compare", real, "return select(a - 1.0lf, b, a < b);", |a, b| if a < b { b } else { a - 1.0 };
}
