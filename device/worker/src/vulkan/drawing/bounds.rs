// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! What a device takes of drawing.

use crate::vulkan::PhysicalDevice;
use ash::vk;
use bellhop_protocol::vulkan::{ExtensionFeatures, ExtensionProperties, MAX_TRANSFORM_BUFFERS};

/// What a device takes of storing transformed vertices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfTransform {
    /// Most streams of vertices.
    pub streams: u32,
    /// Most buffers.
    pub buffers: u32,
    /// Most bytes of a buffer.
    pub longest: u64,
    /// Most bytes from a vertex to the next, of those that are drawn again.
    pub stride: u32,
    /// Whether what is stored can be counted.
    pub counts: bool,
    /// Whether a stream other than the first may be drawn.
    pub selects_stream: bool,
    /// Whether vertices can be drawn again.
    pub draws: bool,
}

/// What a device takes of drawing, in Vulkan's words. What it has of features is enabled.
#[derive(Clone, Default)]
pub struct OfGraphics {
    /// Its features.
    pub features: vk::PhysicalDeviceFeatures,
    /// Its limits.
    pub limits: vk::PhysicalDeviceLimits,
    /// Most views of a rendering, 0 if there can be none.
    pub most_views: u32,
    /// Whether memory may say how often is drawn.
    pub has_draw_counts: bool,
    /// How several depths become one.
    pub depth_resolves: vk::ResolveModeFlags,
    /// How several stencils become one.
    pub stencil_resolves: vk::ResolveModeFlags,
    /// Whether depth and stencil may become one in different ways.
    pub resolves_apart: bool,
    /// Whether one of depth and stencil may stay several.
    pub resolves_one: bool,
    /// The stages of pipelines that may draw several views.
    pub view_stages: vk::ShaderStageFlags,
    /// The stages that may ask for a size of subgroups.
    pub subgroup_stages: vk::ShaderStageFlags,
    /// What extensions it has, by their features.
    pub extensions: ExtensionFeatures,
    /// Most that a divisor of instances may be.
    pub most_divisor: u32,
    /// Storing transformed vertices, if it can.
    pub transform: Option<OfTransform>,
}

impl PhysicalDevice<'_> {
    /// Returns what the device takes of drawing. It has Vulkan 1.3.
    pub(in crate::vulkan) fn graphics(&self, extensions: ExtensionFeatures) -> OfGraphics {
        let mut properties_1_1 = vk::PhysicalDeviceVulkan11Properties::default();
        let mut properties_1_2 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut properties_1_3 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut features_1_1 = vk::PhysicalDeviceVulkan11Features::default();
        let mut features_1_2 = vk::PhysicalDeviceVulkan12Features::default();
        let mut properties = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut properties_1_1)
            .push_next(&mut properties_1_2)
            .push_next(&mut properties_1_3);
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut features_1_1)
            .push_next(&mut features_1_2);
        let raw = &self.instance.raw;
        // SAFETY: the handle belongs to this instance. The device has the versions that the chained structures need.
        unsafe {
            raw.get_physical_device_properties2(self.handle, &mut properties);
            raw.get_physical_device_features2(self.handle, &mut features);
        }
        let (features, limits) = (features.features, properties.properties.limits);
        let of_extensions = self.extension_properties();
        let has_views = features_1_1.multiview == vk::TRUE;
        let (geometry, tessellation) = (
            vk::ShaderStageFlags::GEOMETRY,
            vk::ShaderStageFlags::TESSELLATION_CONTROL
                | vk::ShaderStageFlags::TESSELLATION_EVALUATION,
        );
        let mut view_stages = vk::ShaderStageFlags::VERTEX | vk::ShaderStageFlags::FRAGMENT;
        if features_1_1.multiview_geometry_shader == vk::TRUE {
            view_stages |= geometry;
        }
        if features_1_1.multiview_tessellation_shader == vk::TRUE {
            view_stages |= tessellation;
        }
        OfGraphics {
            features,
            limits,
            most_views: if has_views { properties_1_1.max_multiview_view_count } else { 0 },
            has_draw_counts: features_1_2.draw_indirect_count == vk::TRUE,
            depth_resolves: properties_1_2.supported_depth_resolve_modes,
            stencil_resolves: properties_1_2.supported_stencil_resolve_modes,
            resolves_apart: properties_1_2.independent_resolve == vk::TRUE,
            resolves_one: properties_1_2.independent_resolve_none == vk::TRUE,
            view_stages,
            subgroup_stages: properties_1_3.required_subgroup_size_stages,
            extensions,
            most_divisor: of_extensions.vertex_attribute_divisor,
            transform: transform(&extensions, &of_extensions),
        }
    }
}

/// What a device that can do it takes of storing transformed vertices.
fn transform(features: &ExtensionFeatures, of: &ExtensionProperties) -> Option<OfTransform> {
    let [streams, buffers, low, high, _, _, stride, counts, _, selects, draws, _] =
        of.transform_feedback;
    let is_there = features.transform_feedback[0] == vk::TRUE;
    is_there.then_some(OfTransform {
        streams: streams.min(MAX_TRANSFORM_BUFFERS),
        buffers: buffers.min(MAX_TRANSFORM_BUFFERS),
        longest: u64::from(high) << 32 | u64::from(low),
        stride,
        counts: counts == vk::TRUE,
        selects_stream: selects == vk::TRUE,
        draws: draws == vk::TRUE,
    })
}
