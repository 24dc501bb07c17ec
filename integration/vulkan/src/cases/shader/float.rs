// SPDX-License-Identifier: MIT OR Apache-2.0

//! Floating-point numbers.

use super::{Near, near};
use crate::case::{Case, case};

/// Numbers of each size that all functions have a value for, or the functions below make it one.
const NUMBERS: [f32; 15] =
    [-100.5, -7.25, -3.0, -1.5, -1.0, -0.25, 0.0, 0.125, 0.5, 1.0, 1.75, 2.5, 3.0, 77.7, 1000.25];

/// All pairs, with a third one.
fn inputs() -> Vec<[f32; 3]> {
    let of = |(at, a): (usize, &f32)| {
        let each = NUMBERS.iter().enumerate();
        each.map(move |(other, b)| [*a, *b, NUMBERS[(3 * at + 7 * other) % NUMBERS.len()]])
            .collect::<Vec<_>>()
    };
    NUMBERS.iter().enumerate().flat_map(of).collect()
}

/// The distance of two neighbours, of the numbers between 1 and 2, to the greater.
const ULP: f64 = f32::EPSILON as f64;

/// Units in the last place, at most: twice as many of the smallest units.
const fn ulps(count: f64) -> Near {
    Near { relative: count * ULP, absolute: 1e-38 }
}

/// Correctly rounded.
const ROUNDED: Near = ulps(0.5);
const EXACT: Near = Near { relative: 0.0, absolute: 0.0 };
/// What a sum of rounded products is off by, if its parts are not larger than 10^6.
const SUM: Near = Near { relative: 4.0 * ULP, absolute: 0.5 };
/// `sin` and `cos` in their range.
const TRIGONOMETRIC: Near = Near { relative: 0.0, absolute: 1.0 / 2048.0 };
/// `atan` and its like.
const ARCUS: Near = ulps(4096.0);

/// Declares cases: a name, the body of a WGSL function, how near it is, and the same in Rust.
macro_rules! cases {
    ($($name:literal, $body:literal, $near:expr, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("shader.f32-", $name),
                concat!("a shader computes with f32: ", $body),
                |lab| {
                    let expected: fn(f64, f64, f64) -> f64 = $expected;
                    near(lab, $body, &inputs(), $near, expected)
                },
            ),
        )*];
    };
}

