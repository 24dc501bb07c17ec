// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a work group makes of all its numbers together: sums, orders, counts.

use super::workgroup::{GROUP, cases, check};
use crate::case::{Case, case};

/// Sums of all numbers up to each.
fn sums(mine: &[u32]) -> Vec<u32> {
    let mut sum = 0u32;
    let up_to = mine.iter().map(|number| {
        sum = sum.wrapping_add(*number);
        sum
    });
    up_to.collect()
}

cases! {
    "sums-up-to-each", "its invocations add up the numbers before each in six steps",
    "var<workgroup> all: array<array<u32, 64>, 2>;",
    "all[0][index] = mine;
    var half = 0u;
    for (var distance = 1u; distance < 64u; distance *= 2u) {
        workgroupBarrier();
        var sum = all[half][index];
        if index >= distance { sum += all[half][index - distance]; }
        all[1u - half][index] = sum;
        half = 1u - half;
    }
    workgroupBarrier();
    result = all[half][index];",
    sums;

    "sums-in-place", "a tree of sums goes up and down in place",
    "var<workgroup> all: array<u32, 64>;",
    "all[index] = mine;
    for (var width = 2u; width <= 64u; width *= 2u) {
        workgroupBarrier();
        if index % width == width - 1u { all[index] += all[index - width / 2u]; }
    }
    workgroupBarrier();
    if index == 63u { all[63] = 0u; }
    for (var width = 64u; width >= 2u; width /= 2u) {
        workgroupBarrier();
        if index % width == width - 1u {
            let left = all[index - width / 2u];
            all[index - width / 2u] = all[index];
            all[index] += left;
        }
    }
    workgroupBarrier();
    result = all[index];",
    |mine| sums(mine).iter().zip(mine).map(|(sum, number)| sum.wrapping_sub(*number)).collect();

    "greatest", "all its invocations learn the greatest of their numbers",
    "var<workgroup> all: array<u32, 64>;",
    "all[index] = mine;
    for (var half = 32u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if index < half { all[index] = max(all[index], all[index + half]); }
    }
    workgroupBarrier();
    result = all[0];",
    |mine| vec![mine.iter().copied().max().unwrap_or_default(); GROUP];

    "butterfly", "each number is exchanged with that of each distance in turn",
    "var<workgroup> all: array<u32, 64>;",
    "var sum = mine;
    for (var distance = 1u; distance < 64u; distance *= 2u) {
        all[index] = sum;
        workgroupBarrier();
        sum = sum * 3u + all[index ^ distance];
        workgroupBarrier();
    }
    result = sum;",
    |mine| (0..6).fold(mine.to_vec(), |all, step| {
        (0..GROUP).map(|at| all[at].wrapping_mul(3).wrapping_add(all[at ^ (1 << step)])).collect()
    });

    "sorted", "its invocations sort their numbers",
    "var<workgroup> all: array<u32, 64>;",
    "all[index] = mine;
    for (var length = 2u; length <= 64u; length *= 2u) {
        for (var distance = length / 2u; distance > 0u; distance /= 2u) {
            workgroupBarrier();
            let other = index ^ distance;
            if other > index {
                let is_up = (index & length) == 0u;
                let a = all[index];
                let b = all[other];
                if (a > b) == is_up { all[index] = b; all[other] = a; }
            }
        }
    }
    workgroupBarrier();
    result = all[index];",
    |mine| {
        let mut sorted = mine.to_vec();
        sorted.sort_unstable();
        sorted
    };

    "counted-by-kind", "its invocations count how many numbers are of each kind",
    "var<workgroup> counts: array<atomic<u32>, 64>;",
    "atomicStore(&counts[index], 0u);
    workgroupBarrier();
    atomicAdd(&counts[mine % 10u], 1u);
    workgroupBarrier();
    result = atomicLoad(&counts[index]);",
    |mine| (0..GROUP).map(|kind| mine.iter().filter(|number| **number as usize % 10 == kind).count() as u32).collect();

    "kept-in-order", "the even numbers move to its beginning and stay in order",
    "var<workgroup> flags: array<u32, 64>; var<workgroup> kept: array<u32, 64>;",
    "flags[index] = 1u - (mine & 1u);
    kept[index] = 0u;
    workgroupBarrier();
    var before = 0u;
    for (var other = 0u; other < index; other++) { before += flags[other]; }
    if flags[index] == 1u { kept[before] = mine; }
    workgroupBarrier();
    result = kept[index];",
    |mine| {
        let mut kept: Vec<u32> = mine.iter().copied().filter(|number| number % 2 == 0).collect();
        kept.resize(GROUP, 0);
        kept
    };
}
