// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! What a device takes of commands.

use super::device::extensions::Extensions;
use super::{Formats, OfGraphics, PhysicalDevice};
use ash::vk;
use bellhop_protocol::vulkan::ExtensionFeatures;
use std::ops::RangeInclusive;

/// What commands are about.
const USED: vk::QueueFlags = vk::QueueFlags::from_raw(
    vk::QueueFlags::GRAPHICS.as_raw()
        | vk::QueueFlags::COMPUTE.as_raw()
        | vk::QueueFlags::TRANSFER.as_raw(),
);

/// What a device takes of the buffers of one kind of descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfBuffers {
    /// What the first byte's address is a multiple of.
    pub alignment: u64,
    /// Most bytes.
    pub longest: u64,
}

/// What a device takes of samplers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfSamplers {
    /// The most anisotropy, if there can be any.
    pub most_anisotropy: Option<f32>,
    /// The most that is added to a level.
    pub most_lod_bias: f32,
    /// Whether coordinates may be mirrored once and then clamped.
    pub mirror_once: bool,
    /// Whether they may return the least and the most of texels.
    pub reduce: bool,
    /// Whether faces of cubes may end at their edges.
    pub have_seams: bool,
    /// Whether borders may have colours of their own, and whether these may be of no format.
    pub custom_borders: [bool; 2],
    /// Whether components of borders may be named in another order.
    pub swizzle_borders: bool,
}

/// What a device takes of commands.
#[derive(Clone)]
pub struct Bounds {
    /// Most work groups, by dimension.
    pub work_groups: [u32; 3],
    /// Most bytes of push constants.
    pub push_constants: u32,
    /// Most sets of a pipeline.
    pub sets: u32,
    /// Uniform buffers.
    pub uniform: OfBuffers,
    /// Storage buffers.
    pub storage: OfBuffers,
    /// What the first byte's address of a buffer of texels is a multiple of.
    pub texel_alignment: u64,
    /// Most texels of a buffer.
    pub most_texels: u64,
    /// Samplers.
    pub samplers: OfSamplers,
    /// What can be done with texels of each format.
    pub formats: Formats,
    /// Whether there can be arrays of cubes.
    pub cube_arrays: bool,
    /// What commands can be about: drawing, computing, copies.
    pub queue_flags: vk::QueueFlags,
    /// What the device takes of drawing, if there can be any.
    pub graphics: Option<Box<OfGraphics>>,
    /// Bits of a timestamp that mean something; 0 if the device has none.
    pub timestamp_bits: u32,
    /// The sizes of subgroups that a pipeline may ask for, if it may.
    pub subgroup_sizes: Option<RangeInclusive<u32>>,
    /// Whether a descriptor may be of no buffer.
    pub null_descriptors: bool,
    /// Whether a descriptor that no invocation uses need not be written.
    pub partially_bound: bool,
}

impl PhysicalDevice<'_> {
    /// Returns what the device takes of commands. It has Vulkan 1.2.
    pub(super) fn bounds(&self) -> Bounds {
        let raw = &self.instance.raw;
        let has_1_3 = self.is_since_1_3();
        let mut properties_1_3 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default();
        let mut features_1_2 = vk::PhysicalDeviceVulkan12Features::default();
        let mut features_1_3 = vk::PhysicalDeviceVulkan13Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut features_1_2);
        if has_1_3 {
            properties = properties.push_next(&mut properties_1_3);
            features = features.push_next(&mut features_1_3);
        }
        // SAFETY: the handle belongs to this instance. The device has the versions that the chained structures need.
        unsafe {
            raw.get_physical_device_properties2(self.handle, &mut properties);
            raw.get_physical_device_features2(self.handle, &mut features);
        }
        let limits = properties.properties.limits;
        let device_type = properties.properties.device_type;
        let features_1_0 = features.features;
        let can_be_anisotropic = features_1_0.sampler_anisotropy == vk::TRUE;
        let in_compute =
            properties_1_3.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE);
        let sizes = properties_1_3.min_subgroup_size..=properties_1_3.max_subgroup_size;
        let may_ask = features_1_3.subgroup_size_control == vk::TRUE && in_compute;
        let family = self.first_for_compute();
        let formats = self.formats(device_type);
        let mut queue_flags =
            family.map_or(vk::QueueFlags::empty(), |(_, family)| family.queue_flags & USED);
        let can_draw = queue_flags.contains(vk::QueueFlags::GRAPHICS)
            && formats.are_there()
            && features_1_3.dynamic_rendering == vk::TRUE;
        let extensions = Extensions::of(self).features();
        let graphics = can_draw.then(|| Box::new(self.graphics(extensions)));
        if !can_draw {
            queue_flags &= !vk::QueueFlags::GRAPHICS;
        }
        Bounds {
            work_groups: limits.max_compute_work_group_count,
            push_constants: limits.max_push_constants_size,
            sets: limits.max_bound_descriptor_sets,
            uniform: OfBuffers {
                alignment: limits.min_uniform_buffer_offset_alignment.max(1),
                longest: limits.max_uniform_buffer_range.into(),
            },
            storage: OfBuffers {
                alignment: limits.min_storage_buffer_offset_alignment.max(1),
                longest: limits.max_storage_buffer_range.into(),
            },
            texel_alignment: limits.min_texel_buffer_offset_alignment.max(1),
            most_texels: limits.max_texel_buffer_elements.into(),
            samplers: OfSamplers {
                most_anisotropy: can_be_anisotropic.then_some(limits.max_sampler_anisotropy),
                most_lod_bias: limits.max_sampler_lod_bias,
                mirror_once: features_1_2.sampler_mirror_clamp_to_edge == vk::TRUE,
                reduce: features_1_2.sampler_filter_minmax == vk::TRUE,
                have_seams: extensions.non_seamless_cube_map == vk::TRUE,
                custom_borders: extensions.custom_border_color.map(|is_there| is_there == vk::TRUE),
                swizzle_borders: extensions.border_color_swizzle[0] == vk::TRUE,
            },
            formats,
            cube_arrays: features_1_0.image_cube_array == vk::TRUE,
            queue_flags,
            graphics,
            timestamp_bits: family.map_or(0, |(_, family)| family.timestamp_valid_bits),
            subgroup_sizes: may_ask.then_some(sizes),
            null_descriptors: has_null_descriptors(&extensions),
            partially_bound: features_1_2.descriptor_binding_partially_bound == vk::TRUE,
        }
    }
}

/// Whether a descriptor may be of nothing.
const fn has_null_descriptors(extensions: &ExtensionFeatures) -> bool {
    let [_, _, null_descriptor] = extensions.robustness2;
    null_descriptor == vk::TRUE
}
