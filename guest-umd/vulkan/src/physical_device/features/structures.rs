// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which features each structure has: those of versions of Vulkan, and those of extensions that became parts of them.

use super::super::chain::HEAD;
use super::{
    DYNAMIC_STATE, DYNAMIC_STATE_2, EXTENDED, ExtensionFeatures, FAULT, IMAGES, PRESENT, SINCE_1_1,
    SINCE_1_2, SINCE_1_3, extended, index,
};
use ash::vk;
use std::mem::offset_of;
use std::ops::Range;

/// A range of features from the first to the last field.
macro_rules! range {
    ($structure:ident $first:ident) => { index!($structure $first)..index!($structure $first) + 1 };
    ($structure:ident $first:ident $last:ident) => {
        index!($structure $first)..index!($structure $last) + 1
    };
}

/// A range of features of an extension.
macro_rules! of_extension {
    ($field:ident $count:literal) => {
        extended!($field)..extended!($field) + $count
    };
}

/// Which features a structure has, one after the other.
pub(super) fn range(kind: vk::StructureType) -> Option<Range<usize>> {
    use vk::StructureType as Kind;
    Some(match kind {
        Kind::PHYSICAL_DEVICE_FEATURES_2 => 0..SINCE_1_1,
        Kind::PHYSICAL_DEVICE_VULKAN_1_1_FEATURES => SINCE_1_1..SINCE_1_2,
        Kind::PHYSICAL_DEVICE_VULKAN_1_2_FEATURES => SINCE_1_2..SINCE_1_2 + 47,
        Kind::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES => SINCE_1_3..SINCE_1_3 + 15,
        Kind::PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES => {
            range!(since_1_1 storage_buffer16_bit_access storage_input_output16)
        }
        Kind::PHYSICAL_DEVICE_MULTIVIEW_FEATURES => {
            range!(since_1_1 multiview multiview_tessellation_shader)
        }
        Kind::PHYSICAL_DEVICE_VARIABLE_POINTERS_FEATURES => {
            range!(since_1_1 variable_pointers_storage_buffer variable_pointers)
        }
        Kind::PHYSICAL_DEVICE_PROTECTED_MEMORY_FEATURES => range!(since_1_1 protected_memory),
        Kind::PHYSICAL_DEVICE_SAMPLER_YCBCR_CONVERSION_FEATURES => {
            range!(since_1_1 sampler_ycbcr_conversion)
        }
        Kind::PHYSICAL_DEVICE_SHADER_DRAW_PARAMETERS_FEATURES => {
            range!(since_1_1 shader_draw_parameters)
        }
        Kind::PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES => {
            range!(since_1_2 storage_buffer8_bit_access storage_push_constant8)
        }
        Kind::PHYSICAL_DEVICE_SHADER_ATOMIC_INT64_FEATURES => {
            range!(since_1_2 shader_buffer_int64_atomics shader_shared_int64_atomics)
        }
        Kind::PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES => {
            range!(since_1_2 shader_float16 shader_int8)
        }
        Kind::PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES => {
            range!(since_1_2 shader_input_attachment_array_dynamic_indexing runtime_descriptor_array)
        }
        Kind::PHYSICAL_DEVICE_SCALAR_BLOCK_LAYOUT_FEATURES => range!(since_1_2 scalar_block_layout),
        Kind::PHYSICAL_DEVICE_IMAGELESS_FRAMEBUFFER_FEATURES => {
            range!(since_1_2 imageless_framebuffer)
        }
        Kind::PHYSICAL_DEVICE_UNIFORM_BUFFER_STANDARD_LAYOUT_FEATURES => {
            range!(since_1_2 uniform_buffer_standard_layout)
        }
        Kind::PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES => {
            range!(since_1_2 shader_subgroup_extended_types)
        }
        Kind::PHYSICAL_DEVICE_SEPARATE_DEPTH_STENCIL_LAYOUTS_FEATURES => {
            range!(since_1_2 separate_depth_stencil_layouts)
        }
        Kind::PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES => range!(since_1_2 host_query_reset),
        Kind::PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES => range!(since_1_2 timeline_semaphore),
        Kind::PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES => {
            range!(since_1_2 buffer_device_address buffer_device_address_multi_device)
        }
        Kind::PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES => {
            range!(since_1_2 vulkan_memory_model vulkan_memory_model_availability_visibility_chains)
        }
        Kind::PHYSICAL_DEVICE_IMAGE_ROBUSTNESS_FEATURES => range!(since_1_3 robust_image_access),
        Kind::PHYSICAL_DEVICE_INLINE_UNIFORM_BLOCK_FEATURES => {
            range!(
                since_1_3 inline_uniform_block descriptor_binding_inline_uniform_block_update_after_bind
            )
        }
        Kind::PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES => {
            range!(since_1_3 pipeline_creation_cache_control)
        }
        Kind::PHYSICAL_DEVICE_PRIVATE_DATA_FEATURES => range!(since_1_3 private_data),
        Kind::PHYSICAL_DEVICE_SHADER_DEMOTE_TO_HELPER_INVOCATION_FEATURES => {
            range!(since_1_3 shader_demote_to_helper_invocation)
        }
        Kind::PHYSICAL_DEVICE_SHADER_TERMINATE_INVOCATION_FEATURES => {
            range!(since_1_3 shader_terminate_invocation)
        }
        Kind::PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES => {
            range!(since_1_3 subgroup_size_control compute_full_subgroups)
        }
        Kind::PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES => range!(since_1_3 synchronization2),
        Kind::PHYSICAL_DEVICE_TEXTURE_COMPRESSION_ASTC_HDR_FEATURES => {
            range!(since_1_3 texture_compression_astc_hdr)
        }
        Kind::PHYSICAL_DEVICE_ZERO_INITIALIZE_WORKGROUP_MEMORY_FEATURES => {
            range!(since_1_3 shader_zero_initialize_workgroup_memory)
        }
        Kind::PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES => range!(since_1_3 dynamic_rendering),
        Kind::PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES => {
            range!(since_1_3 shader_integer_dot_product)
        }
        Kind::PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES => range!(since_1_3 maintenance4),
        Kind::PHYSICAL_DEVICE_FAULT_FEATURES_EXT => FAULT..DYNAMIC_STATE,
        Kind::PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_FEATURES_EXT => DYNAMIC_STATE..DYNAMIC_STATE_2,
        Kind::PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_2_FEATURES_EXT => DYNAMIC_STATE_2..PRESENT,
        Kind::PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_FEATURES_EXT => {
            of_extension!(transform_feedback 2)
        }
        Kind::PHYSICAL_DEVICE_INDEX_TYPE_UINT8_FEATURES_EXT => of_extension!(index_type_uint8 1),
        Kind::PHYSICAL_DEVICE_DEPTH_CLIP_ENABLE_FEATURES_EXT => of_extension!(depth_clip_enable 1),
        Kind::PHYSICAL_DEVICE_DEPTH_CLIP_CONTROL_FEATURES_EXT => {
            of_extension!(depth_clip_control 1)
        }
        Kind::PHYSICAL_DEVICE_PROVOKING_VERTEX_FEATURES_EXT => of_extension!(provoking_vertex 2),
        Kind::PHYSICAL_DEVICE_LINE_RASTERIZATION_FEATURES_EXT => {
            of_extension!(line_rasterization 6)
        }
        Kind::PHYSICAL_DEVICE_CUSTOM_BORDER_COLOR_FEATURES_EXT => {
            of_extension!(custom_border_color 2)
        }
        Kind::PHYSICAL_DEVICE_BORDER_COLOR_SWIZZLE_FEATURES_EXT => {
            of_extension!(border_color_swizzle 2)
        }
        Kind::PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT => {
            of_extension!(conditional_rendering 2)
        }
        Kind::PHYSICAL_DEVICE_VERTEX_ATTRIBUTE_DIVISOR_FEATURES_EXT => {
            of_extension!(vertex_attribute_divisor 2)
        }
        Kind::PHYSICAL_DEVICE_PRIMITIVE_TOPOLOGY_LIST_RESTART_FEATURES_EXT => {
            of_extension!(primitive_topology_list_restart 2)
        }
        Kind::PHYSICAL_DEVICE_PRIMITIVES_GENERATED_QUERY_FEATURES_EXT => {
            of_extension!(primitives_generated_query 3)
        }
        Kind::PHYSICAL_DEVICE_NON_SEAMLESS_CUBE_MAP_FEATURES_EXT => {
            of_extension!(non_seamless_cube_map 1)
        }
        Kind::PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT => of_extension!(robustness2 3),
        Kind::PHYSICAL_DEVICE_PRESENT_ID_FEATURES_KHR => PRESENT..PRESENT + 1,
        Kind::PHYSICAL_DEVICE_PRESENT_WAIT_FEATURES_KHR => PRESENT + 1..IMAGES,
        _ => return None,
    })
}
