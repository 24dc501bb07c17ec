// SPDX-License-Identifier: MIT OR Apache-2.0

//! Functions, variables, pointers and structures, and flows of control that are hard to compile.

use super::{Function, exact, pairs};
use crate::case::{Case, case};

const NUMBERS: [u32; 10] = [0, 1, 2, 3, 6, 17, 0xff, 0x1234_5678, 0x8000_0000, 0xffff_fff5];

/// Declares cases: a name, what it shows, declarations in WGSL, the body of a function of `a`, `b` and `c`, and the same in Rust.
macro_rules! cases {
    ($($name:literal, $shows:literal, $declarations:literal, $body:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(concat!("program.", $name), $shows, |lab| {
                let expected: fn(u32, u32, u32) -> u32 = $expected;
                let function = Function { declarations: $declarations, number: "u32", body: $body };
                exact(lab, function, &pairs(&NUMBERS), |[a, b, c, _]| expected(*a, *b, *c))
            }),
        )*];
    };
}

cases! {
    "functions", "functions call each other, and each has variables of its own",
        "fn twice(x: u32) -> u32 { var y = x; y += x; return y; }
        fn both(x: u32, y: u32) -> u32 { let z = twice(y); return twice(x) ^ (z + twice(z)); }",
        "return both(a, both(b, c));",
        |a, b, c| {
            let both = |x: u32, y: u32| {
                let z = y.wrapping_mul(2);
                x.wrapping_mul(2) ^ z.wrapping_mul(3)
            };
            both(a, both(b, c))
        };
    "pointer-to-variable", "a function changes its caller's variables through pointers",
        "fn swap(x: ptr<function, u32>, y: ptr<function, u32>) { let z = *x; *x = *y; *y = z; }",
        "var x = a; var y = b; if x > y { swap(&x, &y); } return x * 3u + y;",
        |a, b, _| a.min(b).wrapping_mul(3).wrapping_add(a.max(b));
    "private-variable", "each invocation has variables of the module to itself",
        "var<private> count: u32 = 5u;
        fn bump(by: u32) { count = count * 3u + by; }",
        "bump(a); for (var i = 0u; i < (b & 7u); i++) { bump(i); } return count;",
        |a, b, _| (0..b & 7).fold(a.wrapping_add(15), |count, i| count.wrapping_mul(3).wrapping_add(i));
    "private-array", "an array of the module's is written and read by numbers",
        "var<private> table: array<u32, 16>;",
        "for (var i = 0u; i < 16u; i++) { table[i] = i * a; } table[b & 15u] += c; return table[(a >> 4u) & 15u];",
        |a, b, c| {
            let at = (a >> 4) & 15;
            at.wrapping_mul(a).wrapping_add(if at == b & 15 { c } else { 0 })
        };
    "constant-array", "an array that the module declares is read by numbers",
        "const PRIMES = array<u32, 8>(2u, 3u, 5u, 7u, 11u, 13u, 17u, 19u);",
        "var primes = PRIMES; return primes[a & 7u] * 100u + primes[b & 7u];",
        |a, b, _| {
            let primes = [2, 3, 5, 7, 11, 13, 17, 19];
            primes[a as usize & 7] * 100 + primes[b as usize & 7]
        };
    "structures", "structures are passed, returned, and copied by value",
        "struct Inner { x: u32, y: vec2<u32> } struct Outer { inner: Inner, all: array<u32, 3> }
        fn changed(given: Outer) -> Outer { var made = given; made.inner.y.x += 1u; made.all[1] ^= given.inner.x; return made; }",
        "var first = Outer(Inner(a, vec2<u32>(b, c)), array<u32, 3>(1u, 2u, 3u)); let second = changed(first); first.inner.x = 9u;
        return second.inner.x ^ (second.inner.y.x * 3u) ^ (first.inner.y.x * 5u) ^ second.all[1] ^ (first.all[1] << 8u);",
        |a, b, _| a ^ b.wrapping_add(1).wrapping_mul(3) ^ b.wrapping_mul(5) ^ (2 ^ a) ^ (2 << 8);
    "switch-in-loop", "a switch in a loop continues the loop, and breaks out of itself alone",
        "",
        "var sum = 0u;
        for (var i = 0u; i < 20u; i++) {
            switch (i + a) % 4u { case 0u: { continue; } case 1u: { sum += 1u; break; } case 2u: { sum += i; } default: { if i > (b & 31u) { break; } sum += 100u; } }
            sum = sum * 3u;
        }
        return sum;",
        |a, b, _| (0..20u32).fold(0u32, |sum, i| match i.wrapping_add(a) % 4 {
            0 => sum,
            1 => sum.wrapping_add(1).wrapping_mul(3),
            2 => sum.wrapping_add(i).wrapping_mul(3),
            _ if i > b & 31 => sum.wrapping_mul(3),
            _ => sum.wrapping_add(100).wrapping_mul(3),
        });
    "switch-of-signed", "a switch chooses among numbers of both signs, and its default stands between them",
        "",
        "switch i32(a) - 2 { case -2: { return b; } default: { return c; } case -1, 15: { return b ^ c; } case 1: { return 1u; } }",
        |a, b, c| match a.cast_signed().wrapping_sub(2) {
            -2 => b,
            -1 | 15 => b ^ c,
            1 => 1,
            _ => c,
        };
    "left-from-within", "a function returns from within two loops",
        "fn found(wanted: u32) -> u32 {
            for (var i = 1u; i < 20u; i++) { for (var j = i; j < 20u; j++) { if i * j == wanted { return i * 100u + j; } } }
            return 7u;
        }",
        "return found(a & 0xffu) * 3u + found(b & 63u);",
        |a, b, _| {
            let found = |wanted| {
                let mut all = (1..20).flat_map(|i| (i..20).map(move |j| (i, j)));
                all.find(|(i, j)| i * j == wanted).map_or(7, |(i, j)| i * 100 + j)
            };
            found(a & 0xff) * 3 + found(b & 63)
        };
    "loop-with-continuing", "what follows each turn of a loop runs even if the turn is cut short, and may end the loop",
        "",
        "var i = a & 15u; var n = 0u;
        loop { if (i & 1u) == 0u { continue; } n += i; continuing { i += 3u; n ^= 1u; break if i > 60u; } }
        return n;",
        |a, _, _| {
            let (mut i, mut n) = (a & 15, 0u32);
            loop {
                n += if i & 1 == 0 { 0 } else { i };
                i += 3;
                n ^= 1;
                if i > 60 {
                    return n;
                }
            }
        };
    "loop-that-swaps", "variables that a loop exchanges in each turn have their old values",
        "",
        "var x = a; var y = b; var z = c; for (var i = 0u; i < (a & 31u); i++) { let old = x; x = y; y = z; z = old ^ i; } return x + y * 3u + z * 5u;",
        |a, b, c| {
            let (x, y, z) = (0..a & 31).fold((a, b, c), |(x, y, z), i| (y, z, x ^ i));
            x.wrapping_add(y.wrapping_mul(3)).wrapping_add(z.wrapping_mul(5))
        };
    "second-operand-unused", "the second operand of an \"and\" or \"or\" has no effect where the first decides",
        "var<private> calls: u32 = 0u;
        fn is_odd(x: u32) -> bool { calls += 1u; return (x & 1u) == 1u; }",
        "let both = is_odd(a) && is_odd(b); let either = is_odd(b) || is_odd(c); return calls * 100u + select(0u, 10u, both) + select(0u, 1u, either);",
        |a, b, c| {
            let [a, b, c] = [a, b, c].map(|number| number & 1);
            (2 + a + (1 - b)) * 100 + 10 * (a & b) + (b | c)
        };
    "scopes", "a variable of an inner scope hides that of the outer one, and ends with it",
        "",
        "let x = a; var sum = x; { let x = b; sum += x * 3u; { let x = c; sum ^= x; } sum += x; } if sum > 100u { let sum = 5u; return x + sum; } return sum + x;",
        |a, b, c| {
            let sum = (a.wrapping_add(b.wrapping_mul(3)) ^ c).wrapping_add(b);
            a.wrapping_add(if sum > 100 { 5 } else { sum })
        };
    "chosen-component", "components of a vector are written and read by numbers",
        "",
        "var v = vec4<u32>(a, b, c, 9u); v[a & 3u] += 5u; v[b & 3u] *= 3u; return v[c & 3u] ^ v.y;",
        |a, b, c| {
            let mut v = [a, b, c, 9];
            v[a as usize & 3] = v[a as usize & 3].wrapping_add(5);
            v[b as usize & 3] = v[b as usize & 3].wrapping_mul(3);
            v[c as usize & 3] ^ v[1]
        };
    "sorted-array", "a function's array is sorted in place",
        "",
        "var all = array<u32, 6>(a, b, c, a ^ b, b ^ c, 77u);
        for (var i = 1; i < 6; i++) { let key = all[i]; var j = i - 1; while j >= 0 && all[max(j, 0)] > key { all[j + 1] = all[j]; j--; } all[j + 1] = key; }
        return all[0] ^ (all[2] * 3u) ^ (all[5] * 7u);",
        |a, b, c| {
            let mut all = [a, b, c, a ^ b, b ^ c, 77];
            all.sort_unstable();
            all[0] ^ all[2].wrapping_mul(3) ^ all[5].wrapping_mul(7)
        };
    "high-product", "the upper half of a product is computed from products of halves",
        "",
        "let al = a & 0xffffu; let ah = a >> 16u; let bl = b & 0xffffu; let bh = b >> 16u; let low = al * bl;
        let middle = ah * bl + (low >> 16u); let other = al * bh + (middle & 0xffffu); return ah * bh + (middle >> 16u) + (other >> 16u);",
        |a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32;
    "check-sum", "a cyclic redundancy check of three words, bit by bit",
        "fn step(state: u32, word: u32) -> u32 { var crc = state ^ word; for (var i = 0; i < 32; i++) { crc = (crc >> 1u) ^ select(0u, 0xedb88320u, (crc & 1u) == 1u); } return crc; }",
        "return ~step(step(step(0xffffffffu, a), b), c);",
        |a, b, c| {
            let shift = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            let step = |state: u32, word: u32| (0..32).fold(state ^ word, |crc, _| shift(crc));
            !step(step(step(u32::MAX, a), b), c)
        };
    "many-variables", "32 variables at once keep their values through a loop",
        "",
        "var all: array<u32, 32>; for (var i = 0u; i < 32u; i++) { all[i] = a * i + b; }
        for (var turn = 0u; turn < 8u; turn++) { for (var i = 0u; i < 32u; i++) { all[i] += all[(i + 7u) & 31u] ^ turn; } }
        var sum = 0u; for (var i = 0u; i < 32u; i++) { sum = sum * 31u + all[i]; } return sum;",
        |a, b, _| {
            let mut all: Vec<u32> = (0..32).map(|i| a.wrapping_mul(i).wrapping_add(b)).collect();
            for turn in 0..8 {
                for i in 0..32 {
                    all[i] = all[i].wrapping_add(all[(i + 7) % 32] ^ turn);
                }
            }
            all.iter().fold(0, |sum, number| sum.wrapping_mul(31).wrapping_add(*number))
        };
}
