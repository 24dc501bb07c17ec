// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which properties each structure has: those of versions of Vulkan, and those of extensions that became parts of them.

use super::super::chain::HEAD;
use super::{Properties, Since11, Since12, Since13, at};
use crate::descriptor::layout::MAX_PUSH_DESCRIPTORS;
use ash::vk;
use std::mem::offset_of;
use zerocopy::IntoBytes;

impl Properties {
    /// The fields of a structure of an extension that the host has; `None` of another structure.
    fn fields_of_extension(&self, kind: vk::StructureType) -> Option<&[u8]> {
        use vk::StructureType as Kind;
        let of = &self.of_extensions;
        Some(match kind {
            Kind::PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_PROPERTIES_EXT => {
                // What is behind the last field pads the structure.
                let length = size_of_val(&of.transform_feedback) - size_of::<u32>();
                of.transform_feedback.as_bytes().get(..length)?
            }
            Kind::PHYSICAL_DEVICE_PROVOKING_VERTEX_PROPERTIES_EXT => of.provoking_vertex.as_bytes(),
            Kind::PHYSICAL_DEVICE_LINE_RASTERIZATION_PROPERTIES_EXT => {
                of.line_rasterization.as_bytes()
            }
            Kind::PHYSICAL_DEVICE_CUSTOM_BORDER_COLOR_PROPERTIES_EXT => {
                of.custom_border_color.as_bytes()
            }
            Kind::PHYSICAL_DEVICE_VERTEX_ATTRIBUTE_DIVISOR_PROPERTIES_EXT => {
                of.vertex_attribute_divisor.as_bytes()
            }
            Kind::PHYSICAL_DEVICE_ROBUSTNESS_2_PROPERTIES_EXT => of.robustness2.as_bytes(),
            _ => return None,
        })
    }

    /// The fields of a structure of properties, of its own or those of a version of Vulkan; `None` of another structure.
    #[must_use]
    pub fn fields(&self, kind: vk::StructureType) -> Option<Vec<u8>> {
        use vk::StructureType as Kind;
        /// From a field on, as many bytes as the structure has fields.
        macro_rules! part {
            ($bytes:ident $structure:ident $field:ident $type:ident) => {
                (&self.$bytes[..], at!($structure $field), size_of::<vk::$type<'_>>() - HEAD)
            };
        }
        let (bytes, start, length) = match kind {
            Kind::PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES => {
                (&self.since_1_1[..], 0, self.since_1_1.len())
            }
            Kind::PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES => {
                (&self.since_1_2[..], 0, self.since_1_2.len())
            }
            Kind::PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES => {
                (&self.since_1_3[..], 0, self.since_1_3.len())
            }
            Kind::PHYSICAL_DEVICE_ID_PROPERTIES => {
                part!(since_1_1 Since11 device_uuid PhysicalDeviceIDProperties)
            }
            Kind::PHYSICAL_DEVICE_SUBGROUP_PROPERTIES => {
                part!(since_1_1 Since11 subgroup_size PhysicalDeviceSubgroupProperties)
            }
            Kind::PHYSICAL_DEVICE_POINT_CLIPPING_PROPERTIES => {
                part!(since_1_1 Since11 point_clipping_behavior PhysicalDevicePointClippingProperties)
            }
            Kind::PHYSICAL_DEVICE_MULTIVIEW_PROPERTIES => {
                part!(since_1_1 Since11 max_multiview_view_count PhysicalDeviceMultiviewProperties)
            }
            Kind::PHYSICAL_DEVICE_PROTECTED_MEMORY_PROPERTIES => {
                part!(since_1_1 Since11 protected_no_fault PhysicalDeviceProtectedMemoryProperties)
            }
            Kind::PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES => {
                part!(since_1_1 Since11 max_per_set_descriptors PhysicalDeviceMaintenance3Properties)
            }
            Kind::PHYSICAL_DEVICE_DRIVER_PROPERTIES => {
                part!(since_1_2 Since12 driver_id PhysicalDeviceDriverProperties)
            }
            Kind::PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES => {
                part!(
                    since_1_2 Since12 denorm_behavior_independence
                    PhysicalDeviceFloatControlsProperties
                )
            }
            Kind::PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_PROPERTIES => {
                part!(
                    since_1_2 Since12 max_update_after_bind_descriptors_in_all_pools
                    PhysicalDeviceDescriptorIndexingProperties
                )
            }
            Kind::PHYSICAL_DEVICE_DEPTH_STENCIL_RESOLVE_PROPERTIES => {
                part!(
                    since_1_2 Since12 supported_depth_resolve_modes
                    PhysicalDeviceDepthStencilResolveProperties
                )
            }
            Kind::PHYSICAL_DEVICE_SAMPLER_FILTER_MINMAX_PROPERTIES => {
                part!(
                    since_1_2 Since12 filter_minmax_single_component_formats
                    PhysicalDeviceSamplerFilterMinmaxProperties
                )
            }
            Kind::PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_PROPERTIES => {
                part!(
                    since_1_2 Since12 max_timeline_semaphore_value_difference
                    PhysicalDeviceTimelineSemaphoreProperties
                )
            }
            Kind::PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES => {
                part!(since_1_3 Since13 min_subgroup_size PhysicalDeviceSubgroupSizeControlProperties)
            }
            Kind::PHYSICAL_DEVICE_INLINE_UNIFORM_BLOCK_PROPERTIES => {
                part!(
                    since_1_3 Since13 max_inline_uniform_block_size
                    PhysicalDeviceInlineUniformBlockProperties
                )
            }
            Kind::PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES => {
                part!(
                    since_1_3 Since13 integer_dot_product8_bit_unsigned_accelerated
                    PhysicalDeviceShaderIntegerDotProductProperties
                )
            }
            Kind::PHYSICAL_DEVICE_TEXEL_BUFFER_ALIGNMENT_PROPERTIES => {
                part!(
                    since_1_3 Since13 storage_texel_buffer_offset_alignment_bytes
                    PhysicalDeviceTexelBufferAlignmentProperties
                )
            }
            Kind::PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES => {
                part!(since_1_3 Since13 max_buffer_size PhysicalDeviceMaintenance4Properties)
            }
            Kind::PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR => {
                return Some(MAX_PUSH_DESCRIPTORS.as_bytes().to_vec());
            }
            _ => return self.fields_of_extension(kind).map(<[u8]>::to_vec),
        };
        let rest = bytes.get(start..).unwrap_or_default();
        rest.get(..length.min(rest.len())).map(<[u8]>::to_vec)
    }
}
