// SPDX-License-Identifier: MIT OR Apache-2.0

//! Features: which of the host's a guest has.

mod lists;
mod structures;
#[cfg(test)]
mod tests;

use super::chain::HEAD;
use super::format_table::{has_graphics, has_images};
use ash::vk;
use bellhop_protocol::vulkan::{CommandCaps, ExtensionFeatures};
use lists::{OF_GRAPHICS, OF_IMAGES, OWN, OWN_OF_GRAPHICS, PASSED};
use std::mem::offset_of;
use structures::range;
use zerocopy::IntoBytes;

/// Number of features, with gaps.
const COUNT: usize = EXTENDED + size_of::<ExtensionFeatures>() / size_of::<u32>();
/// Where the features of each structure begin.
const SINCE_1_1: usize = 55;
const SINCE_1_2: usize = SINCE_1_1 + 12;
const SINCE_1_3: usize = SINCE_1_2 + 48;
/// Those of `VK_EXT_device_fault`.
const FAULT: usize = SINCE_1_3 + 16;
/// That of `VK_EXT_extended_dynamic_state`, and those of `VK_EXT_extended_dynamic_state2`.
pub(super) const DYNAMIC_STATE: usize = FAULT + 2;
pub(super) const DYNAMIC_STATE_2: usize = DYNAMIC_STATE + 1;
/// Those of `VK_KHR_present_id` and `VK_KHR_present_wait`.
pub(super) const PRESENT: usize = DYNAMIC_STATE_2 + 3;
/// Whether there are images, samplers and buffers of texels: no feature of Vulkan's, but one that extensions are for.
pub const IMAGES: usize = PRESENT + 2;
/// Whether there are graphics: no feature of Vulkan's, either.
pub const GRAPHICS: usize = IMAGES + 1;

/// Those of extensions that the host must have.
const EXTENDED: usize = GRAPHICS + 1;

/// All features, each of them 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features([u32; COUNT]);

