// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the invocations of a subgroup do together, where the device has them do it.

use super::execute;
use crate::case::{Case, case};
use crate::lab::{Failure, Lab, Outcome, require, same};
use ash::vk::SubgroupFeatureFlags as Can;
use std::collections::BTreeMap;

/// Invocations of a work group: as many as each device has, and whole subgroups.
const GROUP: usize = 128;
/// Work groups.
const GROUPS: usize = 6;

/// The numbers of a subgroup's invocations, by their place in it.
type Subgroup = BTreeMap<u32, u32>;

/// What an invocation is told: the number of its subgroup, its place in it, a result.
struct Told {
    subgroup: u32,
    lane: u32,
    result: u32,
}

/// Tries an expression of `mine` that a subgroup has a common result for.
fn check(lab: &Lab, needs: Can, expression: &str, expected: fn(&Subgroup, u32) -> u32) -> Outcome {
    let said = lab.description().since_1_1;
    if !said.subgroup_supported_operations.contains(needs) || said.subgroup_size < 4 {
        return Err(Failure::not_offered(format!(
            "subgroups of four that do {:#b}",
            needs.as_raw()
        )));
    }
    let source = format!(
        "
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> output: array<array<u32, 3>>;
        @compute @workgroup_size({GROUP})
        fn main(
            @builtin(global_invocation_id) id: vec3<u32>,
            @builtin(subgroup_id) subgroup: u32,
            @builtin(subgroup_invocation_id) lane: u32,
        ) {{
            let mine = input[id.x];
            output[id.x] = array<u32, 3>(subgroup, lane, {expression});
        }}"
    );
    let mine: Vec<u32> =
        (0..(GROUP * GROUPS) as u32).map(|id| id.wrapping_mul(0x9e37_79b9) >> 20).collect();
    let seen = execute(lab, &source, [&mine, &[0; 3 * GROUP * GROUPS]], [GROUPS as u32, 1, 1])?;
    let (told, _) = seen.as_chunks();
    let told: Vec<_> = told
        .iter()
        .map(|[subgroup, lane, result]| Told { subgroup: *subgroup, lane: *lane, result: *result })
        .collect();
    for (told, mine) in told.chunks(GROUP).zip(mine.chunks(GROUP)) {
        of_a_group(said.subgroup_size, told, mine, expected)?;
    }
    Ok(())
}

/// Looks at what a work group's invocations were told.
fn of_a_group(
    size: u32,
    told: &[Told],
    mine: &[u32],
    expected: fn(&Subgroup, u32) -> u32,
) -> Outcome {
    let mut subgroups = BTreeMap::<u32, Subgroup>::new();
    for (Told { subgroup, lane, .. }, mine) in told.iter().zip(mine) {
        require!(*lane < size, "of {size} invocations, one is number {lane}");
        let before = subgroups.entry(*subgroup).or_default().insert(*lane, *mine);
        require!(before.is_none(), "two invocations are number {lane} of subgroup {subgroup}");
    }
    for Told { subgroup, lane, result } in told {
        let of = subgroups.get(subgroup).map(|of| expected(of, *lane));
        same!(Some(*result), of);
    }
    Ok(())
}

/// Declares cases: a name, what the device must offer, an expression in WGSL, and the same in Rust of an invocation of a subgroup.
macro_rules! cases {
    ($($name:literal, $needs:ident, $expression:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("subgroup.", $name),
                concat!("the invocations of a subgroup compute together: ", $expression),
                |lab| check(lab, Can::$needs, $expression, $expected),
            ),
        )*];
    };
}

/// The numbers of a subgroup's invocations.
fn all(of: &Subgroup) -> impl Iterator<Item = u32> {
    of.values().copied()
}

/// The number of an invocation.
fn number(of: &Subgroup, lane: u32) -> u32 {
    of.get(&lane).copied().unwrap_or_default()
}

cases! {
    "own-places", BASIC, "mine", number;
    "sum", ARITHMETIC, "subgroupAdd(mine)", |of, _| all(of).sum();
    "product", ARITHMETIC, "subgroupMul(mine | 1u)", |of, _| all(of).fold(1, |product, mine| product.wrapping_mul(mine | 1));
    "least-and-greatest", ARITHMETIC, "subgroupMin(mine) * 65536u + subgroupMax(mine)",
        |of, _| all(of).min().unwrap_or_default() * 65536 + all(of).max().unwrap_or_default();
    "bits", ARITHMETIC, "subgroupAnd(mine | 0xf0u) + subgroupOr(mine & 0xfu) * 65536u + (subgroupXor(mine) << 20u)",
        |of, _| {
            let and = all(of).fold(u32::MAX, |bits, mine| bits & (mine | 0xf0));
            let or = all(of).fold(0, |bits, mine| bits | (mine & 0xf));
            let xor = all(of).fold(0, |bits, mine| bits ^ mine);
            and.wrapping_add(or * 65536).wrapping_add(xor << 20)
        };
    "sum-before-each", ARITHMETIC, "subgroupExclusiveAdd(mine)", |of, lane| of.range(..lane).map(|(_, mine)| mine).sum();
    "sum-up-to-each", ARITHMETIC, "subgroupInclusiveAdd(mine)", |of, lane| of.range(..=lane).map(|(_, mine)| mine).sum();
    "ballot", BALLOT, "subgroupBallot((mine & 1u) == 1u).x", |of, _| {
        of.range(..32).map(|(lane, mine)| (mine & 1) << lane).sum()
    };
    "first", BALLOT, "subgroupBroadcastFirst(mine)", |of, _| all(of).next().unwrap_or_default();
    "votes", VOTE, "select(0u, 1u, subgroupAll(mine < 4090u)) + select(0u, 2u, subgroupAny((mine & 63u) == 9u))",
        |of, _| u32::from(all(of).all(|mine| mine < 4090)) + 2 * u32::from(all(of).any(|mine| mine & 63 == 9));
    "exchanged", SHUFFLE, "subgroupShuffleXor(mine, 3u)", |of, lane| number(of, lane ^ 3);
    "of-one", SHUFFLE, "subgroupBroadcast(mine, 2u)", |of, _| number(of, 2);
}
