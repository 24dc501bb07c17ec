// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers that many invocations change together, in a buffer and in a work group's memory.

use super::execute;
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, same};

/// Numbers that are changed, of a buffer or of a work group.
const CELLS: usize = 16;
/// Invocations of a work group.
const GROUP: usize = 128;
/// Work groups.
const GROUPS: usize = 32;

/// What is done to a number, in WGSL and on the bits of it.
#[derive(Clone, Copy)]
struct Change {
    number: &'static str,
    function: &'static str,
    start: u32,
    expected: fn(u32, u32) -> u32,
}

impl Change {
    /// What each invocation changes a number by.
    fn values() -> Vec<u32> {
        (1..=(GROUP * GROUPS) as u32).map(|number| number.wrapping_mul(0x9e37_79b9)).collect()
    }

    /// What the numbers are once these values have changed them, in whichever order.
    fn after(&self, values: &[u32]) -> Vec<u32> {
        let of_cell = |cell| {
            let values = values.iter().skip(cell).step_by(CELLS).copied();
            values.fold(self.start, self.expected)
        };
        (0..CELLS).map(of_cell).collect()
    }

    /// In a buffer, by all work groups.
    fn in_a_buffer(&self, lab: &Lab) -> Outcome {
        let Self { number, function, start, .. } = *self;
        let source = format!(
            "
            @group(0) @binding(0) var<storage, read> input: array<{number}>;
            @group(0) @binding(1) var<storage, read_write> cells: array<atomic<{number}>, {CELLS}>;
            @compute @workgroup_size({GROUP})
            fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                {function}(&cells[id.x % {CELLS}u], input[id.x]);
            }}"
        );
        let values = Self::values();
        let seen = execute(lab, &source, [&values, &[start; CELLS]], [GROUPS as u32, 1, 1])?;
        same!(seen, self.after(&values));
        Ok(())
    }

    /// In the memory of each work group.
    fn in_a_group(&self, lab: &Lab) -> Outcome {
        let Self { number, function, start, .. } = *self;
        let source = format!(
            "
            @group(0) @binding(0) var<storage, read> input: array<{number}>;
            @group(0) @binding(1) var<storage, read_write> output: array<{number}>;
            var<workgroup> cells: array<atomic<{number}>, {CELLS}>;
            @compute @workgroup_size({GROUP})
            fn main(
                @builtin(workgroup_id) group: vec3<u32>,
                @builtin(local_invocation_index) index: u32,
            ) {{
                let place = group.x * {CELLS}u + index;
                if index < {CELLS}u {{ atomicStore(&cells[index], output[place]); }}
                workgroupBarrier();
                {function}(&cells[index % {CELLS}u], input[group.x * {GROUP}u + index]);
                workgroupBarrier();
                if index < {CELLS}u {{ output[place] = atomicLoad(&cells[index]); }}
            }}"
        );
        let (values, starts) = (Self::values(), [start; CELLS * GROUPS]);
        let seen = execute(lab, &source, [&values, &starts], [GROUPS as u32, 1, 1])?;
        same!(seen, values.chunks(GROUP).flat_map(|part| self.after(part)).collect::<Vec<_>>());
        Ok(())
    }
}

/// Declares two cases for each: a name, the type of a number, WGSL's function, what the number is at first, and the same in Rust.
macro_rules! changes {
    ($($name:literal, $number:literal, $function:literal, $start:expr, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("atomic.storage-", $number, "-", $name),
                concat!("invocations of all work groups change numbers of a buffer: ", $function, " of ", $number),
                |lab| Change { number: $number, function: $function, start: $start, expected: $expected }.in_a_buffer(lab),
            ),
            case(
                concat!("atomic.workgroup-", $number, "-", $name),
                concat!("invocations of a work group change numbers that they share: ", $function, " of ", $number),
                |lab| Change { number: $number, function: $function, start: $start, expected: $expected }.in_a_group(lab),
            ),
        )*];
    };
}

/// A function of numbers with a sign, of their bits.
fn signed(a: u32, b: u32, function: fn(i32, i32) -> i32) -> u32 {
    function(a.cast_signed(), b.cast_signed()).cast_unsigned()
}

changes! {
    "add", "u32", "atomicAdd", 7, u32::wrapping_add;
    "subtract", "u32", "atomicSub", 7, u32::wrapping_sub;
    "least", "u32", "atomicMin", u32::MAX, u32::min;
    "greatest", "u32", "atomicMax", 0, u32::max;
    "and", "u32", "atomicAnd", u32::MAX, |a, b| a & b;
    "or", "u32", "atomicOr", 0, |a, b| a | b;
    "exclusive-or", "u32", "atomicXor", 0x1234_5678, |a, b| a ^ b;
    "add", "i32", "atomicAdd", (-5i32).cast_unsigned(), |a, b| signed(a, b, i32::wrapping_add);
    "least", "i32", "atomicMin", 0x7fff_ffff, |a, b| signed(a, b, i32::min);
    "greatest", "i32", "atomicMax", 0x8000_0000, |a, b| signed(a, b, i32::max);
}
