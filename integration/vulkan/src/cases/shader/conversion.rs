// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers that become others: of another type, packed, and unpacked.

use super::{Function, Input, exact, pairs};
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome};

/// Words of all kinds.
const WORDS: [u32; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8001,
    0xffff_ff81,
    0x1234_5678,
    0x7f80_8101,
    0x8181_7f7f,
    0xdead_beef,
];

/// Numbers of floating point that 16 bits have, too. No product with 127, 255, 32,767 or 65,535 is between two whole numbers in the middle: Vulkan lets
/// a device choose then.
const NUMBERS: [f32; 14] =
    [0.0, 0.25, -0.25, 0.75, -0.75, 0.125, -0.125, 0.875, 1.0, -1.0, 3.0, -7.75, 100.0, -2000.0];

/// A function of two words.
fn of_words(lab: &Lab, body: &str, expected: fn(u32, u32) -> u32) -> Outcome {
    exact(lab, Function::new("u32", body), &pairs(&WORDS), |[a, b, ..]| expected(*a, *b))
}

/// A function of two numbers, given as words `a` and `b` of their bits, to a word.
fn of_numbers(lab: &Lab, body: &str, expected: fn(f32, f32) -> u32) -> Outcome {
    let body = format!("let x = bitcast<f32>(a); let y = bitcast<f32>(b); {body}");
    let function = Function::new("u32", &body);
    let of = |[a, b, ..]: &Input| expected(f32::from_bits(*a), f32::from_bits(*b));
    exact(lab, function, &pairs(&NUMBERS.map(f32::to_bits)), of)
}

/// Declares cases: a name, how it is tried, the body of a WGSL function, and the same in Rust.
macro_rules! cases {
    ($($name:literal, $try:ident, $body:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("conversion.", $name),
                concat!("a shader converts: ", $body),
                |lab| $try(lab, $body, $expected),
            ),
        )*];
    };
}

/// A number between -1 and 1 as a whole one of so many steps.
fn steps(number: f32, steps: f32) -> i32 {
    (number.clamp(-1.0, 1.0) * steps).round() as i32
}

/// Bytes as numbers with a sign.
fn signed_bytes(word: u32) -> [i32; 4] {
    word.to_le_bytes().map(|byte| byte.cast_signed().into())
}

