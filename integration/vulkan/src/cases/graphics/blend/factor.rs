// SPDX-License-Identifier: MIT OR Apache-2.0

//! Factors and operations ("Blend Factors", "Blend Operations").

use super::model::{Blended, Colour};
use crate::case::{Case, case};
use crate::lab::{
    Lab, Outcome, PLAIN, Plan, Rendering, is_in, pictured_nearly, sketch_on, whole_area,
};
use ash::vk::{BlendFactor as F, BlendOp as O};

const BLENDED: Blended = Blended {
    source: [0.2, 0.6, 1.0, 0.4],
    second: [0.8, 0.4, 0.2, 0.6],
    destination: [0.6, 0.8, 0.2, 0.8],
    constants: [0.4, 0.2, 0.8, 0.2],
};

/// Declares cases of factors: those of colours, and of alphas.
macro_rules! factors {
    ($table:ident, $area:literal, $shows:literal, $place:expr; $($name:literal $factor:ident,)*) => {
        pub(super) const $table: &[Case] = &[$(case(
            concat!("blend.", $area, ".", $name),
            concat!($shows, $name),
            |lab| {
                let [colours, alphas] = $place(F::$factor);
                blended(lab, colours, alphas, [O::ADD; 2])
            },
        ),)*];
    };
}

factors! {
    SOURCE, "source", "what is drawn is multiplied with ", |factor| [[factor, F::ZERO]; 2];
    "zero" ZERO,
    "one" ONE,
    "source-colour" SRC_COLOR,
    "one-minus-source-colour" ONE_MINUS_SRC_COLOR,
    "destination-colour" DST_COLOR,
    "one-minus-destination-colour" ONE_MINUS_DST_COLOR,
    "source-alpha" SRC_ALPHA,
    "one-minus-source-alpha" ONE_MINUS_SRC_ALPHA,
    "destination-alpha" DST_ALPHA,
    "one-minus-destination-alpha" ONE_MINUS_DST_ALPHA,
    "constant-colour" CONSTANT_COLOR,
    "one-minus-constant-colour" ONE_MINUS_CONSTANT_COLOR,
    "constant-alpha" CONSTANT_ALPHA,
    "one-minus-constant-alpha" ONE_MINUS_CONSTANT_ALPHA,
    "source-alpha-saturate" SRC_ALPHA_SATURATE,
}

factors! {
    DESTINATION, "destination", "what was there is multiplied with ", |factor| [[F::ZERO, factor]; 2];
    "one" ONE,
    "source-colour" SRC_COLOR,
    "one-minus-source-colour" ONE_MINUS_SRC_COLOR,
    "destination-colour" DST_COLOR,
    "one-minus-destination-colour" ONE_MINUS_DST_COLOR,
    "source-alpha" SRC_ALPHA,
    "one-minus-source-alpha" ONE_MINUS_SRC_ALPHA,
    "destination-alpha" DST_ALPHA,
    "one-minus-destination-alpha" ONE_MINUS_DST_ALPHA,
    "constant-colour" CONSTANT_COLOR,
    "one-minus-constant-colour" ONE_MINUS_CONSTANT_COLOR,
    "constant-alpha" CONSTANT_ALPHA,
    "one-minus-constant-alpha" ONE_MINUS_CONSTANT_ALPHA,
}

factors! {
    ALPHA, "alpha", "alpha has a factor of its own, such as ", |factor| [[F::ONE, F::ZERO], [factor, F::ZERO]];
    "source-alpha" SRC_ALPHA,
    "one-minus-destination-alpha" ONE_MINUS_DST_ALPHA,
    "constant-alpha" CONSTANT_ALPHA,
    "saturate" SRC_ALPHA_SATURATE,
}

