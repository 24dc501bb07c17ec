// SPDX-License-Identifier: MIT OR Apache-2.0

//! Extensions of devices: most are parts of later versions of Vulkan under their old names.

use super::caps::Caps;
use super::features;
use super::properties::text;
use ash::{ext, khr, vk};
use std::ffi::CStr;

/// An extension, its version, and the feature that it is for, if a host may lack it.
type Extension = (&'static CStr, u32, Option<usize>);

/// All of them.
const ALL: [Extension; 83] = [
    (khr::_16bit_storage::NAME, 1, Some(features::STORAGE_16)),
    (khr::_8bit_storage::NAME, 1, Some(features::STORAGE_8)),
    (khr::bind_memory2::NAME, 1, None),
    (khr::buffer_device_address::NAME, 1, Some(features::BUFFER_DEVICE_ADDRESS)),
    (khr::copy_commands2::NAME, 1, None),
    (khr::create_renderpass2::NAME, 1, Some(features::GRAPHICS)),
    (khr::dedicated_allocation::NAME, 3, None),
    (khr::depth_stencil_resolve::NAME, 1, Some(features::GRAPHICS)),
    (khr::descriptor_update_template::NAME, 1, None),
    (khr::device_group::NAME, 4, None),
    (khr::draw_indirect_count::NAME, 1, Some(features::DRAW_INDIRECT_COUNT)),
    (khr::driver_properties::NAME, 1, None),
    (khr::dynamic_rendering::NAME, 1, Some(features::GRAPHICS)),
    (khr::external_semaphore::NAME, 1, None),
    (khr::external_semaphore_fd::NAME, 1, None),
    (khr::format_feature_flags2::NAME, 2, Some(features::IMAGES)),
    (khr::get_memory_requirements2::NAME, 1, None),
    (khr::image_format_list::NAME, 1, Some(features::IMAGES)),
    (khr::index_type_uint8::NAME, 1, Some(features::INDEX_TYPE_UINT8)),
    (khr::line_rasterization::NAME, 1, Some(features::LINE_RASTERIZATION)),
    (khr::imageless_framebuffer::NAME, 1, Some(features::GRAPHICS)),
    (khr::maintenance1::NAME, 2, None),
    (khr::maintenance2::NAME, 1, None),
    (khr::maintenance3::NAME, 1, None),
    (khr::maintenance4::NAME, 2, Some(features::MAINTENANCE_4)),
    (khr::map_memory2::NAME, 1, None),
    (khr::multiview::NAME, 1, Some(features::MULTIVIEW)),
    (khr::present_id::NAME, 1, Some(features::PRESENT)),
    (khr::present_wait::NAME, 1, Some(features::PRESENT + 1)),
    (khr::push_descriptor::NAME, 2, None),
    (khr::relaxed_block_layout::NAME, 1, None),
    (khr::sampler_mirror_clamp_to_edge::NAME, 3, Some(features::SAMPLER_MIRROR_CLAMP_TO_EDGE)),
    (khr::separate_depth_stencil_layouts::NAME, 1, Some(features::GRAPHICS)),
    (khr::shader_atomic_int64::NAME, 1, Some(features::ATOMIC_INT64)),
    (khr::shader_draw_parameters::NAME, 1, Some(features::SHADER_DRAW_PARAMETERS)),
    (khr::shader_float16_int8::NAME, 1, Some(features::SHADER_INT_8)),
    (khr::shader_float_controls::NAME, 4, None),
    (khr::shader_integer_dot_product::NAME, 1, Some(features::INTEGER_DOT_PRODUCT)),
    (khr::shader_non_semantic_info::NAME, 1, None),
    (khr::shader_subgroup_extended_types::NAME, 1, Some(features::SUBGROUP_EXTENDED_TYPES)),
    (khr::shader_terminate_invocation::NAME, 1, Some(features::TERMINATE_INVOCATION)),
    (khr::spirv_1_4::NAME, 1, None),
    (khr::storage_buffer_storage_class::NAME, 1, None),
    (khr::swapchain::NAME, 70, Some(features::IMAGES)),
    (khr::swapchain_mutable_format::NAME, 1, Some(features::IMAGES)),
    (khr::synchronization2::NAME, 1, None),
    (khr::timeline_semaphore::NAME, 2, None),
    (khr::uniform_buffer_standard_layout::NAME, 1, Some(features::UNIFORM_BUFFER_STANDARD_LAYOUT)),
    (khr::variable_pointers::NAME, 1, Some(features::VARIABLE_POINTERS)),
    (khr::vulkan_memory_model::NAME, 3, Some(features::VULKAN_MEMORY_MODEL)),
    (khr::zero_initialize_workgroup_memory::NAME, 1, Some(features::ZERO_INITIALIZE)),
    (ext::border_color_swizzle::NAME, 1, Some(features::BORDER_COLOR_SWIZZLE)),
    (ext::conditional_rendering::NAME, 2, Some(features::CONDITIONAL_RENDERING)),
    (ext::custom_border_color::NAME, 12, Some(features::CUSTOM_BORDER_COLOR)),
    (ext::depth_clip_control::NAME, 1, Some(features::DEPTH_CLIP_CONTROL)),
    (ext::depth_clip_enable::NAME, 1, Some(features::DEPTH_CLIP_ENABLE)),
    (ext::device_fault::NAME, 2, None),
    (ext::extended_dynamic_state::NAME, 1, Some(features::DYNAMIC_STATE)),
    (ext::extended_dynamic_state2::NAME, 1, Some(features::DYNAMIC_STATE_2)),
    (ext::host_query_reset::NAME, 1, None),
    (ext::index_type_uint8::NAME, 1, Some(features::INDEX_TYPE_UINT8)),
    (ext::line_rasterization::NAME, 1, Some(features::LINE_RASTERIZATION)),
    (ext::non_seamless_cube_map::NAME, 1, Some(features::NON_SEAMLESS_CUBE_MAP)),
    (ext::primitive_topology_list_restart::NAME, 1, Some(features::TOPOLOGY_LIST_RESTART)),
    (ext::primitives_generated_query::NAME, 1, Some(features::PRIMITIVES_GENERATED_QUERY)),
    (ext::provoking_vertex::NAME, 1, Some(features::PROVOKING_VERTEX)),
    (ext::robustness2::NAME, 1, Some(features::NULL_DESCRIPTOR)),
    (ext::shader_stencil_export::NAME, 1, Some(features::SHADER_STENCIL_EXPORT)),
    (ext::transform_feedback::NAME, 1, Some(features::TRANSFORM_FEEDBACK)),
    (ext::vertex_attribute_divisor::NAME, 3, Some(features::VERTEX_ATTRIBUTE_DIVISOR)),
    (ext::image_robustness::NAME, 1, Some(features::ROBUST_IMAGE_ACCESS)),
    (ext::inline_uniform_block::NAME, 1, None),
    (ext::memory_budget::NAME, 1, None),
    (ext::pipeline_creation_cache_control::NAME, 3, None),
    (ext::pipeline_creation_feedback::NAME, 1, None),
    (ext::private_data::NAME, 1, None),
    (ext::sampler_filter_minmax::NAME, 2, Some(features::SAMPLER_FILTER_MINMAX)),
    (ext::scalar_block_layout::NAME, 1, Some(features::SCALAR_BLOCK_LAYOUT)),
    (ext::separate_stencil_usage::NAME, 1, Some(features::IMAGES)),
    (ext::shader_demote_to_helper_invocation::NAME, 1, Some(features::DEMOTE_TO_HELPER)),
    (ext::shader_viewport_index_layer::NAME, 1, Some(features::SHADER_OUTPUT_LAYER)),
    (ext::subgroup_size_control::NAME, 2, Some(features::SUBGROUP_SIZE_CONTROL)),
    (ext::tooling_info::NAME, 1, None),
];

/// The extensions of a device.
pub(crate) fn offered(caps: &Caps) -> impl Iterator<Item = (&'static CStr, u32)> {
    let is_there =
        |feature: Option<usize>| feature.is_none_or(|feature| caps.features.has(feature));
    ALL.into_iter()
        .filter(move |(_, _, feature)| is_there(*feature))
        .map(|(name, version, _)| (name, version))
}

/// Whether a device has an extension.
pub(crate) fn has(caps: &Caps, name: &CStr) -> bool {
    offered(caps).any(|(offered, _)| offered == name)
}

/// What a list of extensions says of one.
pub(crate) fn describe((name, version): (&CStr, u32)) -> vk::ExtensionProperties {
    let name = name.to_str().unwrap_or_default();
    vk::ExtensionProperties { extension_name: text(name), spec_version: version }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical_device::caps::tests::{caps, poor_caps};

    #[test]
    fn each_extension_is_there_once_and_only_with_its_feature() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(offered(&caps()).count(), ALL.len());
        let poor = poor_caps();
        assert!(has(&poor, khr::timeline_semaphore::NAME));
        assert!(!has(&poor, khr::buffer_device_address::NAME));
        assert!(!has(&poor, khr::image_format_list::NAME));
        assert!(!has(&poor, khr::video_queue::NAME));
    }
}
