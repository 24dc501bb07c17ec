// SPDX-License-Identifier: MIT OR Apache-2.0

//! How stencils are compared, and what becomes of them.

use crate::case::{Case, case};
use crate::lab::{
    BLANK, Lab, Outcome, Plan, RED, Rendering, STENCIL, at, depth_form, pictured, same, sketch_on,
    whole_area,
};
use ash::vk::{self, CompareOp as C, StencilOp as S};

/// What the canvas has, and what it is compared with.
const THERE: u32 = 0x80;

/// Declares cases: a comparison, and whether a reference that is less, the same and greater is drawn.
macro_rules! compared {
    ($($name:literal, $shows:literal, $op:ident, $there:expr;)*) => {
        pub(super) const COMPARED: &[Case] = &[$(
            case(concat!("stencil.compare.", $name), $shows, |lab| {
                for (reference, is_there) in [THERE - 1, THERE, THERE + 1].into_iter().zip($there) {
                    let state = test(C::$op, [S::KEEP; 3]).reference(reference);
                    drawn(lab, state, 0.5, is_there, THERE)?;
                }
                Ok(())
            }),
        )*];
    };
}

compared! {
    "never", "nothing is drawn, whatever the reference", NEVER, [false, false, false];
    "less", "a reference is drawn that is less", LESS, [true, false, false];
    "equal", "a reference is drawn that is the same", EQUAL, [false, true, false];
    "less-or-equal", "a reference is drawn that is not greater", LESS_OR_EQUAL, [true, true, false];
    "greater", "a reference is drawn that is greater", GREATER, [false, false, true];
    "not-equal", "a reference is drawn that is not the same", NOT_EQUAL, [true, false, true];
    "greater-or-equal", "a reference is drawn that is not less", GREATER_OR_EQUAL, [false, true, true];
    "always", "all is drawn, whatever the reference", ALWAYS, [true, true, true];
}

/// Declares cases: an operation, and what it makes of what was there and the reference.
macro_rules! operations {
    ($($name:literal, $shows:literal, $op:ident, $makes:expr;)*) => {
        pub(super) const OPERATIONS: &[Case] = &[$(
            case(concat!("stencil.operation.", $name), $shows, |lab| {
                let makes: fn(u32, u32) -> u32 = $makes;
                for there in [0, THERE, 0xff] {
                    // Where the test fails, where all pass, and where the depth test fails.
                    let right = makes(there, 0x5a);
                    changed(lab, there, C::NEVER, [S::$op, S::ZERO, S::INVERT], 0.5, right)?;
                    changed(lab, there, C::ALWAYS, [S::ZERO, S::$op, S::INVERT], 0.5, right)?;
                    changed(lab, there, C::ALWAYS, [S::ZERO, S::INVERT, S::$op], 0.875, right)?;
                }
                Ok(())
            }),
        )*];
    };
}

operations! {
    "keep", "a stencil stays what it was", KEEP, |there, _| there;
    "zero", "a stencil becomes zero", ZERO, |_, _| 0;
    "replace", "a stencil becomes the reference", REPLACE, |_, reference| reference;
    "increment-clamped", "a stencil grows by one up to the greatest", INCREMENT_AND_CLAMP, |there, _| (there + 1).min(0xff);
    "decrement-clamped", "a stencil shrinks by one down to 0", DECREMENT_AND_CLAMP, |there, _| there.saturating_sub(1);
    "invert", "all bits of a stencil change", INVERT, |there, _| !there & 0xff;
    "increment-wrapped", "a stencil grows by one, from the greatest to 0", INCREMENT_AND_WRAP, |there, _| (there + 1) & 0xff;
    "decrement-wrapped", "a stencil shrinks by one, from 0 to the greatest", DECREMENT_AND_WRAP, |there, _| there.wrapping_sub(1) & 0xff;
}

/// A test, and what is done where it fails, where all pass, and where the depth test fails.
pub(super) fn test(compare: C, [fail, pass, depth_fail]: [S; 3]) -> vk::StencilOpState {
    vk::StencilOpState::default()
        .compare_op(compare)
        .fail_op(fail)
        .pass_op(pass)
        .depth_fail_op(depth_fail)
        .compare_mask(0xff)
        .write_mask(0xff)
}

fn changed(lab: &Lab, there: u32, compare: C, ops: [S; 3], depth: f32, right: u32) -> Outcome {
    let is_drawn = compare == C::ALWAYS && depth < 0.75;
    drawn_over(lab, there, test(compare, ops).reference(0x5a), depth, is_drawn, right)
}

/// Draws over a stencil, and a depth of 0.75.
pub(super) fn drawn(
    lab: &Lab,
    state: vk::StencilOpState,
    depth: f32,
    is_there: bool,
    right: u32,
) -> Outcome {
    drawn_over(lab, THERE, state, depth, is_there, right)
}

fn drawn_over(
    lab: &Lab,
    there: u32,
    state: vk::StencilOpState,
    depth: f32,
    is_there: bool,
    right: u32,
) -> Outcome {
    let gpu = lab.graphics()?;
    let (canvas, both) = (gpu.colours()?, gpu.canvas(depth_form(lab.both_format()?))?);
    let mut plan = Plan::plain()?;
    plan.with_depth(both, C::LESS);
    plan.depth = plan.depth.stencil_test_enable(true).front(state).back(state);
    let rendering = Rendering::blank(canvas).both(both.filled_to(0.75, there));
    sketch_on(&gpu, &rendering, &plan, &at(depth, &whole_area(RED)))?;
    pictured(&gpu.words(canvas)?, |_, _| if is_there { RED } else { BLANK })?;
    same!(gpu.bytes_of_canvas(both, STENCIL)?, vec![right as u8; 256]);
    Ok(())
}
