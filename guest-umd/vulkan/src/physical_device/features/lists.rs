// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which features a guest may have, by what they need.

use super::super::chain::HEAD;
use super::{SINCE_1_1, SINCE_1_2, SINCE_1_3, index};
use ash::vk;
use std::mem::offset_of;

macro_rules! indices {
    ($($structure:ident { $($field:ident)* })*) => { [$($(index!($structure $field)),*),*] };
}

/// What a guest has if the host has it. There is nothing of sparse memory.
pub(super) const PASSED: [usize; 46] = indices! {
    core {
        robust_buffer_access
        shader_uniform_buffer_array_dynamic_indexing
        shader_storage_buffer_array_dynamic_indexing
        shader_float64
        shader_int64
        shader_int16
    }
    since_1_1 {
        storage_buffer16_bit_access
        uniform_and_storage_buffer16_bit_access
        storage_push_constant16
        variable_pointers_storage_buffer
        variable_pointers
    }
    since_1_2 {
        storage_buffer8_bit_access
        uniform_and_storage_buffer8_bit_access
        storage_push_constant8
        shader_buffer_int64_atomics
        shader_shared_int64_atomics
        shader_float16
        shader_int8
        shader_uniform_buffer_array_non_uniform_indexing
        shader_storage_buffer_array_non_uniform_indexing
        descriptor_binding_uniform_buffer_update_after_bind
        descriptor_binding_storage_buffer_update_after_bind
        descriptor_binding_update_unused_while_pending
        descriptor_binding_partially_bound
        descriptor_binding_variable_descriptor_count
        runtime_descriptor_array
        scalar_block_layout
        uniform_buffer_standard_layout
        shader_subgroup_extended_types
        buffer_device_address
        vulkan_memory_model
        vulkan_memory_model_device_scope
        vulkan_memory_model_availability_visibility_chains
        subgroup_broadcast_dynamic_id
    }
    since_1_3 {
        subgroup_size_control
        compute_full_subgroups
        shader_zero_initialize_workgroup_memory
        shader_integer_dot_product
        maintenance4
        inline_uniform_block
        descriptor_binding_inline_uniform_block_update_after_bind
        pipeline_creation_cache_control
        private_data
        synchronization2
    }
    since_1_2 {
        host_query_reset
        timeline_semaphore
    }
};

/// What a guest has if the host has it, and images. `descriptorIndexing`, which sums up what is here, also promises more descriptors
/// than a pipeline may have.
pub(super) const OF_IMAGES: [usize; 27] = indices! {
    core {
        image_cube_array
        sampler_anisotropy
        texture_compression_etc2
        texture_compression_astc_ldr
        texture_compression_bc
        shader_image_gather_extended
        shader_storage_image_extended_formats
        shader_storage_image_multisample
        shader_storage_image_read_without_format
        shader_storage_image_write_without_format
        shader_sampled_image_array_dynamic_indexing
        shader_storage_image_array_dynamic_indexing
        shader_resource_min_lod
    }
    since_1_2 {
        sampler_mirror_clamp_to_edge
        shader_uniform_texel_buffer_array_dynamic_indexing
        shader_storage_texel_buffer_array_dynamic_indexing
        shader_sampled_image_array_non_uniform_indexing
        shader_storage_image_array_non_uniform_indexing
        shader_uniform_texel_buffer_array_non_uniform_indexing
        shader_storage_texel_buffer_array_non_uniform_indexing
        descriptor_binding_sampled_image_update_after_bind
        descriptor_binding_storage_image_update_after_bind
        descriptor_binding_uniform_texel_buffer_update_after_bind
        descriptor_binding_storage_texel_buffer_update_after_bind
        sampler_filter_minmax
    }
    since_1_3 {
        robust_image_access
        texture_compression_astc_hdr
    }
};

/// What a guest has if the host has it, and graphics.
pub(super) const OF_GRAPHICS: [usize; 34] = indices! {
    core {
        full_draw_index_uint32
        independent_blend
        geometry_shader
        tessellation_shader
        sample_rate_shading
        dual_src_blend
        logic_op
        multi_draw_indirect
        draw_indirect_first_instance
        depth_clamp
        depth_bias_clamp
        fill_mode_non_solid
        depth_bounds
        wide_lines
        large_points
        alpha_to_one
        multi_viewport
        occlusion_query_precise
        pipeline_statistics_query
        vertex_pipeline_stores_and_atomics
        fragment_stores_and_atomics
        shader_tessellation_and_geometry_point_size
        shader_clip_distance
        shader_cull_distance
    }
    since_1_1 {
        storage_input_output16
        multiview
        multiview_geometry_shader
        multiview_tessellation_shader
        shader_draw_parameters
    }
    since_1_2 {
        draw_indirect_count
        shader_input_attachment_array_dynamic_indexing
        shader_input_attachment_array_non_uniform_indexing
    }
    since_1_3 {
        shader_demote_to_helper_invocation
        shader_terminate_invocation
    }
};

/// What the driver does itself if there are graphics.
pub(super) const OWN_OF_GRAPHICS: [usize; 4] = indices! {
    core { inherited_queries }
    since_1_2 { imageless_framebuffer separate_depth_stencil_layouts }
    since_1_3 { dynamic_rendering }
};

/// What the driver does itself, whatever the host has.
pub(super) const OWN: [usize; 8] = indices! {
    since_1_2 { host_query_reset timeline_semaphore }
    since_1_3 {
        inline_uniform_block
        descriptor_binding_inline_uniform_block_update_after_bind
        pipeline_creation_cache_control
        private_data
        synchronization2
    }
    since_1_2 { descriptor_binding_update_unused_while_pending }
};
