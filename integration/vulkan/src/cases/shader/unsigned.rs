// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers without a sign, comparisons, and the flow of control.

use super::{Function, exact, pairs};
use crate::case::{Case, case};

/// Numbers at the edges, and some between.
const NUMBERS: [u32; 14] = [
    0,
    1,
    2,
    3,
    5,
    16,
    31,
    0xff,
    0xffff,
    0x1234_5678,
    0x7fff_ffff,
    0x8000_0000,
    0xdead_beef,
    0xffff_ffff,
];

/// Declares cases: a name, the body of a WGSL function of `a`, `b` and `c`, and the same in Rust.
macro_rules! cases {
    ($($name:literal, $body:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("shader.u32-", $name),
                concat!("a shader computes with u32: ", $body),
                |lab| {
                    let expected: fn(u32, u32, u32) -> u32 = $expected;
                    let function = Function::new("u32", $body);
                    exact(lab, function, &pairs(&NUMBERS), |[a, b, c, _]| expected(*a, *b, *c))
                },
            ),
        )*];
    };
}

cases! {
    "add", "return a + b;", |a, b, _| a.wrapping_add(b);
    "subtract", "return a - b;", |a, b, _| a.wrapping_sub(b);
    "multiply", "return a * b;", |a, b, _| a.wrapping_mul(b);
    "divide", "return a / max(b, 1u);", |a, b, _| a / b.max(1);
    "remainder", "return a % max(b, 1u);", |a, b, _| a % b.max(1);
    "multiply-and-add", "return a * b + c;", |a, b, c| a.wrapping_mul(b).wrapping_add(c);
    "and", "return a & b;", |a, b, _| a & b;
    "or", "return a | b;", |a, b, _| a | b;
    "exclusive-or", "return a ^ b;", |a, b, _| a ^ b;
    "not", "return ~a;", |a, _, _| !a;
    "shift-left", "return a << (b & 31u);", |a, b, _| a << (b & 31);
    "shift-right", "return a >> (b & 31u);", |a, b, _| a >> (b & 31);
    "rotate", "return (a << (b & 31u)) | (a >> ((32u - (b & 31u)) & 31u));", |a, b, _| a.rotate_left(b & 31) | if b & 31 == 0 { a } else { 0 };
    "least", "return min(a, b);", |a, b, _| a.min(b);
    "greatest", "return max(a, b);", |a, b, _| a.max(b);
    "clamp", "return clamp(a, min(b, c), max(b, c));", |a, b, c| a.clamp(b.min(c), b.max(c));
    "count-ones", "return countOneBits(a);", |a, _, _| a.count_ones();
    "leading-zeros", "return countLeadingZeros(a);", |a, _, _| a.leading_zeros();
    "trailing-zeros", "return countTrailingZeros(a);", |a, _, _| a.trailing_zeros();
    "reverse", "return reverseBits(a);", |a, _, _| a.reverse_bits();
    "first-leading", "return firstLeadingBit(a);", |a, _, _| a.checked_ilog2().unwrap_or(u32::MAX);
    "first-trailing", "return firstTrailingBit(a);", |a, _, _| if a == 0 { u32::MAX } else { a.trailing_zeros() };
    "extract", "return extractBits(a, b & 15u, c & 15u);", |a, b, c| (a >> (b & 15)) & ((1 << (c & 15)) - 1);
    "insert", "return insertBits(a, b, c & 15u, 7u);", |a, b, c| {
        let mask = 0x7f << (c & 15);
        (a & !mask) | ((b << (c & 15)) & mask)
    };
    "equal", "return select(0u, 1u, a == b);", |a, b, _| u32::from(a == b);
    "unequal", "return select(0u, 1u, a != b);", |a, b, _| u32::from(a != b);
    "less", "return select(0u, 1u, a < b);", |a, b, _| u32::from(a < b);
    "less-or-equal", "return select(0u, 1u, a <= b);", |a, b, _| u32::from(a <= b);
    "greater", "return select(0u, 1u, a > b);", |a, b, _| u32::from(a > b);
    "greater-or-equal", "return select(0u, 1u, a >= b);", |a, b, _| u32::from(a >= b);
    "select", "return select(a, b, c > 77u);", |a, b, c| if c > 77 { b } else { a };
    "both", "return select(0u, 1u, a > 5u && b > 5u);", |a, b, _| u32::from(a > 5 && b > 5);
    "either", "return select(0u, 1u, a > 5u || b > 5u);", |a, b, _| u32::from(a > 5 || b > 5);
    "to-float", "return bitcast<u32>(f32(a));", |a, _, _| (a as f32).to_bits();
    "vector-add", "let r = vec4<u32>(a, b, c, a) + vec4<u32>(1u, 2u, 3u, 4u); return r.x ^ r.y ^ r.z ^ r.w;", |a, b, c| {
        a.wrapping_add(1) ^ b.wrapping_add(2) ^ c.wrapping_add(3) ^ a.wrapping_add(4)
    };
    "swizzle", "let v = vec4<u32>(a, b, c, 9u); let w = v.wzyx; return w.x * 3u + w.y * 5u + w.z * 7u + w.w;", |a, b, c| {
        c.wrapping_mul(5).wrapping_add(b.wrapping_mul(7)).wrapping_add(a).wrapping_add(27)
    };
    "any-of-vector", "return select(0u, 1u, any(vec3<u32>(a, b, c) == vec3<u32>(0u)));", |a, b, c| u32::from([a, b, c].contains(&0));
    "all-of-vector", "return select(0u, 1u, all(vec3<u32>(a, b, c) > vec3<u32>(2u)));", |a, b, c| u32::from([a, b, c].iter().all(|x| *x > 2));
    "dot", "return dot(vec3<u32>(a, b, c), vec3<u32>(2u, 3u, 4u));", |a, b, c| {
        a.wrapping_mul(2).wrapping_add(b.wrapping_mul(3)).wrapping_add(c.wrapping_mul(4))
    };
    "loop", "var sum = 0u; for (var i = 0u; i < (a & 63u); i++) { sum += i * b; } return sum;", |a, b, _| {
        (0..a & 63).fold(0u32, |sum, i| sum.wrapping_add(i.wrapping_mul(b)))
    };
    "loop-that-breaks", "var i = 0u; loop { if i * i >= (a & 0xfffu) { break; } i += 1u; } return i;", |a, _, _| {
        (0..).find(|i| i * i >= a & 0xfff).unwrap_or(0)
    };
    "loop-that-continues", "var sum = 0u; for (var i = 0u; i < 40u; i++) { if (i & 1u) == (a & 1u) { continue; } sum += i; } return sum;", |a, _, _| {
        (0..40).filter(|i| i & 1 != a & 1).sum()
    };
    "nested-loops", "var n = 0u; for (var i = 0u; i < (a & 7u); i++) { for (var j = i; j < (b & 7u); j++) { n += i * 8u + j; } } return n;", |a, b, _| {
        (0..a & 7).flat_map(|i| (i..b & 7).map(move |j| i * 8 + j)).sum()
    };
    "while", "var x = a | 1u; var n = 0u; while (x & 0x80000000u) == 0u { x = x << 1u; n++; } return n;", |a, _, _| (a | 1).leading_zeros();
    "switch", "switch a & 3u { case 0u: { return b; } case 1u, 2u: { return c; } default: { return 7u; } }", |a, b, c| match a & 3 {
        0 => b,
        1 | 2 => c,
        _ => 7,
    };
    "early-return", "if a > b { return 1u; } if b > c { return 2u; } return 3u;", |a, b, c| match (a > b, b > c) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 3,
    };
    "array-by-index", "var t = array<u32, 8>(1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u); t[b & 7u] = c; return t[a & 7u];", |a, b, c| {
        if a & 7 == b & 7 { c } else { 1 << (a & 7) }
    };
    "greatest-common-divisor", "var x = a & 0xffffu; var y = b & 0xffffu; while y != 0u { let r = x % y; x = y; y = r; } return x;", |a, b, _| {
        let (mut x, mut y) = (a & 0xffff, b & 0xffff);
        while y != 0 {
            (x, y) = (y, x % y);
        }
        x
    };
    "collatz", "var x = (a & 0x3ffu) + 1u; var n = 0u; while x != 1u { if (x & 1u) == 0u { x = x / 2u; } else { x = 3u * x + 1u; } n++; } return n;", |a, _, _| {
        let (mut x, mut n) = ((a & 0x3ff) + 1, 0);
        while x != 1 {
            x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 };
            n += 1;
        }
        n
    };
    "hash", "var h = a ^ 0x811c9dc5u; for (var i = 0u; i < 4u; i++) { h = (h ^ ((b >> (i * 8u)) & 0xffu)) * 0x01000193u; } return h;", |a, b, _| {
        b.to_le_bytes().iter().fold(a ^ 0x811c_9dc5, |h, byte| (h ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    };
    "pack-bytes", "return pack4x8unorm(vec4<f32>(f32(a & 0xffu), f32(b & 0xffu), f32(c & 0xffu), 255.0) / 255.0);", |a, b, c| {
        u32::from_le_bytes([a as u8, b as u8, c as u8, 255])
    };
    "unpack-bytes", "let v = unpack4x8unorm(a) * 255.0; return u32(round(v.x)) + 256u * u32(round(v.w));", |a, _, _| (a & 0xff) + 256 * (a >> 24);
    "pack-halves", "return pack2x16float(vec2<f32>(f32(a & 0x7ffu), f32(b & 0x7ffu)));", |a, b, _| half(a & 0x7ff) | half(b & 0x7ff) << 16;
    "unpack-halves", "let v = unpack2x16float((a & 0x3ffu) | 0x4000u); return bitcast<u32>(v.x);", |a, _, _| (2.0 + (a & 0x3ff) as f32 / 512.0).to_bits();
}

/// A whole number up to 2,048 as IEEE 754's binary16, which has it exactly.
const fn half(number: u32) -> u32 {
    match number.checked_ilog2() {
        None => 0,
        Some(exponent) => ((exponent + 15) << 10) | (((number << 10) >> exponent) & 0x3ff),
    }
}