/// Declares cases of operations: that of colours, and that of alphas.
macro_rules! operations {
    ($($name:literal, $shows:literal, $colours:ident, $alphas:ident;)*) => {
        pub(super) const OPERATIONS: &[Case] = &[$(
            case(concat!("blend.operation.", $name), $shows, |lab| {
                let over = [F::SRC_ALPHA, F::ONE_MINUS_SRC_ALPHA];
                blended(lab, over, over, [O::$colours, O::$alphas])
            }),
        )*];
    };
}

operations! {
    "add", "what is drawn and what was there are added", ADD, ADD;
    "subtract", "what was there is subtracted from what is drawn", SUBTRACT, SUBTRACT;
    "reverse-subtract", "what is drawn is subtracted from what was there", REVERSE_SUBTRACT, REVERSE_SUBTRACT;
    "min", "the lesser of both is taken, whatever the factors", MIN, MIN;
    "max", "the greater of both is taken, whatever the factors", MAX, MAX;
    "apart", "alpha has an operation of its own", ADD, MAX;
}

/// Declares cases of the factors that a fragment's second colour is.
macro_rules! two_sources {
    ($($name:literal $factor:ident,)*) => {
        pub(super) const TWO_SOURCES: &[Case] = &[$(case(
            concat!("blend.two-sources.", $name),
            concat!("what was there is multiplied with the second source's ", $name),
            |lab| {
                lab.needs("dualSrcBlend", lab.features().core.dual_src_blend)?;
                blended_by(lab, DUAL, [F::ONE, F::$factor], [F::ONE, F::$factor], [O::ADD; 2])
            },
        ),)*];
    };
}

two_sources! {
    "colour" SRC1_COLOR,
    "one-minus-colour" ONE_MINUS_SRC1_COLOR,
    "alpha" SRC1_ALPHA,
    "one-minus-alpha" ONE_MINUS_SRC1_ALPHA,
}

const DUAL: &str = "
    enable dual_source_blending;
    struct Two {
        @location(0) @blend_src(0) first: vec4<f32>,
        @location(0) @blend_src(1) second: vec4<f32>,
    }
    @vertex fn vertex(@location(0) place: vec4<f32>) -> @builtin(position) vec4<f32> { return place; }
    @fragment fn fragment() -> Two {
        return Two(vec4(0.2, 0.6, 1.0, 0.4), vec4(0.8, 0.4, 0.2, 0.6));
    }";

fn blended(lab: &Lab, colours: [F; 2], alphas: [F; 2], ops: [O; 2]) -> Outcome {
    blended_by(lab, PLAIN, colours, alphas, ops)
}

/// Draws over a part of what was there.
fn blended_by(lab: &Lab, source: &str, colours: [F; 2], alphas: [F; 2], ops: [O; 2]) -> Outcome {
    let gpu = lab.graphics()?;
    let mut plan = Plan::of(source)?;
    plan.blends[0] = plan.blends[0]
        .blend_enable(true)
        .src_color_blend_factor(colours[0])
        .dst_color_blend_factor(colours[1])
        .color_blend_op(ops[0])
        .src_alpha_blend_factor(alphas[0])
        .dst_alpha_blend_factor(alphas[1])
        .alpha_blend_op(ops[1]);
    plan.constants = BLENDED.constants;
    plan.scissors = vec![crate::lab::area([4, 4], [8, 8])];
    let canvas = gpu.colours()?;
    let rendering = Rendering::of(&[canvas.filled_with(BLENDED.destination)]);
    sketch_on(&gpu, &rendering, &plan, &whole_area(0x66ff_9933))?;
    let all: [f32; 4] = std::array::from_fn(|component| match component {
        3 => BLENDED.component(3, alphas, ops[1]),
        colour => BLENDED.component(colour, colours, ops[0]),
    });
    let word = |colour: Colour| u32::from_le_bytes(colour.map(|it| (it * 255.0).round() as u8));
    // Blending is as exact as the target is.
    pictured_nearly(&gpu.words(canvas)?, 1, |x, y| {
        word(if is_in(x, y, [4.0, 4.0, 12.0, 12.0]) { all } else { BLENDED.destination })
    })
}
