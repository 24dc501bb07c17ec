// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Extensions that commands use where a device has them.

use crate::vulkan::PhysicalDevice;
use ash::ext;
use ash::vk::{self, FALSE, PhysicalDeviceFeatures2, TRUE};
use bellhop_protocol::vulkan::ExtensionFeatures;
use std::ffi::CStr;
use zerocopy::FromZeros;

/// Declares extensions, by their modules: the structure of their features, the features in its order, and the field of the protocol's
/// that has them.
macro_rules! extensions {
    ($($name:ident $structure:ident [$($feature:ident)*];)*) => {
        /// The features of a device's extensions, in Vulkan's structures.
        #[derive(Default)]
        pub struct Extensions {
            names: Vec<&'static CStr>,
            $($name: vk::$structure<'static>,)*
        }

        impl Extensions {
            /// Those of a device.
            pub(in crate::vulkan) fn of(physical: &PhysicalDevice<'_>) -> Self {
                let mut all = Self::default();
                $(if physical.has_extension(ext::$name::NAME) {
                    all.names.push(ext::$name::NAME);
                })*
                if physical.has_extension(ext::shader_stencil_export::NAME) {
                    all.names.push(ext::shader_stencil_export::NAME);
                }
                let mut features = all.chain(PhysicalDeviceFeatures2::default());
                let raw = &physical.instance.raw;
                // SAFETY: the handle belongs to this instance. The device has the extensions that the chained structures need.
                unsafe { raw.get_physical_device_features2(physical.handle, &mut features) };
                all
            }

            /// Chains the structures of the extensions that there are.
            pub(in crate::vulkan) fn chain<'a>(
                &'a mut self,
                mut features: PhysicalDeviceFeatures2<'a>,
            ) -> PhysicalDeviceFeatures2<'a> {
                $(
                    // What it was chained to before is gone.
                    self.$name.p_next = std::ptr::null_mut();
                    if self.names.contains(&ext::$name::NAME) {
                        let own: *mut vk::$structure<'a> = (&raw mut self.$name).cast();
                        // SAFETY: a structure of this extension has no pointer but the chain's, whose lifetime is the borrow's.
                        features = features.push_next(unsafe { &mut *own });
                    }
                )*
                features
            }

            /// The features, as the protocol has them.
            pub(in crate::vulkan) fn features(&self) -> ExtensionFeatures {
                let mut all = ExtensionFeatures::new_zeroed();
                $(Booleans([$(self.$name.$feature),*]).put(&mut all.$name);)*
                let exports = self.names.contains(&ext::shader_stencil_export::NAME);
                all.shader_stencil_export = exports.into();
                all
            }
        }
    };
}

extensions! {
    transform_feedback PhysicalDeviceTransformFeedbackFeaturesEXT [transform_feedback geometry_streams];
    index_type_uint8 PhysicalDeviceIndexTypeUint8FeaturesEXT [index_type_uint8];
    depth_clip_enable PhysicalDeviceDepthClipEnableFeaturesEXT [depth_clip_enable];
    depth_clip_control PhysicalDeviceDepthClipControlFeaturesEXT [depth_clip_control];
    provoking_vertex PhysicalDeviceProvokingVertexFeaturesEXT
        [provoking_vertex_last transform_feedback_preserves_provoking_vertex];
    line_rasterization PhysicalDeviceLineRasterizationFeaturesEXT
        [rectangular_lines bresenham_lines smooth_lines stippled_rectangular_lines stippled_bresenham_lines
        stippled_smooth_lines];
    custom_border_color PhysicalDeviceCustomBorderColorFeaturesEXT
        [custom_border_colors custom_border_color_without_format];
    border_color_swizzle PhysicalDeviceBorderColorSwizzleFeaturesEXT
        [border_color_swizzle border_color_swizzle_from_image];
    conditional_rendering PhysicalDeviceConditionalRenderingFeaturesEXT
        [conditional_rendering inherited_conditional_rendering];
    vertex_attribute_divisor PhysicalDeviceVertexAttributeDivisorFeaturesEXT
        [vertex_attribute_instance_rate_divisor vertex_attribute_instance_rate_zero_divisor];
    primitive_topology_list_restart PhysicalDevicePrimitiveTopologyListRestartFeaturesEXT
        [primitive_topology_list_restart primitive_topology_patch_list_restart];
    primitives_generated_query PhysicalDevicePrimitivesGeneratedQueryFeaturesEXT
        [primitives_generated_query primitives_generated_query_with_rasterizer_discard
        primitives_generated_query_with_non_zero_streams];
    non_seamless_cube_map PhysicalDeviceNonSeamlessCubeMapFeaturesEXT [non_seamless_cube_map];
    robustness2 PhysicalDeviceRobustness2FeaturesEXT [robust_buffer_access2 robust_image_access2 null_descriptor];
}

impl Extensions {
    /// What buffers are used for with them.
    pub(in crate::vulkan) fn usage(&self) -> vk::BufferUsageFlags {
        let mut usage = vk::BufferUsageFlags::empty();
        if self.names.contains(&ext::transform_feedback::NAME) {
            usage |= vk::BufferUsageFlags::TRANSFORM_FEEDBACK_BUFFER_EXT
                | vk::BufferUsageFlags::TRANSFORM_FEEDBACK_COUNTER_BUFFER_EXT;
        }
        if self.names.contains(&ext::conditional_rendering::NAME) {
            usage |= vk::BufferUsageFlags::CONDITIONAL_RENDERING_EXT;
        }
        usage
    }

    /// Leaves out what makes accesses slower and is for drawing alone.
    pub(in crate::vulkan) const fn leave_out_robust_access(&mut self) {
        self.robustness2.robust_buffer_access2 = FALSE;
        self.robustness2.robust_image_access2 = FALSE;
    }

    /// The names of those that there are.
    pub(in crate::vulkan) fn names(&self) -> &[&'static CStr] {
        &self.names
    }
}

/// Vulkan's booleans, which the protocol has as 0 and 1.
struct Booleans<const N: usize>([vk::Bool32; N]);

/// A field of the protocol's: one boolean, or several.
trait Field<const N: usize> {
    fn put(&mut self, booleans: [u32; N]);
}

impl Field<1> for u32 {
    fn put(&mut self, [boolean]: [u32; 1]) {
        *self = boolean;
    }
}

impl<const N: usize> Field<N> for [u32; N] {
    fn put(&mut self, booleans: [u32; N]) {
        *self = booleans;
    }
}

impl<const N: usize> Booleans<N> {
    fn put(self, field: &mut impl Field<N>) {
        field.put(self.0.map(|boolean| if boolean == FALSE { FALSE } else { TRUE }));
    }
}
