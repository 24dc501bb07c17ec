// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where an invocation is told that it is.

use super::execute;
use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, same};

/// Numbers along the three axes.
type Axes = [u32; 3];

/// How invocations are grouped: the size of a work group, and how many there are.
#[derive(Clone, Copy)]
struct Grid {
    group: Axes,
    groups: Axes,
}

/// What an invocation should be told.
struct Told {
    local: Axes,
    global: Axes,
    group: Axes,
    groups: Axes,
    index: u32,
}

/// Along one axis, two and three.
const GRIDS: [Grid; 3] = [
    Grid { group: [32, 1, 1], groups: [5, 1, 1] },
    Grid { group: [8, 4, 1], groups: [3, 7, 1] },
    Grid { group: [4, 3, 2], groups: [2, 3, 5] },
];

impl Grid {
    /// The number of an axis's invocations.
    fn size(&self) -> Axes {
        [0, 1, 2].map(|axis| self.group[axis] * self.groups[axis])
    }

    /// What each invocation should be told, along the first axis first.
    fn told(&self) -> Vec<Told> {
        let (size, within) = (self.size(), self.group);
        let each = (0..size.iter().product()).map(|place| {
            let global = [place % size[0], place / size[0] % size[1], place / size[0] / size[1]];
            let local = [0, 1, 2].map(|axis| global[axis] % within[axis]);
            Told {
                local,
                global,
                group: [0, 1, 2].map(|axis| global[axis] / within[axis]),
                groups: self.groups,
                index: local[0] + within[0] * (local[1] + within[1] * local[2]),
            }
        });
        each.collect()
    }
}

/// Has each invocation store an expression of three numbers where it is.
fn check(lab: &Lab, axes: usize, expression: &str, expected: fn(&Told) -> Axes) -> Outcome {
    let grid = GRIDS[axes - 1];
    let ([x, y, z], [width, height, _]) = (grid.group, grid.size());
    let source = format!(
        "
        @group(0) @binding(1) var<storage, read_write> output: array<array<u32, 3>>;
        @compute @workgroup_size({x}, {y}, {z})
        fn main(
            @builtin(local_invocation_id) local: vec3<u32>,
            @builtin(global_invocation_id) global: vec3<u32>,
            @builtin(workgroup_id) group: vec3<u32>,
            @builtin(num_workgroups) groups: vec3<u32>,
            @builtin(local_invocation_index) index: u32,
        ) {{
            let told = {expression};
            let place = global.x + {width}u * (global.y + {height}u * global.z);
            output[place] = array<u32, 3>(told.x, told.y, told.z);
        }}"
    );
    let told = grid.told();
    let seen = execute(lab, &source, [&[0], &vec![0xffff; told.len() * 3]], grid.groups)?;
    same!(seen, told.iter().flat_map(expected).collect::<Vec<_>>());
    Ok(())
}

/// Declares a case of each for one, two and three axes: a name, an expression in WGSL, and the same in Rust.
macro_rules! cases {
    ($($name:literal, $shows:literal, $expression:literal, $expected:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(
                concat!("builtin.", $name, "-of-a-line"),
                concat!("where work groups are lines in a line, ", $shows),
                |lab| check(lab, 1, $expression, $expected),
            ),
            case(
                concat!("builtin.", $name, "-of-a-plane"),
                concat!("where work groups are planes in a plane, ", $shows),
                |lab| check(lab, 2, $expression, $expected),
            ),
            case(
                concat!("builtin.", $name, "-of-a-space"),
                concat!("where work groups are boxes in a box, ", $shows),
                |lab| check(lab, 3, $expression, $expected),
            ),
        )*];
    };
}

cases! {
    "local-id", "an invocation knows its place in its group", "local", |told| told.local;
    "global-id", "an invocation knows its place among all", "global", |told| told.global;
    "group-id", "an invocation knows its group's place and how many groups there are",
        "group * 1000u + groups", |told| [0, 1, 2].map(|axis| told.group[axis] * 1000 + told.groups[axis]);
    "local-index", "an invocation's number in its group counts along the first axis first",
        "vec3<u32>(index, 2u, 3u)", |told| [told.index, 2, 3];
}
