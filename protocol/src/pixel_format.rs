// SPDX-License-Identifier: MIT OR Apache-2.0

//! How surfaces store pixels.

open_enum! {
    /// How a surface stores pixels: little-endian words, blue in the lowest bits (`D3DDDIFORMAT`).
    pub struct PixelFormat: u32 {
        /// 32 bits: 8 for each colour, 8 without meaning.
        X8R8G8B8 = 1;
        /// 32 bits: 8 for each colour, 8 of alpha, which scan-out ignores.
        A8R8G8B8 = 2;
        /// 16 bits: 5 of red, 6 of green, 5 of blue.
        R5G6B5 = 3;
        /// 32 bits: 10 for each colour, 2 without meaning.
        X2R10G10B10 = 4;
    }
}

impl PixelFormat {
    /// Bytes of a pixel; `None` for a format without a name.
    #[must_use]
    pub const fn bytes(self) -> Option<u32> {
        match self {
            Self::X8R8G8B8 | Self::A8R8G8B8 | Self::X2R10G10B10 => Some(4),
            Self::R5G6B5 => Some(2),
            _ => None,
        }
    }
}
