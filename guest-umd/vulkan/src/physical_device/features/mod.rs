// SPDX-License-Identifier: MIT OR Apache-2.0

//! Features: which of the host's a guest has.

mod structures;

use super::chain::HEAD;
use ash::vk;
use bellhop_protocol::vulkan::CommandCaps;
use std::mem::offset_of;
use structures::range;
use zerocopy::IntoBytes;

/// Number of features, with gaps.
const COUNT: usize = FAULT + 2;
/// Where the features of each structure begin.
const SINCE_1_1: usize = 55;
const SINCE_1_2: usize = SINCE_1_1 + 12;
const SINCE_1_3: usize = SINCE_1_2 + 48;
/// Those of `VK_EXT_device_fault`.
const FAULT: usize = SINCE_1_3 + 16;

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

use index;

macro_rules! indices {
    ($($structure:ident { $($field:ident)* })*) => { [$($(index!($structure $field)),*),*] };
}

/// Pointers in shaders, which the worker must be able to follow.
pub const BUFFER_DEVICE_ADDRESS: usize = index!(since_1_2 buffer_device_address);
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
pub(super) const SUBGROUP_SIZE_CONTROL: usize = index!(since_1_3 subgroup_size_control);

const SHADER_FLOAT_16: usize = index!(since_1_2 shader_float16);

/// What a guest has if the host has it. There is nothing of images, graphics or sparse memory.
const PASSED: [usize; 46] = indices! {
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

/// What the driver does itself, whatever the host has.
const OWN: [usize; 8] = indices! {
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

impl Features {
    /// What a guest has on a host that can do this. `pointers`: whether shaders may use GPU virtual addresses.
    #[must_use]
    pub fn offered(host: &CommandCaps, pointers: bool) -> Self {
        let parts: [(usize, &[u32]); 4] = [
            (0, &host.features),
            (SINCE_1_1, &host.features_1_1),
            (SINCE_1_2, &host.features_1_2),
            (SINCE_1_3, &host.features_1_3),
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
        for index in OWN {
            offered.set(index, true);
        }
        offered.set(FAULT, true);
        if host.device_type == vk::PhysicalDeviceType::CPU.as_raw() as u32 {
            // Programs prefer half precision where there is some, and processors compute slower with it.
            offered.set(SHADER_FLOAT_16, false);
        }
        offered.set(BUFFER_DEVICE_ADDRESS, pointers && all.has(BUFFER_DEVICE_ADDRESS));
        offered
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

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn host(everything: bool) -> CommandCaps {
        let mut host = CommandCaps::new_zeroed();
        if everything {
            host.features.fill(1);
            host.features_1_1.fill(1);
            host.features_1_2.fill(1);
            host.features_1_3.fill(1);
        }
        host
    }

    fn words(features: &Features, kind: vk::StructureType) -> Vec<u32> {
        let bytes = features.fields(kind).unwrap();
        bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn of_a_host_with_everything_a_guest_has_what_needs_no_images() {
        let offered = Features::offered(&host(true), true);
        assert!(PASSED.iter().all(|index| offered.has(*index)));
        for absent in [
            index!(core geometry_shader),
            index!(core sparse_binding),
            index!(core shader_storage_image_read_without_format),
            index!(since_1_1 protected_memory),
            index!(since_1_1 multiview),
            index!(since_1_2 descriptor_indexing),
            index!(since_1_2 buffer_device_address_capture_replay),
            index!(since_1_3 dynamic_rendering),
        ] {
            assert!(!offered.has(absent), "{absent}");
        }
        assert_eq!(offered.0.iter().sum::<u32>() as usize, PASSED.len() + 1);
        assert!(!Features::offered(&host(true), false).has(BUFFER_DEVICE_ADDRESS));
        let processor = CommandCaps { device_type: 4, ..host(true) };
        assert!(!Features::offered(&processor, true).has(SHADER_FLOAT_16));
    }

    #[test]
    fn of_a_host_with_nothing_a_guest_has_what_the_driver_does() {
        let offered = Features::offered(&host(false), true);
        assert_eq!(offered.0.iter().sum::<u32>() as usize, OWN.len() + 1);
        assert!(offered.has(index!(since_1_3 synchronization2)));
    }

    #[test]
    fn structures_of_extensions_say_the_same_as_those_of_versions() {
        use vk::StructureType as Kind;
        let offered = Features::offered(&host(true), true);
        let says = |kind| words(&offered, kind);
        assert_eq!(says(Kind::PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES), [1, 1, 1, 0]);
        assert_eq!(says(Kind::PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES), [1; 3]);
        assert_eq!(says(Kind::PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES), [1, 0, 0]);
        assert_eq!(says(Kind::PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES), [1; 3]);
        assert_eq!(says(Kind::PHYSICAL_DEVICE_FAULT_FEATURES_EXT), [1, 0]);
        let indexing = says(Kind::PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES);
        let size = size_of::<vk::PhysicalDeviceDescriptorIndexingFeatures<'_>>() - HEAD;
        assert_eq!((indexing.len() * 4, indexing.last()), (size, Some(&1)));
        assert_eq!(offered.fields(Kind::PHYSICAL_DEVICE_PROPERTIES_2), None);
    }

    #[test]
    fn what_is_not_there_cannot_be_enabled() {
        use vk::StructureType as Kind;
        let offered = Features::offered(&host(true), true);
        let kind = Kind::PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
        assert!(offered.have_all(kind, &[1, 1, 0, 0]));
        assert!(!offered.have_all(kind, &[1, 0, 0, 1]));
        assert!(offered.have_all(Kind::DEVICE_CREATE_INFO, &[1]), "no structure of features");
    }
}