/// Index of a feature.
macro_rules! index {
    (core $field:ident) => {
        offset_of!(vk::PhysicalDeviceFeatures, $field) / size_of::<u32>()
    };
    (since_1_1 $field:ident) => {
        SINCE_1_1
            + (offset_of!(vk::PhysicalDeviceVulkan11Features<'static>, $field) - HEAD)
                / size_of::<u32>()
    };
    (since_1_2 $field:ident) => {
        SINCE_1_2
            + (offset_of!(vk::PhysicalDeviceVulkan12Features<'static>, $field) - HEAD)
                / size_of::<u32>()
    };
    (since_1_3 $field:ident) => {
        SINCE_1_3
            + (offset_of!(vk::PhysicalDeviceVulkan13Features<'static>, $field) - HEAD)
                / size_of::<u32>()
    };
}

/// Index of the first feature of an extension.
macro_rules! extended {
    ($field:ident) => {
        EXTENDED + offset_of!(ExtensionFeatures, $field) / size_of::<u32>()
    };
}

use {extended, index};

/// What extensions are for.
pub(super) const TRANSFORM_FEEDBACK: usize = extended!(transform_feedback);
pub(super) const INDEX_TYPE_UINT8: usize = extended!(index_type_uint8);
pub(super) const DEPTH_CLIP_ENABLE: usize = extended!(depth_clip_enable);
pub(super) const DEPTH_CLIP_CONTROL: usize = extended!(depth_clip_control);
pub(super) const PROVOKING_VERTEX: usize = extended!(provoking_vertex);
pub(super) const CUSTOM_BORDER_COLOR: usize = extended!(custom_border_color);
pub(super) const BORDER_COLOR_SWIZZLE: usize = extended!(border_color_swizzle);
pub(super) const CONDITIONAL_RENDERING: usize = extended!(conditional_rendering);
pub(super) const VERTEX_ATTRIBUTE_DIVISOR: usize = extended!(vertex_attribute_divisor);
pub(super) const TOPOLOGY_LIST_RESTART: usize = extended!(primitive_topology_list_restart);
pub(super) const PRIMITIVES_GENERATED_QUERY: usize = extended!(primitives_generated_query);
pub(super) const NON_SEAMLESS_CUBE_MAP: usize = extended!(non_seamless_cube_map);
pub(super) const NULL_DESCRIPTOR: usize = extended!(robustness2) + 2;
pub(super) const SHADER_STENCIL_EXPORT: usize = extended!(shader_stencil_export);
/// What the extension of lines is for: one kind of them at least.
pub(super) const LINE_RASTERIZATION: usize = extended!(line_rasterization);
/// Conditions that secondary command buffers inherit.
const INHERITED_CONDITION: usize = CONDITIONAL_RENDERING + 1;

/// Pointers in shaders, which the worker must be able to follow.
pub const BUFFER_DEVICE_ADDRESS: usize = index!(since_1_2 buffer_device_address);
const BUFFER_DEVICE_ADDRESS_MULTI_DEVICE: usize =
    index!(since_1_2 buffer_device_address_multi_device);
/// What extensions are for.
pub(super) const STORAGE_16: usize = index!(since_1_1 storage_buffer16_bit_access);
pub(super) const STORAGE_8: usize = index!(since_1_2 storage_buffer8_bit_access);
pub(super) const MAINTENANCE_4: usize = index!(since_1_3 maintenance4);
pub(super) const ATOMIC_INT64: usize = index!(since_1_2 shader_buffer_int64_atomics);
pub(super) const SHADER_INT_8: usize = index!(since_1_2 shader_int8);
pub(super) const INTEGER_DOT_PRODUCT: usize = index!(since_1_3 shader_integer_dot_product);
pub(super) const SUBGROUP_EXTENDED_TYPES: usize = index!(since_1_2 shader_subgroup_extended_types);
pub(super) const UNIFORM_BUFFER_STANDARD_LAYOUT: usize =
    index!(since_1_2 uniform_buffer_standard_layout);
pub(super) const VARIABLE_POINTERS: usize = index!(since_1_1 variable_pointers_storage_buffer);
pub(super) const VULKAN_MEMORY_MODEL: usize = index!(since_1_2 vulkan_memory_model);
pub(super) const ZERO_INITIALIZE: usize = index!(since_1_3 shader_zero_initialize_workgroup_memory);
pub(super) const SCALAR_BLOCK_LAYOUT: usize = index!(since_1_2 scalar_block_layout);
pub(super) const SAMPLER_MIRROR_CLAMP_TO_EDGE: usize =
    index!(since_1_2 sampler_mirror_clamp_to_edge);
pub(super) const SAMPLER_FILTER_MINMAX: usize = index!(since_1_2 sampler_filter_minmax);
pub(super) const ROBUST_IMAGE_ACCESS: usize = index!(since_1_3 robust_image_access);
pub(super) const SUBGROUP_SIZE_CONTROL: usize = index!(since_1_3 subgroup_size_control);
pub(super) const MULTIVIEW: usize = index!(since_1_1 multiview);
pub(super) const SHADER_DRAW_PARAMETERS: usize = index!(since_1_1 shader_draw_parameters);
pub(super) const DRAW_INDIRECT_COUNT: usize = index!(since_1_2 draw_indirect_count);
pub(super) const SHADER_OUTPUT_LAYER: usize = index!(since_1_2 shader_output_layer);
const SHADER_OUTPUT_VIEWPORT_INDEX: usize = index!(since_1_2 shader_output_viewport_index);
pub(super) const DEMOTE_TO_HELPER: usize = index!(since_1_3 shader_demote_to_helper_invocation);
pub(super) const TERMINATE_INVOCATION: usize = index!(since_1_3 shader_terminate_invocation);
/// What formats depend on.
pub(super) const READ_WITHOUT_FORMAT: usize = index!(core shader_storage_image_read_without_format);
pub(super) const WRITE_WITHOUT_FORMAT: usize =
    index!(core shader_storage_image_write_without_format);

const SHADER_FLOAT_16: usize = index!(since_1_2 shader_float16);

impl Features {
    /// What a guest has on a host that can do this. `pointers`: whether shaders may use GPU virtual addresses.
    #[must_use]
    pub fn offered(host: &CommandCaps, pointers: bool) -> Self {
        let extensions = &host.extension_features;
        let parts: [(usize, &[u32]); 5] = [
            (0, &host.features),
            (SINCE_1_1, &host.features_1_1),
            (SINCE_1_2, &host.features_1_2),
            (SINCE_1_3, &host.features_1_3),
            (EXTENDED, zerocopy::transmute_ref!(extensions)),
        ];
        let mut all = Self([0; COUNT]);
        for (start, part) in parts {
            for (feature, value) in all.0.iter_mut().skip(start).zip(part) {
                *feature = u32::from(*value != 0);
            }
        }
        let mut offered = Self([0; COUNT]);
        for index in PASSED {
            offered.set(index, all.has(index));
        }
        offered.set(NULL_DESCRIPTOR, all.has(NULL_DESCRIPTOR));
        let images = has_images(host);
        for index in OF_IMAGES {
            offered.set(index, images && all.has(index));
        }
        for index in PRESENT..=IMAGES {
            offered.set(index, images);
        }
        if images && has_graphics(host) {
            offered.add_graphics(&all, host.api_version);
        }
        for index in OWN {
            offered.set(index, true);
        }
        offered.set(FAULT, true);
        if host.device_type == vk::PhysicalDeviceType::CPU.as_raw() as u32 {
            // Programs prefer half precision where there is some, and processors compute slower with it.
            offered.set(SHADER_FLOAT_16, false);
        }
        let addresses = pointers && all.has(BUFFER_DEVICE_ADDRESS);
        offered.set(BUFFER_DEVICE_ADDRESS, addresses);
        // The GPUs of a chain have one address space.
        offered.set(BUFFER_DEVICE_ADDRESS_MULTI_DEVICE, addresses);
        offered
    }

    /// Adds what is there with graphics, of a host with these features and this version of Vulkan.
    fn add_graphics(&mut self, host: &Self, version: u32) {
        self.set(GRAPHICS, true);
        for index in OF_GRAPHICS {
            self.set(index, host.has(index));
        }
        for index in EXTENDED..COUNT {
            self.set(index, host.has(index));
        }
        self.set(INHERITED_CONDITION, false);
        // What both are for is one extension, which has no features of its own.
        let outputs = [SHADER_OUTPUT_LAYER, SHADER_OUTPUT_VIEWPORT_INDEX];
        let has_both = outputs.iter().all(|index| host.has(*index));
        for index in outputs {
            self.set(index, has_both);
        }
        for index in OWN_OF_GRAPHICS {
            self.set(index, true);
        }
        // Parts of Vulkan 1.3 that had been extensions. The two more features of the second did not become parts.
        let is_newer = version >= vk::API_VERSION_1_3;
        self.set(DYNAMIC_STATE, is_newer);
        self.set(DYNAMIC_STATE_2, is_newer);
    }

    fn set(&mut self, index: usize, value: bool) {
        if let Some(feature) = self.0.get_mut(index) {
            *feature = value.into();
        }
    }

    /// Whether a feature is there.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|feature| *feature != 0)
    }

    /// How many features a structure has; `None` of another structure.
    #[must_use]
    pub fn count(kind: vk::StructureType) -> Option<usize> {
        range(kind).map(|range| range.len())
    }

    /// The fields of a structure of features; `None` of another structure.
    #[must_use]
    pub fn fields(&self, kind: vk::StructureType) -> Option<Vec<u8>> {
        self.0.get(range(kind)?).map(|words| words.as_bytes().to_vec())
    }

    /// Whether all that a structure's fields ask for is there.
    #[must_use]
    pub fn have_all(&self, kind: vk::StructureType, asked: &[u32]) -> bool {
        let features = range(kind).and_then(|range| self.0.get(range)).unwrap_or_default();
        asked.iter().zip(features).all(|(asked, feature)| *asked == 0 || *feature != 0)
    }
}
