// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images, views of them and samplers, as commands and descriptors name them.
//!
//! The host keeps none of them. It makes Vulkan's objects of these descriptions as often as a command names one, of the
//! memory that the process has for the image. So two descriptions of one image are the same to the letter, and an image is
//! always in Vulkan's layout `GENERAL`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What an image has of dimensions: Vulkan's numbers (`VkImageType`).
    pub struct ImageKind: u32 {
        /// A row of texels.
        ONE = 0;
        /// Rows of texels.
        TWO = 1;
        /// Planes of rows of texels.
        THREE = 2;
    }
}

open_enum! {
    /// Where an image's texels are: Vulkan's numbers (`VkImageTiling`).
    pub struct Tiling: u32 {
        /// Where the host puts them.
        OPTIMAL = 0;
        /// In rows, whose places [`ImageNeeds`] tell.
        LINEAR = 1;
    }
}

/// An image. Numbers and bits are Vulkan's (`VkImageCreateInfo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Image {
    /// Its first byte, a multiple of [`ImageNeeds::alignment`]. A question about images that could be has 0.
    pub address: u64,
    /// Bytes of memory from there, at least [`ImageNeeds::size`]. A question about images that could be has 0.
    pub size: u64,
    /// `VkFormat`.
    pub format: u32,
    /// `VkImageType`.
    pub kind: ImageKind,
    /// `VkImageTiling`.
    pub tiling: Tiling,
    /// `VkImageUsageFlags`.
    pub usage: u32,
    /// `VkImageCreateFlags`.
    pub flags: u32,
    /// `VkSampleCountFlagBits`.
    pub samples: u32,
    /// Texels in each dimension, of level 0.
    pub extent: [u32; 3],
    /// Number of levels.
    pub levels: u32,
    /// Number of layers.
    pub layers: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    Image, 64,
    address at 0, size at 8, format at 16, kind at 20, tiling at 24, usage at 28, flags at 32, samples at 36,
    extent at 40, levels at 52, layers at 56, reserved at 60,
);

/// Part of an image that a copy reads or writes: layers of a level (`VkImageSubresourceLayers`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Layers {
    /// `VkImageAspectFlags`.
    pub aspect: u32,
    /// The level.
    pub level: u32,
    /// The first layer.
    pub first: u32,
    /// Number of layers.
    pub count: u32,
}
crate::assert_layout!(Layers, 16, aspect at 0, level at 4, first at 8, count at 12);

/// Part of an image that a view or a clear reaches (`VkImageSubresourceRange`), whose counts are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Range {
    /// `VkImageAspectFlags`.
    pub aspect: u32,
    /// The first level.
    pub level: u32,
    /// Number of levels.
    pub levels: u32,
    /// The first layer.
    pub layer: u32,
    /// Number of layers.
    pub layers: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    Range, 24, aspect at 0, level at 4, levels at 8, layer at 12, layers at 16, reserved at 20,
);

/// A view of an image (`VkImageViewCreateInfo`), in memory of the process, at a multiple of 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ImageView {
    /// Tells it from all other views and samplers that were or will be in the process. Not 0 as long as the view is there: a
    /// [`Descriptor`](super::Descriptor) that has another is of a view that has ended.
    pub serial: u64,
    /// The image.
    pub image: Image,
    /// `VkImageViewType`.
    pub kind: u32,
    /// `VkFormat`.
    pub format: u32,
    /// `VkComponentSwizzle` of red, green, blue and alpha.
    pub components: [u32; 4],
    /// What it reaches.
    pub range: Range,
    /// `VkImageUsageFlags`: those of the image, or fewer.
    pub usage: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    ImageView, 128,
    serial at 0, image at 8, kind at 72, format at 76, components at 80, range at 96, usage at 120, reserved at 124,
);

