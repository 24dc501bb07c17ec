// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! What a device takes of drawing.

use crate::vulkan::PhysicalDevice;
use ash::vk;

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
}

impl PhysicalDevice<'_> {
    /// Returns what the device takes of drawing. It has Vulkan 1.3.
    pub(in crate::vulkan) fn graphics(&self) -> OfGraphics {
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
        }
    }
}
