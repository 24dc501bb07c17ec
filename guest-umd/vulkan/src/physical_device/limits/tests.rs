// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which limits are the host's.

use super::*;
use zerocopy::FromZeros;

fn offered(change: impl FnOnce(&mut Limits)) -> Limits {
    offered_with(true, change)
}

fn offered_with(images: bool, change: impl FnOnce(&mut Limits)) -> Limits {
    let mut host = CommandCaps::new_zeroed();
    host.formats[37] = [0, images.into(), 0];
    let mut limits = Limits([0xFF; SIZE]);
    change(&mut limits);
    host.limits = limits.0;
    Limits::offered(&host)
}

#[test]
fn a_guest_has_no_more_than_the_commands_carry() {
    let limits = offered(|_| {});
    let is = |at| limits.get::<u32>(at);
    assert_eq!(is(at!(max_push_constants_size)), 256);
    assert_eq!(is(at!(max_bound_descriptor_sets)), 8);
    assert_eq!(is(at!(max_storage_buffer_range)), 1 << 30);
    let most = Descriptors {
        samplers: 65536,
        uniform_buffers: 65536,
        storage_buffers: 65536,
        sampled_images: 65536,
        storage_images: 65536,
        input_attachments: 0,
    };
    assert_eq!((limits.of_stage(), limits.of_set(), limits.dynamic()), (most, most, [32; 2]));
    assert_eq!(limits.resources(), 65536);
    assert_eq!(is(at!(timestamp_compute_and_graphics)), 0);
}

#[test]
fn a_guest_has_no_more_than_the_host() {
    let limits = offered(|limits| {
        limits.put(at!(max_push_constants_size), 128u32);
        limits.put(at!(max_bound_descriptor_sets), 4u32);
    });
    assert_eq!(limits.get::<u32>(at!(max_push_constants_size)), 128);
    assert_eq!(limits.get::<u32>(at!(max_bound_descriptor_sets)), 4);
}

/// Limits that are the host's if there are images, and nothing if there are none.
const IMAGES: [usize; 12] = [
    at!(max_image_dimension2_d),
    at!(max_image_array_layers),
    at!(max_texel_buffer_elements),
    at!(max_sampler_allocation_count),
    at!(sub_texel_precision_bits),
    at!(mipmap_precision_bits),
    at!(max_sampler_lod_bias),
    at!(max_sampler_anisotropy),
    at!(min_texel_offset),
    at!(max_texel_gather_offset),
    at!(sampled_image_color_sample_counts),
    at!(storage_image_sample_counts),
];

#[test]
fn what_kernels_and_images_need_is_the_host_s_and_what_graphics_need_is_nothing() {
    let limits = offered(|_| {});
    let kernels = [
        at!(max_compute_shared_memory_size),
        at!(max_compute_work_group_count),
        at!(max_compute_work_group_invocations),
        at!(max_compute_work_group_size),
        at!(timestamp_period),
    ];
    for at in kernels.into_iter().chain(IMAGES) {
        assert_eq!(limits.get::<u32>(at), u32::MAX, "{at}");
    }
    for at in [
        at!(max_per_stage_descriptor_input_attachments),
        at!(max_descriptor_set_input_attachments),
        at!(max_vertex_input_bindings),
        at!(max_fragment_combined_output_resources),
        at!(sub_pixel_precision_bits),
        at!(max_draw_indirect_count),
        at!(max_viewports),
        at!(viewport_sub_pixel_bits),
        at!(sub_pixel_interpolation_offset_bits),
        at!(max_framebuffer_width),
        at!(max_color_attachments),
        at!(max_sample_mask_words),
        at!(max_combined_clip_and_cull_distances),
        at!(line_width_granularity),
    ] {
        assert_eq!(limits.get::<u32>(at), 0, "{at}");
    }
    assert_eq!(limits.get::<u64>(at!(sparse_address_space_size)), 0);
}

#[test]
fn a_guest_that_draws_has_the_host_s_limits_of_graphics() {
    let mut host = CommandCaps::new_zeroed();
    host.formats[37] = [0, 1, 0];
    host.queue_flags = vk::QueueFlags::GRAPHICS.as_raw();
    host.limits = [0xFF; SIZE];
    let limits = Limits::offered(&host);
    let is = |at| limits.get::<u32>(at);
    assert_eq!(is(at!(max_framebuffer_width)), u32::MAX);
    assert_eq!(is(at!(max_draw_indirect_count)), u32::MAX);
    assert_eq!((is(at!(max_color_attachments)), is(at!(max_viewports))), (8, 16));
    assert_eq!(is(at!(max_vertex_input_attributes)), 32);
    assert_eq!(limits.of_set().input_attachments, 65536);
    assert_eq!(limits.get::<u64>(at!(sparse_address_space_size)), 0);
}

#[test]
fn a_cube_is_no_larger_than_a_flat_image() {
    let cube = |flat: u32, cube: u32| {
        let limits = offered(|limits| {
            limits.put(at!(max_image_dimension2_d), flat);
            limits.put(at!(max_image_dimension_cube), cube);
        });
        limits.get::<u32>(at!(max_image_dimension_cube))
    };
    assert_eq!((cube(16384, 32768), cube(16384, 8192)), (16384, 8192));
}

#[test]
fn without_images_there_are_none_of_their_limits() {
    let limits = offered_with(false, |_| {});
    for at in IMAGES {
        assert_eq!(limits.get::<u32>(at), 0, "{at}");
    }
    let Descriptors { samplers, sampled_images, storage_images, .. } = limits.of_set();
    assert_eq!([samplers, sampled_images, storage_images], [0; 3]);
    assert_eq!(limits.get::<u64>(at!(buffer_image_granularity)), 1);
}

#[test]
fn a_buffer_may_be_used_for_anything_from_its_first_byte_on() {
    let aligned = |storage: u64| {
        let limits = offered(|limits| {
            limits.put(at!(min_texel_buffer_offset_alignment), 16u64);
            limits.put(at!(min_uniform_buffer_offset_alignment), 16u64);
            limits.put(at!(min_storage_buffer_offset_alignment), storage);
        });
        limits.buffer_alignment()
    };
    assert_eq!((aligned(4), aligned(256), aligned(u64::MAX)), (64, 256, 4096));
}
