// SPDX-License-Identifier: MIT OR Apache-2.0

//! Limits: the host's, or what the commands or the driver can carry if that is less.

use super::memory::MAX_ALLOCATION;
use ash::vk;
use bellhop_protocol::vulkan::{
    CommandCaps, MAX_DESCRIPTORS, MAX_DYNAMIC_OFFSETS, MAX_PUSH_CONSTANTS, MAX_SETS,
};
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of `VkPhysicalDeviceLimits`.
pub const SIZE: usize = size_of::<vk::PhysicalDeviceLimits>();

/// Most allocations at a time. The kernel of a VM pins so many.
const MAX_ALLOCATIONS: u32 = 4096;
/// What the address of memory in the program is a multiple of.
const PAGE: u64 = 4096;

/// `VkPhysicalDeviceLimits` as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits(pub [u8; SIZE]);

/// Where a limit is.
macro_rules! at {
    ($field:ident) => {
        offset_of!(vk::PhysicalDeviceLimits, $field)
    };
}

/// From the first limit to before another.
macro_rules! until {
    ($first:ident $next:ident) => {
        at!($first)..at!($next)
    };
}

/// What concerns images, graphics and sparse memory.
const NONE: [Range<usize>; 11] = [
    until!(max_image_dimension1_d max_uniform_buffer_range),
    until!(max_sampler_allocation_count buffer_image_granularity),
    until!(sparse_address_space_size max_bound_descriptor_sets),
    until!(max_per_stage_descriptor_samplers max_per_stage_descriptor_uniform_buffers),
    until!(max_per_stage_descriptor_sampled_images max_per_stage_resources),
    until!(max_descriptor_set_samplers max_descriptor_set_uniform_buffers),
    until!(max_descriptor_set_sampled_images max_compute_shared_memory_size),
    until!(sub_pixel_precision_bits min_memory_map_alignment),
    until!(min_texel_offset timestamp_compute_and_graphics),
    until!(max_clip_distances discrete_queue_priorities),
    until!(point_size_range optimal_buffer_copy_offset_alignment),
];

impl Limits {
    /// What a guest has on a host that can do this.
    #[must_use]
    pub fn offered(host: &CommandCaps) -> Self {
        let mut limits = Self(host.limits);
        for range in NONE {
            if let Some(bytes) = limits.0.get_mut(range) {
                bytes.fill(0);
            }
        }
        for at in [at!(max_uniform_buffer_range), at!(max_storage_buffer_range)] {
            limits.lower(at, MAX_ALLOCATION as u32);
        }
        limits.lower(at!(max_push_constants_size), MAX_PUSH_CONSTANTS);
        limits.lower(at!(max_memory_allocation_count), MAX_ALLOCATIONS);
        limits.lower(at!(max_bound_descriptor_sets), MAX_SETS);
        for at in [
            at!(max_per_stage_descriptor_uniform_buffers),
            at!(max_per_stage_descriptor_storage_buffers),
            at!(max_per_stage_resources),
            at!(max_descriptor_set_uniform_buffers),
            at!(max_descriptor_set_storage_buffers),
        ] {
            limits.lower(at, MAX_DESCRIPTORS);
        }
        // Both kinds share the offsets of a dispatch.
        for at in [
            at!(max_descriptor_set_uniform_buffers_dynamic),
            at!(max_descriptor_set_storage_buffers_dynamic),
        ] {
            limits.lower(at, MAX_DYNAMIC_OFFSETS / 2);
        }
        limits.put(at!(buffer_image_granularity), 1u64);
        limits.put(at!(min_memory_map_alignment), PAGE);
        limits.put(at!(non_coherent_atom_size), 1u64);
        limits.put(at!(discrete_queue_priorities), 2u32);
        limits.put(at!(timestamp_compute_and_graphics), u32::from(host.timestamp_bits != 0));
        limits
    }

    fn put<T: IntoBytes + Immutable>(&mut self, at: usize, value: T) {
        if let Some(bytes) = self.0.get_mut(at..at + size_of::<T>()) {
            bytes.copy_from_slice(value.as_bytes());
        }
    }

    fn lower(&mut self, at: usize, most: u32) {
        self.put(at, self.get::<u32>(at).min(most));
    }

    /// A number. 0 is outside of the limits.
    fn get<T: FromBytes + Default>(&self, at: usize) -> T {
        let bytes = self.0.get(at..).unwrap_or_default();
        T::read_from_prefix(bytes).map_or_else(|_| T::default(), |(value, _)| value)
    }

    /// What the address of a buffer is a multiple of, so that each of its uses may begin there.
    #[must_use]
    pub fn buffer_alignment(&self) -> u64 {
        let of = |at| self.get::<u64>(at);
        let texels = of(at!(min_texel_buffer_offset_alignment));
        let uniform = of(at!(min_uniform_buffer_offset_alignment));
        let storage = of(at!(min_storage_buffer_offset_alignment));
        let most = texels.max(uniform).max(storage).clamp(64, PAGE);
        most.checked_next_power_of_two().unwrap_or(PAGE)
    }

    /// Most descriptors of a set, in all its kinds.
    #[must_use]
    pub fn resources(&self) -> u32 {
        self.get(at!(max_per_stage_resources))
    }

    /// The limits of kinds of descriptors that a layout may have, by kind: in a stage and in a set.
    #[must_use]
    pub fn descriptors(&self) -> [u32; 6] {
        [
            at!(max_per_stage_descriptor_uniform_buffers),
            at!(max_per_stage_descriptor_storage_buffers),
            at!(max_descriptor_set_uniform_buffers),
            at!(max_descriptor_set_uniform_buffers_dynamic),
            at!(max_descriptor_set_storage_buffers),
            at!(max_descriptor_set_storage_buffers_dynamic),
        ]
        .map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn offered(change: impl FnOnce(&mut Limits)) -> Limits {
        let mut host = CommandCaps::new_zeroed();
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
        assert_eq!(limits.descriptors(), [65536, 65536, 65536, 32, 65536, 32]);
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

    #[test]
    fn what_kernels_need_is_the_host_s_and_what_images_need_is_nothing() {
        let limits = offered(|_| {});
        for at in [
            at!(max_compute_shared_memory_size),
            at!(max_compute_work_group_count),
            at!(max_compute_work_group_invocations),
            at!(max_compute_work_group_size),
            at!(timestamp_period),
        ] {
            assert_eq!(limits.get::<u32>(at), u32::MAX, "{at}");
        }
        for at in [
            at!(max_image_dimension2_d),
            at!(max_texel_buffer_elements),
            at!(max_sampler_allocation_count),
            at!(max_per_stage_descriptor_samplers),
            at!(max_per_stage_descriptor_storage_images),
            at!(max_per_stage_descriptor_input_attachments),
            at!(max_vertex_input_bindings),
            at!(max_fragment_combined_output_resources),
            at!(max_viewports),
            at!(viewport_sub_pixel_bits),
            at!(max_framebuffer_width),
            at!(max_sample_mask_words),
            at!(max_combined_clip_and_cull_distances),
            at!(line_width_granularity),
        ] {
            assert_eq!(limits.get::<u32>(at), 0, "{at}");
        }
        assert_eq!(limits.get::<u64>(at!(sparse_address_space_size)), 0);
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
}
