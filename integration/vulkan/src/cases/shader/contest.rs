// SPDX-License-Identifier: MIT OR Apache-2.0

//! One number that invocations contend for, and what each of them is told of it.

use super::execute;
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, require, same};

/// Invocations of a work group.
const GROUP: usize = 256;

/// Where the number is.
#[derive(Clone, Copy)]
enum Place {
    /// In a buffer, for many work groups.
    Buffer,
    /// In the memory of one work group.
    Group,
}

/// Has each invocation act once, as the body of a WGSL function of its number says, on `CELL`, which is 0 at first. Returns what
/// the number is in the end, and what each invocation returned.
fn contest(lab: &Lab, place: Place, body: &str) -> Outcome<(u32, Vec<u32>)> {
    let (cell, done, groups) = match place {
        Place::Buffer => ("output.cell", "", 16),
        Place::Group => ("own", "atomicStore(&output.cell, atomicLoad(&own));", 1),
    };
    let source = format!(
        "
        struct Output {{ cell: atomic<u32>, results: array<u32> }}
        @group(0) @binding(1) var<storage, read_write> output: Output;
        var<workgroup> own: atomic<u32>;
        fn act(id: u32) -> u32 {{ {body} }}
        @compute @workgroup_size({GROUP})
        fn main(
            @builtin(global_invocation_id) id: vec3<u32>,
            @builtin(local_invocation_index) index: u32,
        ) {{
            // The memory of a work group has no value at first.
            if index == 0u {{ atomicStore(&own, 0u); }}
            workgroupBarrier();
            output.results[id.x] = act(id.x);
            workgroupBarrier();
            if index == 0u {{ {done} }}
        }}",
        body = body.replace("CELL", cell)
    );
    let empty = vec![0; 1 + groups as usize * GROUP];
    let mut seen = execute(lab, &source, [&[0], &empty], [groups, 1, 1])?;
    let results = seen.split_off(1);
    Ok((seen.first().copied().unwrap_or_default(), results))
}

/// Has invocations contend, and checks what they did.
fn tried(lab: &Lab, place: Place, body: &str, check: fn(u32, Vec<u32>) -> Outcome) -> Outcome {
    let (last, results) = contest(lab, place, body)?;
    check(last, results)
}

/// Declares two cases for each: a name, what it shows, the body, and what is right.
macro_rules! contests {
    ($($name:literal, $shows:literal, $body:literal, $check:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("atomic.storage-", $name),
                concat!("in a buffer, ", $shows),
                |lab| tried(lab, Place::Buffer, $body, $check),
            ),
            case(
                concat!("atomic.workgroup-", $name),
                concat!("in a work group's memory, ", $shows),
                |lab| tried(lab, Place::Group, $body, $check),
            ),
        )*];
    };
}

/// Each number up to a count is there once.
fn each_once(mut numbers: Vec<u32>, count: usize) -> Outcome {
    numbers.sort_unstable();
    same!(numbers, (0..count as u32).collect::<Vec<_>>());
    Ok(())
}

contests! {
    "tickets", "a number that is counted up gives each invocation a ticket of its own",
    "return atomicAdd(&CELL, 1u);",
    |last, results| {
        let count = results.len();
        same!(last, count as u32);
        each_once(results, count)
    };
    "exchange", "each value that is exchanged for another is given to one invocation, and the last stays",
    "return atomicExchange(&CELL, id + 1u);",
    |last, mut results| {
        results.push(last);
        let count = results.len();
        each_once(results, count)
    };
    "first-wins", "of invocations that store if nothing is stored, one does, and the others are told its value",
    "let seen = atomicCompareExchangeWeak(&CELL, 0u, id + 1u);
    return select(seen.old_value, 0xffffffffu, seen.exchanged);",
    |last, results| {
        let winner = results.iter().position(|result| *result == u32::MAX);
        same!(winner.map(|winner| winner as u32 + 1), Some(last));
        let mut others = results.iter().filter(|result| **result != u32::MAX);
        same!(others.clone().count() + 1, results.len());
        require!(others.all(|result| *result == last), "an invocation saw no winner");
        Ok(())
    };
    "retried", "invocations that compare and exchange until it is done lose none of their sums",
    "var old = atomicLoad(&CELL);
    loop {
        let seen = atomicCompareExchangeWeak(&CELL, old, old + 3u);
        if seen.exchanged { break; }
        old = seen.old_value;
    }
    return old / 3u;",
    |last, results| {
        let count = results.len();
        same!(last, 3 * count as u32);
        each_once(results, count)
    };
    "float-sum", "a sum of floating-point numbers is whole if its bits are compared and exchanged",
    "var old = atomicLoad(&CELL);
    loop {
        let sum = bitcast<u32>(bitcast<f32>(old) + f32(id % 7u));
        let seen = atomicCompareExchangeWeak(&CELL, old, sum);
        if seen.exchanged { break; }
        old = seen.old_value;
    }
    return id % 7u;",
    |last, results| {
        let sum: u32 = results.iter().sum();
        same!(f32::from_bits(last), sum as f32);
        same!(results, (0..results.len() as u32).map(|id| id % 7).collect::<Vec<_>>());
        Ok(())
    };
}
