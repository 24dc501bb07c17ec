// SPDX-License-Identifier: MIT OR Apache-2.0

//! How large texels are.

/// Number of formats of Vulkan 1.0, `VK_FORMAT_UNDEFINED` with them: their numbers are less.
pub const FORMATS: usize = 185;

/// A texel of a colour format, or a block of texels of a compressed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texel {
    /// Bytes.
    pub bytes: u32,
    /// Texels in a row of it.
    pub width: u32,
    /// Rows of texels.
    pub height: u32,
}

impl Texel {
    /// The texel of a `VkFormat` of Vulkan 1.0 that is a colour; `None` for any other format.
    #[must_use]
    pub const fn of(format: u32) -> Option<Self> {
        let bytes = match format {
            1 | 9..=15 => 1,
            2..=8 | 16..=22 | 70..=76 => 2,
            23..=36 => 3,
            37..=69 | 77..=83 | 98..=100 | 122..=123 => 4,
            84..=90 => 6,
            91..=97 | 101..=103 | 110..=112 => 8,
            104..=106 => 12,
            107..=109 | 113..=115 => 16,
            116..=118 => 24,
            119..=121 => 32,
            _ => return Self::of_compressed(format),
        };
        Some(Self { bytes, width: 1, height: 1 })
    }

    const fn of_compressed(format: u32) -> Option<Self> {
        let (bytes, width, height) = match format {
            // BC1, BC4, ETC2 without alpha or with one bit of it, EAC of one component.
            131..=134 | 139..=140 | 147..=150 | 153..=154 => (8, 4, 4),
            // BC2, BC3, BC5, BC6H, BC7, ETC2 with alpha, EAC of two components, ASTC.
            135..=138 | 141..=146 | 151..=152 | 155..=158 => (16, 4, 4),
            159..=160 => (16, 5, 4),
            161..=162 => (16, 5, 5),
            163..=164 => (16, 6, 5),
            165..=166 => (16, 6, 6),
            167..=168 => (16, 8, 5),
            169..=170 => (16, 8, 6),
            171..=172 => (16, 8, 8),
            173..=174 => (16, 10, 5),
            175..=176 => (16, 10, 6),
            177..=178 => (16, 10, 8),
            179..=180 => (16, 10, 10),
            181..=182 => (16, 12, 10),
            183..=184 => (16, 12, 12),
            _ => return None,
        };
        Some(Self { bytes, width, height })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texels_are_as_large_as_vulkan_says() {
        let texel = |format| Texel::of(format).map(|it| (it.bytes, it.width, it.height));
        for (format, expected) in [
            // Undefined, D16_UNORM, D32_SFLOAT_S8_UINT, and the first number after the last format.
            (0, None),
            (124, None),
            (130, None),
            (185, None),
            // R4G4, R5G6B5, R8_UNORM, R8G8B8_SRGB, B8G8R8A8_UNORM, A2B10G10R10_SINT.
            (1, Some((1, 1, 1))),
            (4, Some((2, 1, 1))),
            (9, Some((1, 1, 1))),
            (29, Some((3, 1, 1))),
            (44, Some((4, 1, 1))),
            (69, Some((4, 1, 1))),
            // R16_SFLOAT, R16G16B16_SFLOAT, R16G16B16A16_SFLOAT.
            (76, Some((2, 1, 1))),
            (90, Some((6, 1, 1))),
            (97, Some((8, 1, 1))),
            // R32_UINT, R32G32B32_SFLOAT, R32G32B32A32_SFLOAT, R64G64B64A64_SFLOAT, E5B9G9R9.
            (98, Some((4, 1, 1))),
            (106, Some((12, 1, 1))),
            (109, Some((16, 1, 1))),
            (121, Some((32, 1, 1))),
            (123, Some((4, 1, 1))),
            // BC1, BC3, BC4, BC7, ETC2 with a bit of alpha, EAC of two components, ASTC of 4x4 and 12x12.
            (131, Some((8, 4, 4))),
            (137, Some((16, 4, 4))),
            (140, Some((8, 4, 4))),
            (146, Some((16, 4, 4))),
            (150, Some((8, 4, 4))),
            (156, Some((16, 4, 4))),
            (157, Some((16, 4, 4))),
            (184, Some((16, 12, 12))),
        ] {
            assert_eq!(texel(format), expected, "{format}");
        }
        assert_eq!((0..1000).filter(|format| texel(*format).is_some()).count(), 184 - 7);
    }
}