/// A sampler (`VkSamplerCreateInfo`), in memory of the process, at a multiple of 8. Booleans are 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Sampler {
    /// As [`ImageView::serial`].
    pub serial: u64,
    /// `VkFilter` of texels that are larger than what is asked for.
    pub mag_filter: u32,
    /// `VkFilter` of texels that are smaller.
    pub min_filter: u32,
    /// `VkSamplerMipmapMode`.
    pub mipmap_mode: u32,
    /// `VkSamplerAddressMode` in each dimension.
    pub address_modes: [u32; 3],
    /// `mipLodBias`.
    pub lod_bias: f32,
    /// `anisotropyEnable`.
    pub is_anisotropic: u32,
    /// `maxAnisotropy`.
    pub most_anisotropy: f32,
    /// `compareEnable`.
    pub compares: u32,
    /// `VkCompareOp`.
    pub compare_op: u32,
    /// `minLod`.
    pub min_lod: f32,
    /// `maxLod`.
    pub max_lod: f32,
    /// `VkBorderColor`.
    pub border_color: u32,
    /// `unnormalizedCoordinates`.
    pub is_unnormalised: u32,
    /// `VkSamplerReductionMode`.
    pub reduction: u32,
    /// Whether each face of a cube ends at its edges (`VK_SAMPLER_CREATE_NON_SEAMLESS_CUBE_MAP_BIT_EXT`).
    pub has_seams: u32,
    /// `customBorderColor`, if [`Self::border_color`] is a custom one.
    pub custom_border: [u32; 4],
    /// Its `VkFormat`, or 0.
    pub custom_format: u32,
    /// Whether the next two count (`VkSamplerBorderColorComponentMappingCreateInfoEXT`).
    pub swizzles_border: u32,
    /// `VkComponentSwizzle` of red, green, blue and alpha.
    pub border_swizzle: [u32; 4],
    /// `srgb`.
    pub is_border_srgb: u32,
}
crate::assert_layout!(
    Sampler, 120,
    serial at 0, mag_filter at 8, min_filter at 12, mipmap_mode at 16, address_modes at 20, lod_bias at 32,
    is_anisotropic at 36, most_anisotropy at 40, compares at 44, compare_op at 48, min_lod at 52, max_lod at 56,
    border_color at 60, is_unnormalised at 64, reduction at 68, has_seams at 72, custom_border at 76, custom_format at 92,
    swizzles_border at 96, border_swizzle at 100, is_border_srgb at 116,
);

impl Sampler {
    /// Whether its border has a colour of its own: `VK_BORDER_COLOR_FLOAT_CUSTOM_EXT` or `VK_BORDER_COLOR_INT_CUSTOM_EXT`.
    #[must_use]
    pub const fn has_custom_border(&self) -> bool {
        matches!(self.border_color, 1_000_287_003 | 1_000_287_004)
    }
}

/// What `QUERY_IMAGE` stores.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ImageNeeds {
    /// `VkResult` of making such an image: 0, or why there can be none.
    pub result: i32,
    /// Zero.
    pub reserved: u32,
    /// Bytes of memory.
    pub size: u64,
    /// What the address is a multiple of.
    pub alignment: u64,
    /// Where a subresource of a linear image begins (`VkSubresourceLayout`).
    pub offset: u64,
    /// Bytes of the subresource.
    pub length: u64,
    /// Bytes from a row to the next.
    pub row_pitch: u64,
    /// Bytes from a layer to the next.
    pub array_pitch: u64,
    /// Bytes from a plane to the next.
    pub depth_pitch: u64,
}
crate::assert_layout!(
    ImageNeeds, 64,
    result at 0, reserved at 4, size at 8, alignment at 16, offset at 24, length at 32, row_pitch at 40,
    array_pitch at 48, depth_pitch at 56,
);

/// What `QUERY_IMAGE_FORMAT` stores (`VkImageFormatProperties`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ImageFormat {
    /// `VkResult`: 0, or `VK_ERROR_FORMAT_NOT_SUPPORTED`.
    pub result: i32,
    /// Most texels in each dimension.
    pub extent: [u32; 3],
    /// Most levels.
    pub levels: u32,
    /// Most layers.
    pub layers: u32,
    /// `VkSampleCountFlags` that there can be.
    pub samples: u32,
    /// Zero.
    pub reserved: u32,
    /// Most bytes.
    pub size: u64,
}
crate::assert_layout!(
    ImageFormat, 40,
    result at 0, extent at 4, levels at 16, layers at 20, samples at 24, reserved at 28, size at 32,
);