cases! {
    "float-to-signed", of_numbers, "return bitcast<u32>(i32(x * 3.0) * 10 + i32(y));",
        |x, y| ((x * 3.0) as i32 * 10 + y as i32).cast_unsigned();
    "float-to-unsigned", of_numbers, "return u32(abs(x) * 1048576.0) + u32(abs(y));",
        |x, y| (x.abs() * 1_048_576.0) as u32 + y.abs() as u32;
    "float-beyond-signed", of_numbers, "return u32(2147483648.0 + floor(abs(x)) * 1024.0);",
        |x, _| 0x8000_0000 + x.abs() as u32 * 1024;
    "vectors", of_numbers, "let v = vec4<i32>(vec4<f32>(x, y, -x, 8.75)); return bitcast<u32>(v.x ^ (v.y * 3) ^ (v.z * 5) ^ v.w);",
        |x, y| (x as i32 ^ (y as i32 * 3) ^ (-x as i32 * 5) ^ 8).cast_unsigned();
    "truth-to-numbers", of_words, "let t = a < b; return u32(t) + 10u * u32(i32(t)) + 100u * u32(f32(t));",
        |a, b| if a < b { 111 } else { 0 };
    "numbers-to-truth", of_words, "return select(0u, 1u, bool(a)) + select(0u, 10u, bool(i32(b))) + select(0u, 100u, bool(f32(a)));",
        |a, b| u32::from(a != 0) * 101 + u32::from(b != 0) * 10;
    "bits-of-vectors", of_words, "let v = bitcast<vec2<i32>>(vec2<u32>(a, b)); return bitcast<u32>(min(v.x, v.y)) ^ u32(v.x < 0);",
        |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned() ^ (a >> 31);
    "pack-signed-bytes", of_numbers, "return pack4x8snorm(vec4<f32>(x, y, -x, 1.0));",
        |x, y| u32::from_le_bytes([x, y, -x, 1.0].map(|number| steps(number, 127.0) as u8));
    "pack-signed-halves", of_numbers, "return pack2x16snorm(vec2<f32>(x, y));",
        |x, y| u32::from(steps(x, 32767.0) as u16) | (u32::from(steps(y, 32767.0) as u16) << 16);
    "pack-unsigned-halves", of_numbers, "return pack2x16unorm(vec2<f32>(x, y));",
        |x, y| (steps(x.max(0.0), 65535.0) as u32) | ((steps(y.max(0.0), 65535.0) as u32) << 16);
    "pack-floats", of_numbers, "return pack2x16float(vec2<f32>(x, y));",
        |x, y| half(x) | (half(y) << 16);
    "unpack-signed-bytes", of_words, "let v = round(unpack4x8snorm(a) * 127.0); return bitcast<u32>(i32(v.x) + 300 * i32(v.y) + 90000 * i32(v.w));",
        |a, _| {
            let [x, y, _, w] = signed_bytes(a).map(|byte| byte.max(-127));
            (x + 300 * y + 90_000 * w).cast_unsigned()
        };
    "unpack-signed-halves", of_words, "let v = round(unpack2x16snorm(a) * 32767.0); return bitcast<u32>(i32(v.x) * 3 + i32(v.y));",
        |a, _| {
            let of = |part: u32| i32::from((part as u16).cast_signed()).max(-32767);
            (of(a) * 3 + of(a >> 16)).cast_unsigned()
        };
    "unpack-unsigned-halves", of_words, "let v = round(unpack2x16unorm(a) * 65535.0); return u32(v.x) * 3u + u32(v.y);",
        |a, _| (a & 0xffff) * 3 + (a >> 16);
    "unpack-floats", of_numbers, "let v = unpack2x16float(pack2x16float(vec2<f32>(x, y) * 0.5)); return bitcast<u32>(v.x + v.y * 4.0);",
        |x, y| (x * 0.5 + y * 2.0).to_bits();
    "rounded-to-half", of_numbers, "return bitcast<u32>(quantizeToF16(x) + quantizeToF16(y * 2.0));",
        |x, y| (x + y * 2.0).to_bits();
    "whole-and-fraction", of_numbers, "let m = modf(x); return bitcast<u32>(m.whole * 4096.0 + m.fract);",
        |x, _| (x.trunc() * 4096.0 + x.fract()).to_bits();
    "significand-and-exponent", of_numbers, "let f = frexp(x); return bitcast<u32>(f.fract + 32.0 * f32(f.exp));",
        |x, _| {
            let exponent = if x == 0.0 { 0 } else { (x.to_bits() >> 23 & 0xff).cast_signed() - 126 };
            (x / (exponent as f32).exp2() + 32.0 * exponent as f32).to_bits()
        };
    "dot-of-unsigned-bytes", of_words, "return dot4U8Packed(a, b);",
        |a, b| a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(a, b)| u32::from(*a) * u32::from(b)).sum();
    "dot-of-signed-bytes", of_words, "return bitcast<u32>(dot4I8Packed(a, b));",
        |a, b| signed_bytes(a).iter().zip(signed_bytes(b)).map(|(a, b)| a * b).sum::<i32>().cast_unsigned();
    "signed-bits", of_words, "let v = bitcast<i32>(a); return countOneBits(a) + 64u * bitcast<u32>(countOneBits(v)) + (bitcast<u32>(reverseBits(v)) & 0xfffff000u);",
        |a, _| a.count_ones().wrapping_mul(65).wrapping_add(a.reverse_bits() & 0xffff_f000);
    "signed-insert", of_words, "return bitcast<u32>(insertBits(bitcast<i32>(a), bitcast<i32>(b), 5u, 9u));",
        |a, b| (a & !(0x1ff << 5)) | ((b & 0x1ff) << 5);
}

/// A number that IEEE 754's binary16 has, of its normal ones or zero, in 16 bits.
const fn half(number: f32) -> u32 {
    let bits = number.to_bits();
    let (sign, rest) = (bits >> 31 << 15, bits & 0x7fff_ffff);
    if rest == 0 { sign } else { sign | ((rest - (112 << 23)) >> 13) }
}
