// SPDX-License-Identifier: MIT OR Apache-2.0

//! Blending, as the specification has it ("Blend Factors", "Blend Operations").

use ash::vk::{BlendFactor as F, BlendOp as O};

/// A colour: red, green, blue, alpha.
pub(super) type Colour = [f32; 4];

/// What colours are blended with.
#[derive(Clone, Copy)]
pub(super) struct Blended {
    pub(super) source: Colour,
    /// The second of two, where a fragment gives two.
    pub(super) second: Colour,
    pub(super) destination: Colour,
    pub(super) constants: Colour,
}

impl Blended {
    /// A factor for a component.
    fn factor(&self, factor: F, component: usize) -> f32 {
        let Self { source, second, destination, constants } = self;
        match factor {
            F::ZERO => 0.0,
            F::SRC_COLOR => source[component],
            F::ONE_MINUS_SRC_COLOR => 1.0 - source[component],
            F::DST_COLOR => destination[component],
            F::ONE_MINUS_DST_COLOR => 1.0 - destination[component],
            F::SRC_ALPHA => source[3],
            F::ONE_MINUS_SRC_ALPHA => 1.0 - source[3],
            F::DST_ALPHA => destination[3],
            F::ONE_MINUS_DST_ALPHA => 1.0 - destination[3],
            F::CONSTANT_COLOR => constants[component],
            F::ONE_MINUS_CONSTANT_COLOR => 1.0 - constants[component],
            F::CONSTANT_ALPHA => constants[3],
            F::ONE_MINUS_CONSTANT_ALPHA => 1.0 - constants[3],
            F::SRC_ALPHA_SATURATE if component < 3 => source[3].min(1.0 - destination[3]),
            F::SRC1_COLOR => second[component],
            F::ONE_MINUS_SRC1_COLOR => 1.0 - second[component],
            F::SRC1_ALPHA => second[3],
            F::ONE_MINUS_SRC1_ALPHA => 1.0 - second[3],
            // ONE, and SRC_ALPHA_SATURATE of alpha.
            _ => 1.0,
        }
    }

    /// What a component is then. Where it is stored as a number from 0 to 1, it is the nearest of these.
    pub(super) fn component(
        &self,
        component: usize,
        [of_source, of_destination]: [F; 2],
        op: O,
    ) -> f32 {
        let (source, destination) = (self.source[component], self.destination[component]);
        let scaled = source * self.factor(of_source, component);
        let kept = destination * self.factor(of_destination, component);
        let result = match op {
            O::SUBTRACT => scaled - kept,
            O::REVERSE_SUBTRACT => kept - scaled,
            O::MIN => source.min(destination),
            O::MAX => source.max(destination),
            _ => scaled + kept,
        };
        result.clamp(0.0, 1.0)
    }
}
