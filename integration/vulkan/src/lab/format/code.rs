// SPDX-License-Identifier: MIT OR Apache-2.0

//! How formats store what shaders see ("Conversion from Normalized Fixed-Point to Floating-Point", "16-Bit Floating-Point
//! Numbers").

use super::block::block;
use ash::vk;

/// How a component is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 0 to 1.
    Unorm,
    /// -1 to 1.
    Snorm,
    Uint,
    Sint,
    Float,
}

/// A format, what WGSL calls it, how many components it has, and how each is stored.
#[derive(Clone, Copy)]
pub(crate) struct Code {
    pub(crate) format: vk::Format,
    pub(crate) wgsl: &'static str,
    pub(crate) components: u32,
    pub(crate) kind: Kind,
}

impl Code {
    pub(crate) const fn new(
        format: vk::Format,
        wgsl: &'static str,
        components: u32,
        kind: Kind,
    ) -> Self {
        Self { format, wgsl, components, kind }
    }

    /// The type of a component in a shader.
    pub(crate) const fn number(&self) -> &'static str {
        match self.kind {
            Kind::Uint => "u32",
            Kind::Sint => "i32",
            Kind::Unorm | Kind::Snorm | Kind::Float => "f32",
        }
    }

    const fn component_bytes(&self) -> u32 {
        block(self.format).bytes / self.components
    }

    /// The bits of a component of some texel: numbers of all sizes, and none that conversions may change.
    fn bits(&self, place: u32) -> u32 {
        let mixed = (place + 1).wrapping_mul(0x9e37_79b9) >> 8;
        match (self.kind, self.component_bytes()) {
            (Kind::Float, 2) => 0x3c00 + (mixed & 0x83ff),
            (Kind::Float, _) => 0x3f80_0000 + (mixed & 0x007f_ffff),
            // The two least numbers stand for one.
            (Kind::Snorm, _) if mixed & 0xff == 0x80 => 0x81,
            (_, 1) => mixed & 0xff,
            (_, 2) => mixed & 0xffff,
            _ => mixed << 8 | mixed & 0xff,
        }
    }

    /// What a shader sees of a component.
    fn seen(&self, bits: u32) -> u32 {
        let shift = 32 - 8 * self.component_bytes();
        match self.kind {
            Kind::Uint => bits,
            Kind::Sint => ((bits << shift).cast_signed() >> shift).cast_unsigned(),
            Kind::Unorm => (bits as f32 / 255.0).to_bits(),
            Kind::Snorm => (f32::from(bits as u8 as i8) / 127.0).max(-1.0).to_bits(),
            // A half, which is a normal number here: the sign, and the exponent with another bias.
            Kind::Float if shift == 16 => {
                ((bits & 0x8000) << 16) | (((bits & 0x7fff) << 13) + (112 << 23))
            }
            Kind::Float => bits,
        }
    }

    /// Bytes of so many texels.
    pub(crate) fn bytes(&self, texels: u32) -> Vec<u8> {
        let each = (0..texels * self.components).map(|place| self.bits(place).to_le_bytes());
        each.flat_map(|bytes| bytes.into_iter().take(self.component_bytes() as usize)).collect()
    }

    /// What a shader sees of as many texels. Of a component that the format lacks: 0, or 1 for alpha.
    pub(crate) fn words(&self, texels: u32) -> Vec<u32> {
        let one = if self.number() == "f32" { 1f32.to_bits() } else { 1 };
        let word = |texel: u32, component: u32| match component < self.components {
            true => self.seen(self.bits(texel * self.components + component)),
            false => {
                if component == 3 {
                    one
                } else {
                    0
                }
            }
        };
        (0..texels).flat_map(|texel| (0..4).map(move |component| word(texel, component))).collect()
    }

    /// Whether a shader saw what it should. A division may be off by a little.
    pub(crate) fn are_near(&self, seen: &[u32], expected: &[u32]) -> bool {
        match self.kind {
            Kind::Unorm | Kind::Snorm => {
                let off = |a: u32, b: u32| (f32::from_bits(a) - f32::from_bits(b)).abs();
                let all = seen.iter().zip(expected);
                seen.len() == expected.len() && all.into_iter().all(|(a, b)| off(*a, *b) <= 1e-6)
            }
            _ => seen == expected,
        }
    }
}

/// How bright a component of a colour is in sRGB, from 0 to 1 (the Khronos Data Format Specification, "sRGB transfer functions").
pub(crate) fn srgb(linear: f64) -> f64 {
    match linear {
        small if small <= 0.003_130_8 => small * 12.92,
        large => 1.055 * large.powf(1.0 / 2.4) - 0.055,
    }
}
