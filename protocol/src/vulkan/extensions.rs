// SPDX-License-Identifier: MIT OR Apache-2.0

//! What extensions of the host's Vulkan have of features and properties: those of each structure of Vulkan's, behind `sType` and `pNext`,
//! as its header lays them out. They are 0 of an extension that the host does not have.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Features, each a boolean of 32 bits.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ExtensionFeatures {
    /// `VK_EXT_transform_feedback`: `transformFeedback`, `geometryStreams`.
    pub transform_feedback: [u32; 2],
    /// `VK_EXT_index_type_uint8`.
    pub index_type_uint8: u32,
    /// `VK_EXT_depth_clip_enable`.
    pub depth_clip_enable: u32,
    /// `VK_EXT_depth_clip_control`.
    pub depth_clip_control: u32,
    /// `VK_EXT_provoking_vertex`: `provokingVertexLast`, `transformFeedbackPreservesProvokingVertex`.
    pub provoking_vertex: [u32; 2],
    /// `VK_EXT_line_rasterization`: rectangular, Bresenham and smooth lines, and the same with stipples.
    pub line_rasterization: [u32; 6],
    /// `VK_EXT_custom_border_color`: `customBorderColors`, `customBorderColorWithoutFormat`.
    pub custom_border_color: [u32; 2],
    /// `VK_EXT_border_color_swizzle`: `borderColorSwizzle`, `borderColorSwizzleFromImage`.
    pub border_color_swizzle: [u32; 2],
    /// `VK_EXT_conditional_rendering`: `conditionalRendering`, `inheritedConditionalRendering`.
    pub conditional_rendering: [u32; 2],
    /// `VK_EXT_vertex_attribute_divisor`: divisors, and those of 0.
    pub vertex_attribute_divisor: [u32; 2],
    /// `VK_EXT_primitive_topology_list_restart`: of lists, and of patches.
    pub primitive_topology_list_restart: [u32; 2],
    /// `VK_EXT_primitives_generated_query`: queries, those without rasterization, and those of streams other than 0.
    pub primitives_generated_query: [u32; 3],
    /// `VK_EXT_non_seamless_cube_map`.
    pub non_seamless_cube_map: u32,
    /// `VK_EXT_robustness2`: `robustBufferAccess2`, `robustImageAccess2`, `nullDescriptor`.
    pub robustness2: [u32; 3],
    /// Whether there is `VK_EXT_shader_stencil_export`, which has no features.
    pub shader_stencil_export: u32,
    /// Zero.
    pub reserved: u32,
}
crate::assert_layout!(
    ExtensionFeatures, 128,
    transform_feedback at 0, index_type_uint8 at 8, depth_clip_enable at 12, depth_clip_control at 16,
    provoking_vertex at 20, line_rasterization at 28, custom_border_color at 52, border_color_swizzle at 60,
    conditional_rendering at 68, vertex_attribute_divisor at 76, primitive_topology_list_restart at 84,
    primitives_generated_query at 92, non_seamless_cube_map at 104, robustness2 at 108, shader_stencil_export at 120,
    reserved at 124,
);

/// Properties.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct ExtensionProperties {
    /// `VkPhysicalDeviceTransformFeedbackPropertiesEXT`, with 4 bytes behind it.
    pub transform_feedback: [u32; 12],
    /// `VkPhysicalDeviceProvokingVertexPropertiesEXT`.
    pub provoking_vertex: [u32; 2],
    /// `lineSubPixelPrecisionBits`.
    pub line_rasterization: u32,
    /// `maxCustomBorderColorSamplers`.
    pub custom_border_color: u32,
    /// `maxVertexAttribDivisor`.
    pub vertex_attribute_divisor: u32,
    /// Zero.
    pub reserved: u32,
    /// `VkPhysicalDeviceRobustness2PropertiesEXT`.
    pub robustness2: [u64; 2],
}
crate::assert_layout!(
    ExtensionProperties, 88,
    transform_feedback at 0, provoking_vertex at 48, line_rasterization at 56, custom_border_color at 60,
    vertex_attribute_divisor at 64, reserved at 68, robustness2 at 72,
);
