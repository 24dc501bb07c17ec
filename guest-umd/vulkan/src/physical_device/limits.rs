// SPDX-License-Identifier: MIT OR Apache-2.0

//! Limits: the host's, or what the commands or the driver can carry if that is less.

use super::format_table::{has_graphics, has_images};
use super::memory::MAX_ALLOCATION;
use ash::vk;
use bellhop_protocol::vulkan::{
    CommandCaps, MAX_COLORS, MAX_DESCRIPTORS, MAX_DYNAMIC_OFFSETS, MAX_PUSH_CONSTANTS, MAX_SETS,
    MAX_VERTEX_BINDINGS, MAX_VIEWPORTS,
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

/// What concerns sparse memory.
const SPARSE: Range<usize> = until!(sparse_address_space_size max_bound_descriptor_sets);

/// What concerns graphics.
const OF_GRAPHICS: [Range<usize>; 9] = [
    until!(max_per_stage_descriptor_input_attachments max_per_stage_resources),
    until!(max_descriptor_set_input_attachments max_compute_shared_memory_size),
    until!(sub_pixel_precision_bits sub_texel_precision_bits),
    until!(max_draw_indexed_index_value max_sampler_lod_bias),
    until!(max_viewports min_memory_map_alignment),
    until!(min_interpolation_offset sampled_image_color_sample_counts),
    until!(max_sample_mask_words timestamp_compute_and_graphics),
    until!(max_clip_distances discrete_queue_priorities),
    until!(point_size_range optimal_buffer_copy_offset_alignment),
];

/// What concerns images, samplers and buffers of texels.
const OF_IMAGES: [Range<usize>; 10] = [
    until!(max_image_dimension1_d max_uniform_buffer_range),
    until!(max_sampler_allocation_count buffer_image_granularity),
    until!(max_per_stage_descriptor_samplers max_per_stage_descriptor_uniform_buffers),
    until!(max_per_stage_descriptor_sampled_images max_per_stage_descriptor_input_attachments),
    until!(max_descriptor_set_samplers max_descriptor_set_uniform_buffers),
    until!(max_descriptor_set_sampled_images max_descriptor_set_input_attachments),
    until!(sub_texel_precision_bits max_draw_indexed_index_value),
    until!(max_sampler_lod_bias max_viewports),
    until!(min_texel_offset min_interpolation_offset),
    until!(sampled_image_color_sample_counts max_sample_mask_words),
];

/// Most descriptors of each kind that a layout may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptors {
    pub(super) samplers: u32,
    pub(super) uniform_buffers: u32,
    pub(super) storage_buffers: u32,
    pub(super) sampled_images: u32,
    pub(super) storage_images: u32,
    pub(super) input_attachments: u32,
}

impl Limits {
    /// What a guest has on a host that can do this.
    #[must_use]
    pub fn offered(host: &CommandCaps) -> Self {
        let mut limits = Self(host.limits);
        let has_images = has_images(host);
        let draws = has_images && has_graphics(host);
        let of_images = OF_IMAGES.into_iter().filter(|_| !has_images);
        let of_graphics = OF_GRAPHICS.into_iter().filter(|_| !draws);
        for range in of_images.chain(of_graphics).chain([SPARSE]) {
            if let Some(bytes) = limits.0.get_mut(range) {
                bytes.fill(0);
            }
        }
        for at in [at!(max_uniform_buffer_range), at!(max_storage_buffer_range)] {
            limits.lower(at, MAX_ALLOCATION as u32);
        }
        // The faces of a cube are layers of a flat image. Not every host says so.
        limits.lower(at!(max_image_dimension_cube), limits.get(at!(max_image_dimension2_d)));
        limits.lower(at!(max_push_constants_size), MAX_PUSH_CONSTANTS);
        limits.lower(at!(max_memory_allocation_count), MAX_ALLOCATIONS);
        limits.lower(at!(max_bound_descriptor_sets), MAX_SETS);
        for at in [
            at!(max_per_stage_descriptor_samplers),
            at!(max_per_stage_descriptor_uniform_buffers),
            at!(max_per_stage_descriptor_storage_buffers),
            at!(max_per_stage_descriptor_sampled_images),
            at!(max_per_stage_descriptor_storage_images),
            at!(max_per_stage_resources),
            at!(max_descriptor_set_samplers),
            at!(max_descriptor_set_uniform_buffers),
            at!(max_descriptor_set_storage_buffers),
            at!(max_descriptor_set_sampled_images),
            at!(max_descriptor_set_storage_images),
            at!(max_per_stage_descriptor_input_attachments),
            at!(max_descriptor_set_input_attachments),
        ] {
            limits.lower(at, MAX_DESCRIPTORS);
        }
        for (at, most) in [
            (at!(max_color_attachments), MAX_COLORS),
            (at!(max_vertex_input_bindings), MAX_VERTEX_BINDINGS),
            (at!(max_vertex_input_attributes), MAX_VERTEX_BINDINGS),
            (at!(max_viewports), MAX_VIEWPORTS),
        ] {
            limits.lower(at, most);
        }
        // Both kinds share the offsets of a dispatch.
        for at in [
            at!(max_descriptor_set_uniform_buffers_dynamic),
            at!(max_descriptor_set_storage_buffers_dynamic),
        ] {
            limits.lower(at, MAX_DYNAMIC_OFFSETS / 2);
        }
        if !has_images {
            limits.put(at!(buffer_image_granularity), 1u64);
        }
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

    /// Most texels of a side of a flat image.
    #[must_use]
    pub fn image_side(&self) -> u32 {
        self.get(at!(max_image_dimension2_d))
    }

    /// Most descriptors of a set, in all its kinds.
    #[must_use]
    pub fn resources(&self) -> u32 {
        self.get(at!(max_per_stage_resources))
    }

    /// Most descriptors of each kind in a stage.
    pub(super) fn of_stage(&self) -> Descriptors {
        Descriptors {
            samplers: self.get(at!(max_per_stage_descriptor_samplers)),
            uniform_buffers: self.get(at!(max_per_stage_descriptor_uniform_buffers)),
            storage_buffers: self.get(at!(max_per_stage_descriptor_storage_buffers)),
            sampled_images: self.get(at!(max_per_stage_descriptor_sampled_images)),
            storage_images: self.get(at!(max_per_stage_descriptor_storage_images)),
            input_attachments: self.get(at!(max_per_stage_descriptor_input_attachments)),
        }
    }

    /// Most descriptors of each kind in a set.
    pub(super) fn of_set(&self) -> Descriptors {
        Descriptors {
            samplers: self.get(at!(max_descriptor_set_samplers)),
            uniform_buffers: self.get(at!(max_descriptor_set_uniform_buffers)),
            storage_buffers: self.get(at!(max_descriptor_set_storage_buffers)),
            sampled_images: self.get(at!(max_descriptor_set_sampled_images)),
            storage_images: self.get(at!(max_descriptor_set_storage_images)),
            input_attachments: self.get(at!(max_descriptor_set_input_attachments)),
        }
    }

    /// Most uniform and most storage buffers with dynamic offsets in a set.
    pub(super) fn dynamic(&self) -> [u32; 2] {
        [
            at!(max_descriptor_set_uniform_buffers_dynamic),
            at!(max_descriptor_set_storage_buffers_dynamic),
        ]
        .map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests;
