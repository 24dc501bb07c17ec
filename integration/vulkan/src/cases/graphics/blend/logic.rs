// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operations of bits ("Logical Operations").

use crate::case::{Case, case};
use crate::lab::{Lab, Outcome, Plan, Rendering, colour_form, same, sketch_on, whole_area};
use ash::vk::{self, LogicOp as L};

const DRAWN: u32 = 0x0f35_c3aa;
const THERE: u32 = 0x33ff_550f;

/// Declares cases: a name, an operation, and what it makes of the bits that are drawn, and of those that were there.
macro_rules! operations {
    ($($name:literal $op:ident $makes:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(case(
            concat!("blend.logic.", $name),
            concat!("the bits of a target become those of both by ", $name),
            |lab| {
                let makes: fn(u32, u32) -> u32 = $makes;
                stored(lab, L::$op, makes(DRAWN, THERE))
            },
        ),)*];
    };
}

operations! {
    "clear" CLEAR |_, _| 0;
    "and" AND |s, d| s & d;
    "and-reverse" AND_REVERSE |s, d| s & !d;
    "copy" COPY |s, _| s;
    "and-inverted" AND_INVERTED |s, d| !s & d;
    "no-op" NO_OP |_, d| d;
    "xor" XOR |s, d| s ^ d;
    "or" OR |s, d| s | d;
    "nor" NOR |s, d| !(s | d);
    "equivalent" EQUIVALENT |s, d| !(s ^ d);
    "invert" INVERT |_, d| !d;
    "or-reverse" OR_REVERSE |s, d| s | !d;
    "copy-inverted" COPY_INVERTED |s, _| !s;
    "or-inverted" OR_INVERTED |s, d| !s | d;
    "nand" NAND |s, d| !(s & d);
    "set" SET |_, _| u32::MAX;
}

fn stored(lab: &Lab, op: L, right: u32) -> Outcome {
    lab.needs("logicOp", lab.features().core.logic_op)?;
    let gpu = lab.graphics()?;
    let source = "
        @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
        @fragment fn fragment() -> @location(0) u32 { return 0x0f35c3aau; }";
    let mut plan = Plan::of(source)?;
    let format = vk::Format::R32_UINT;
    plan.targets(&[format]).logic = Some(op);
    let canvas = gpu.canvas(colour_form(format))?;
    let rendering = Rendering::of(&[canvas.filled_with_words([THERE; 4])]);
    sketch_on(&gpu, &rendering, &plan, &whole_area(0))?;
    same!(gpu.words(canvas)?, vec![right; 256]);
    Ok(())
}
