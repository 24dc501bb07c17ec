// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which features are the host's.

use super::*;
use zerocopy::FromZeros;

fn host(everything: bool) -> CommandCaps {
    let mut host = CommandCaps::new_zeroed();
    if everything {
        host.features.fill(1);
        host.features_1_1.fill(1);
        host.features_1_2.fill(1);
        host.features_1_3.fill(1);
        host.extension_features = zerocopy::transmute!([1u32; 32]);
        host.formats.fill([u32::MAX; 3]);
    }
    host
}

fn drawing_host() -> CommandCaps {
    let queue_flags = vk::QueueFlags::GRAPHICS.as_raw();
    CommandCaps { queue_flags, api_version: vk::API_VERSION_1_3, ..host(true) }
}

#[test]
fn of_a_host_that_draws_a_guest_has_what_drawing_needs() {
    use vk::StructureType as Kind;
    let offered = Features::offered(&drawing_host(), true);
    assert!(OF_GRAPHICS.iter().chain(&OWN_OF_GRAPHICS).all(|index| offered.has(*index)));
    for absent in [index!(core sparse_binding), index!(since_1_1 protected_memory)] {
        assert!(!offered.has(absent), "{absent}");
    }
    let says = |kind| words(&offered, kind);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_FEATURES_EXT), [1]);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_EXTENDED_DYNAMIC_STATE_2_FEATURES_EXT), [1, 0, 0]);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_MULTIVIEW_FEATURES), [1; 3]);
    let older = CommandCaps { api_version: vk::API_VERSION_1_2, ..drawing_host() };
    assert!(!Features::offered(&older, true).has(DYNAMIC_STATE));
    let mut one = drawing_host();
    one.features_1_2[SHADER_OUTPUT_LAYER - SINCE_1_2] = 0;
    assert!(!Features::offered(&one, true).has(SHADER_OUTPUT_VIEWPORT_INDEX));
    let without = CommandCaps { formats: FromZeros::new_zeroed(), ..drawing_host() };
    assert!(!Features::offered(&without, true).has(GRAPHICS));
}

#[test]
fn extensions_are_the_host_s_but_for_conditions_that_are_inherited() {
    use vk::StructureType as Kind;
    let offered = Features::offered(&drawing_host(), true);
    let says = |kind| words(&offered, kind);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_FEATURES_EXT), [1, 1]);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_LINE_RASTERIZATION_FEATURES_EXT), [1; 6]);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT), [1, 0]);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT), [1; 3]);
    assert!(offered.has(SHADER_STENCIL_EXPORT));
    // Without graphics, descriptors may be of nothing all the same.
    let offered = Features::offered(&host(true), true);
    let says = |kind| words(&offered, kind);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT), [0, 0, 1]);
    assert_eq!(says(Kind::PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_FEATURES_EXT), [0, 0]);
    assert!(!offered.has(SHADER_STENCIL_EXPORT));
}

fn words(features: &Features, kind: vk::StructureType) -> Vec<u32> {
    let bytes = features.fields(kind).unwrap();
    bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

#[test]
fn of_a_host_with_everything_a_guest_has_what_needs_no_graphics() {
    let offered = Features::offered(&host(true), true);
    assert!(PASSED.iter().chain(&OF_IMAGES).all(|index| offered.has(*index)));
    for absent in [
        index!(core geometry_shader),
        index!(core depth_clamp),
        index!(core sparse_binding),
        index!(core shader_resource_residency),
        index!(since_1_1 protected_memory),
        index!(since_1_1 multiview),
        index!(since_1_1 sampler_ycbcr_conversion),
        index!(since_1_2 descriptor_indexing),
        index!(since_1_2 shader_input_attachment_array_dynamic_indexing),
        index!(since_1_2 buffer_device_address_capture_replay),
        index!(since_1_3 dynamic_rendering),
    ] {
        assert!(!offered.has(absent), "{absent}");
    }
    let all = PASSED.len() + OF_IMAGES.len();
    // Five that are the driver's own, and descriptors of nothing.
    assert_eq!(offered.0.iter().sum::<u32>() as usize, all + 6);
    assert!(!Features::offered(&host(true), false).has(BUFFER_DEVICE_ADDRESS));
    let processor = CommandCaps { device_type: 4, ..host(true) };
    assert!(!Features::offered(&processor, true).has(SHADER_FLOAT_16));
}

#[test]
fn of_a_host_without_images_a_guest_has_none_of_their_features() {
    let host = CommandCaps { formats: FromZeros::new_zeroed(), ..host(true) };
    let offered = Features::offered(&host, true);
    assert!(PASSED.iter().all(|index| offered.has(*index)));
    assert!(!OF_IMAGES.iter().any(|index| offered.has(*index)));
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
    assert_eq!(says(Kind::PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES), [1, 0, 1]);
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
