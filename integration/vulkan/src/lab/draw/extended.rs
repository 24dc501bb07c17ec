// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Extensions of devices that draw, and their features.

use crate::lab::{Lab, Outcome};
use ash::vk::{self, PhysicalDeviceFeatures2};
use ash::{Device, Instance, ext};
use std::ffi::CStr;

/// Declares extensions, by their modules, with the structures of their features.
macro_rules! extensions {
    ($($name:ident $structure:ident;)*) => {
        /// The features of extensions. They are off where there is no such extension.
        #[derive(Default)]
        pub(crate) struct Extended {
            names: Vec<&'static CStr>,
            $(pub(crate) $name: vk::$structure<'static>,)*
        }

        impl Extended {
            /// Chains the structures of those that there are.
            pub(in crate::lab) fn chain<'a>(
                &'a mut self,
                mut features: PhysicalDeviceFeatures2<'a>,
            ) -> PhysicalDeviceFeatures2<'a> {
                $(
                    self.$name.p_next = std::ptr::null_mut();
                    if self.names.contains(&ext::$name::NAME) {
                        let own: *mut vk::$structure<'a> = (&raw mut self.$name).cast();
                        // SAFETY: the structure has no pointer but the chain's, whose lifetime is the borrow's.
                        features = features.push_next(unsafe { &mut *own });
                    }
                )*
                features
            }
        }

        /// Their names.
        const NAMES: &[&CStr] = &[$(ext::$name::NAME,)* ext::shader_stencil_export::NAME];
    };
}

extensions! {
    transform_feedback PhysicalDeviceTransformFeedbackFeaturesEXT;
    index_type_uint8 PhysicalDeviceIndexTypeUint8FeaturesEXT;
    depth_clip_enable PhysicalDeviceDepthClipEnableFeaturesEXT;
    depth_clip_control PhysicalDeviceDepthClipControlFeaturesEXT;
    provoking_vertex PhysicalDeviceProvokingVertexFeaturesEXT;
    line_rasterization PhysicalDeviceLineRasterizationFeaturesEXT;
    custom_border_color PhysicalDeviceCustomBorderColorFeaturesEXT;
    border_color_swizzle PhysicalDeviceBorderColorSwizzleFeaturesEXT;
    conditional_rendering PhysicalDeviceConditionalRenderingFeaturesEXT;
    vertex_attribute_divisor PhysicalDeviceVertexAttributeDivisorFeaturesEXT;
    primitive_topology_list_restart PhysicalDevicePrimitiveTopologyListRestartFeaturesEXT;
    primitives_generated_query PhysicalDevicePrimitivesGeneratedQueryFeaturesEXT;
    non_seamless_cube_map PhysicalDeviceNonSeamlessCubeMapFeaturesEXT;
    robustness2 PhysicalDeviceRobustness2FeaturesEXT;
}

impl Extended {
    /// The names of those that there are.
    pub(in crate::lab) fn names(&self) -> &[&'static CStr] {
        &self.names
    }

    /// Whether there is one.
    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.names.contains(&name)
    }

    /// What buffers are used for with them.
    pub(in crate::lab) fn usage(&self) -> vk::BufferUsageFlags {
        let mut usage = vk::BufferUsageFlags::empty();
        if self.has(ext::transform_feedback::NAME) {
            usage |= vk::BufferUsageFlags::TRANSFORM_FEEDBACK_BUFFER_EXT
                | vk::BufferUsageFlags::TRANSFORM_FEEDBACK_COUNTER_BUFFER_EXT;
        }
        if self.has(ext::conditional_rendering::NAME) {
            usage |= vk::BufferUsageFlags::CONDITIONAL_RENDERING_EXT;
        }
        usage
    }
}

impl Lab {
    /// The device's extensions, with all of their features.
    pub(crate) fn extended(&self) -> Outcome<Extended> {
        let mut all = Extended::default();
        for name in NAMES {
            if self.has(name)? {
                all.names.push(name);
            }
        }
        let mut features = all.chain(PhysicalDeviceFeatures2::default());
        // SAFETY: the device is this instance's. The structures are of extensions that it has, and live until the call returns.
        unsafe { self.instance.get_physical_device_features2(self.physical, &mut features) };
        Ok(all)
    }
}

/// The functions of extensions. Those of one that a device does not have are not called.
pub(in crate::lab) struct Functions {
    pub(in crate::lab) transform: ext::transform_feedback::Device,
    pub(in crate::lab) conditional: ext::conditional_rendering::Device,
    pub(in crate::lab) lines: ext::line_rasterization::Device,
}

impl Functions {
    pub(in crate::lab) fn new(instance: &Instance, device: &Device) -> Self {
        Self {
            transform: ext::transform_feedback::Device::new(instance, device),
            conditional: ext::conditional_rendering::Device::new(instance, device),
            lines: ext::line_rasterization::Device::new(instance, device),
        }
    }
}