cases! {
    "add", "return a + b;", ROUNDED, |a, b, _| a + b;
    "subtract", "return a - b;", ROUNDED, |a, b, _| a - b;
    "multiply", "return a * b;", ROUNDED, |a, b, _| a * b;
    "divide", "return a / select(b, 1.0, b == 0.0);", ulps(2.5), |a, b, _| a / if b == 0.0 { 1.0 } else { b };
    "negate", "return -a;", EXACT, |a, _, _| -a;
    "magnitude", "return abs(a);", EXACT, |a, _, _| a.abs();
    "sign", "return sign(a);", EXACT, |a, _, _| if a == 0.0 { 0.0 } else { a.signum() };
    "floor", "return floor(a);", EXACT, |a, _, _| a.floor();
    "ceiling", "return ceil(a);", EXACT, |a, _, _| a.ceil();
    "truncate", "return trunc(a);", EXACT, |a, _, _| a.trunc();
    "round-to-even", "return round(a);", EXACT, |a, _, _| a.round_ties_even();
    "fraction", "return fract(a);", ROUNDED, |a, _, _| a - a.floor();
    "least", "return min(a, b);", EXACT, |a, b, _| a.min(b);
    "greatest", "return max(a, b);", EXACT, |a, b, _| a.max(b);
    "clamp", "return clamp(a, min(b, c), max(b, c));", EXACT, |a, b, c| a.clamp(b.min(c), b.max(c));
    "saturate", "return saturate(a);", EXACT, |a, _, _| a.clamp(0.0, 1.0);
    "step", "return step(a, b);", EXACT, |a, b, _| f64::from(u8::from(b >= a));
    "multiply-and-add", "return fma(a, b, c);", SUM, |a, b, c| a * b + c;
    "mix", "return mix(a, b, 0.25);", SUM, |a, b, _| a * 0.75 + b * 0.25;
    "smooth-step", "return smoothstep(-2.0, 2.0, a);", ulps(16.0), |a, _, _| {
        let t = ((a + 2.0) / 4.0).clamp(0.0, 1.0);
        t * t * (3.0 - 2.0 * t)
    };
    "square-root", "return sqrt(abs(a));", ulps(3.0), |a, _, _| a.abs().sqrt();
    "inverse-square-root", "return inverseSqrt(abs(a) + 0.5);", ulps(2.0), |a, _, _| (a.abs() + 0.5).sqrt().recip();
    "exponential-of-two", "return exp2(a * 0.0625);", ulps(3.0 + 2.0 * 63.0), |a, _, _| (a * 0.0625).exp2();
    "exponential", "return exp(a * 0.0625);", ulps(3.0 + 2.0 * 63.0), |a, _, _| (a * 0.0625).exp();
    "logarithm-of-two", "return log2(abs(a) + 2.0);", ulps(3.0), |a, _, _| (a.abs() + 2.0).log2();
    "logarithm", "return log(abs(a) + 2.0);", ulps(4.0), |a, _, _| (a.abs() + 2.0).ln();
    "power", "return pow(abs(a) + 0.5, 1.5);", ulps(256.0), |a, _, _| (a.abs() + 0.5).powf(1.5);
    "sine", "return sin(clamp(a, -3.0, 3.0));", TRIGONOMETRIC, |a, _, _| a.clamp(-3.0, 3.0).sin();
    "cosine", "return cos(clamp(a, -3.0, 3.0));", TRIGONOMETRIC, |a, _, _| a.clamp(-3.0, 3.0).cos();
    "arc-tangent", "return atan(a);", ARCUS, |a, _, _| a.atan();
    "arc-tangent-of-two", "return atan2(a, abs(b) + 0.5);", ARCUS, |a, b, _| a.atan2(b.abs() + 0.5);
    "hyperbolic-tangent", "return tanh(clamp(a, -3.0, 3.0));", Near { relative: 64.0 * ULP, absolute: 64.0 * ULP }, |a, _, _| a.clamp(-3.0, 3.0).tanh();
    "degrees", "return degrees(a);", ulps(4.0), |a, _, _| a.to_degrees();
    "radians", "return radians(a);", ulps(4.0), |a, _, _| a.to_radians();
    "exponent", "return ldexp(a, 3);", EXACT, |a, _, _| a * 8.0;
    "to-whole", "return f32(i32(a));", EXACT, |a, _, _| a.trunc();
    "to-unsigned", "return f32(u32(abs(a)));", EXACT, |a, _, _| a.abs().trunc();
    "less", "return select(0.0, 1.0, a < b);", EXACT, |a, b, _| f64::from(u8::from(a < b));
    "equal", "return select(0.0, 1.0, a == b);", EXACT, |a, b, _| f64::from(u8::from(a == b));
    "length", "return length(vec3<f32>(a, b, c));", ulps(8.0), |a, b, c| (a * a + b * b + c * c).sqrt();
    "distance", "return distance(vec2<f32>(a, b), vec2<f32>(1.0, 2.0));", ulps(8.0), |a, b, _| (a - 1.0).hypot(b - 2.0);
    "dot", "return dot(vec3<f32>(a, b, c), vec3<f32>(1.0, 2.0, 3.0));", SUM, |a, b, c| a + 2.0 * b + 3.0 * c;
    "cross", "return cross(vec3<f32>(a, b, c), vec3<f32>(1.0, 2.0, 3.0)).x;", SUM, |_, b, c| 3.0 * b - 2.0 * c;
    "normalize", "return normalize(vec2<f32>(a, abs(b) + 1.0)).y;", ulps(16.0), |a, b, _| (b.abs() + 1.0) / a.hypot(b.abs() + 1.0);
    "reflect", "return reflect(vec2<f32>(a, b), vec2<f32>(0.0, 1.0)).y;", SUM, |_, b, _| -b;
    "determinant", "return determinant(mat2x2<f32>(a, b, c, 2.0));", SUM, |a, b, c| a * 2.0 - b * c;
    "matrix-times-vector", "return (mat2x2<f32>(a, b, c, 2.0) * vec2<f32>(3.0, 4.0)).x;", SUM, |a, _, c| 3.0 * a + 4.0 * c;
    "transpose", "return (transpose(mat2x2<f32>(a, b, c, 2.0)) * vec2<f32>(3.0, 4.0)).x;", SUM, |a, b, _| 3.0 * a + 4.0 * b;
    "polynomial", "return ((a * 0.5 + 2.0) * a - 3.0) * 0.001;", Near { relative: 8.0 * ULP, absolute: 1e-3 }, |a, _, _| ((a * 0.5 + 2.0) * a - 3.0) * 0.001;
    "newton", "var x = 1.0 + abs(a); for (var i = 0; i < 30; i++) { x = 0.5 * (x + abs(a) / x); } return x;", Near { relative: 4.0 * ULP, absolute: 1e-4 }, |a, _, _| a.abs().sqrt();
}
