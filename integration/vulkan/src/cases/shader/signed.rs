// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with a sign.

use super::{Function, exact, pairs};
use crate::case::{Case, case};

/// Numbers at the edges, and some between.
const NUMBERS: [i32; 13] =
    [0, 1, -1, 2, -3, 7, -16, 100, -255, 65_537, -1_000_000, i32::MAX, i32::MIN];

/// Declares cases, as those without a sign.
macro_rules! cases {
    ($($name:literal, $body:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("shader.i32-", $name),
                concat!("a shader computes with i32: ", $body),
                |lab| {
                    let expected: fn(i32, i32, i32) -> i32 = $expected;
                    let of = |[a, b, c, _]: &[u32; 4]| {
                        let [a, b, c] = [a, b, c].map(|bits| bits.cast_signed());
                        expected(a, b, c).cast_unsigned()
                    };
                    exact(lab, Function::new("i32", $body), &pairs(&NUMBERS.map(i32::cast_unsigned)), of)
                },
            ),
        )*];
    };
}

cases! {
    "add", "return a + b;", |a, b, _| a.wrapping_add(b);
    "subtract", "return a - b;", |a, b, _| a.wrapping_sub(b);
    "multiply", "return a * b;", |a, b, _| a.wrapping_mul(b);
    "divide", "if b == 0 || (a == i32(-0x7fffffff - 1) && b == -1) { return 9; } return a / b;", |a, b, _| a.checked_div(b).unwrap_or(9);
    "remainder", "if b == 0 || (a == i32(-0x7fffffff - 1) && b == -1) { return 9; } return a % b;", |a, b, _| a.checked_rem(b).unwrap_or(9);
    "negate", "return -a;", |a, _, _| a.wrapping_neg();
    "magnitude", "return abs(a);", |a, _, _| a.wrapping_abs();
    "sign", "return sign(a);", |a, _, _| a.signum();
    "least", "return min(a, b);", |a, b, _| a.min(b);
    "greatest", "return max(a, b);", |a, b, _| a.max(b);
    "clamp", "return clamp(a, min(b, c), max(b, c));", |a, b, c| a.clamp(b.min(c), b.max(c));
    "shift-left", "return a << (u32(b) & 31u);", |a, b, _| a.wrapping_shl(b.cast_unsigned() & 31);
    "shift-right", "return a >> (u32(b) & 31u);", |a, b, _| a >> (b & 31);
    "and", "return a & b;", |a, b, _| a & b;
    "not", "return ~a;", |a, _, _| !a;
    "less", "return select(0, 1, a < b);", |a, b, _| i32::from(a < b);
    "less-or-equal", "return select(0, 1, a <= b);", |a, b, _| i32::from(a <= b);
    "greater", "return select(0, 1, a > b);", |a, b, _| i32::from(a > b);
    "greater-or-equal", "return select(0, 1, a >= b);", |a, b, _| i32::from(a >= b);
    "first-leading", "return firstLeadingBit(a);", |a, _, _| {
        let differing = a ^ (a >> 31);
        differing.cast_unsigned().checked_ilog2().map_or(-1, u32::cast_signed)
    };
    "extract", "return extractBits(a, u32(b) & 15u, (u32(c) & 7u) + 1u);", |a, b, c| {
        let (offset, count) = (b & 15, (c & 7) + 1);
        a.wrapping_shl((32 - offset - count).cast_unsigned()) >> (32 - count)
    };
    "to-float", "return bitcast<i32>(f32(a));", |a, _, _| (a as f32).to_bits().cast_signed();
    "to-unsigned-and-back", "return i32(u32(a) + 1u);", |a, _, _| a.wrapping_add(1);
    "factorial", "var r = 1; for (var i = 2; i <= (a & 7); i++) { r *= i; } return r;", |a, _, _| (2..=(a & 7)).product();
    "fibonacci", "var x = 0; var y = 1; for (var i = 0; i < (a & 31); i++) { let z = x + y; x = y; y = z; } return x;", |a, _, _| {
        (0..(a & 31)).fold((0, 1), |(x, y): (i32, i32), _| (y, x.wrapping_add(y))).0
    };
    "sorted-middle", "return max(min(a, b), min(max(a, b), c));", |a, b, c| {
        let mut all = [a, b, c];
        all.sort_unstable();
        all[1]
    };
}
