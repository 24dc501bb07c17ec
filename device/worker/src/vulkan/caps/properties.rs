// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Properties of extensions.

use super::chained::Chained;
use crate::vulkan::PhysicalDevice;
use ash::{ext, vk};
use bellhop_protocol::vulkan::ExtensionProperties;
use zerocopy::FromZeros;

/// Bytes of the properties of Vulkan 1.0.
const PROPERTIES: usize = size_of::<vk::PhysicalDeviceProperties>();

impl PhysicalDevice<'_> {
    /// Returns the properties of the extensions that the device has.
    pub(in crate::vulkan) fn extension_properties(&self) -> ExtensionProperties {
        use vk::StructureType as Kind;
        let mut properties =
            Chained::<PROPERTIES>::new(vk::StructureType::PHYSICAL_DEVICE_PROPERTIES_2);
        let mut all = ExtensionProperties::new_zeroed();
        /// Has structures asked for that are of extensions that the device has, and fills fields from them.
        macro_rules! ask {
            ($($name:ident $kind:ident;)*) => {
                $(let mut $name = Chained::<{ size_of_field(|of| &of.$name) }>::new(Kind::$kind);
                if self.has_extension(ext::$name::NAME) {
                    properties.chain(&mut $name);
                })*
                // SAFETY: the handle belongs to this instance. Each structure has the layout, the kind and the size of Vulkan's, is
                // of an extension that the device has, and lives until the call has returned.
                unsafe {
                    let ask = self.instance.raw.fp_v1_1().get_physical_device_properties2;
                    ask(self.handle, (&raw mut properties).cast());
                }
                $($name.fill(&mut all.$name);)*
            };
        }
        ask! {
            transform_feedback PHYSICAL_DEVICE_TRANSFORM_FEEDBACK_PROPERTIES_EXT;
            provoking_vertex PHYSICAL_DEVICE_PROVOKING_VERTEX_PROPERTIES_EXT;
            line_rasterization PHYSICAL_DEVICE_LINE_RASTERIZATION_PROPERTIES_EXT;
            custom_border_color PHYSICAL_DEVICE_CUSTOM_BORDER_COLOR_PROPERTIES_EXT;
            vertex_attribute_divisor PHYSICAL_DEVICE_VERTEX_ATTRIBUTE_DIVISOR_PROPERTIES_EXT;
            robustness2 PHYSICAL_DEVICE_ROBUSTNESS_2_PROPERTIES_EXT;
        }
        all
    }
}

/// Bytes of a structure's field. Structures of Vulkan's are a multiple of 8 bytes.
const fn size_of_field<T>(_: fn(&ExtensionProperties) -> &T) -> usize {
    size_of::<T>().next_multiple_of(8)
}
