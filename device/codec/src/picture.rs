// SPDX-License-Identifier: MIT OR Apache-2.0

//! A picture, as codecs have it.

/// Which planes a picture has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Luma alone.
    I400,
    /// Chroma of half the width and half the height.
    I420,
    /// Chroma of half the width.
    I422,
    /// Chroma of the same size.
    I444,
}

impl Layout {
    /// The size of a chroma plane of a picture of this size.
    #[must_use]
    pub fn chroma(self, [width, height]: [u32; 2]) -> [u32; 2] {
        match self {
            Self::I400 => [0, 0],
            Self::I420 => [width.div_ceil(2), height.div_ceil(2)],
            Self::I422 => [width.div_ceil(2), height],
            Self::I444 => [width, height],
        }
    }
}

/// A picture: planes of samples without gaps, one byte each if there are 8 bits, else two, the lower first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Width and height in samples of luma.
    pub size: [u32; 2],
    /// Bits of a sample: 8, 10 or 12.
    pub bit_depth: u32,
    /// Which planes it has.
    pub layout: Layout,
    /// Y, U and V. Without chroma, the last two are empty.
    pub planes: [Vec<u8>; 3],
    /// The time that was given with its data, in units of the stream.
    pub time: i64,
    /// The bytes of the data that it came with.
    pub bytes: u64,
}
