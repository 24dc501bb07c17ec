// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! What the host's Vulkan can do, as bytes of Vulkan's structures.

mod chained;
mod properties;

use super::Device;
use super::device::extensions::Extensions;
use ash::vk;
use bellhop_protocol::vulkan::{CAPS_VERSION, CommandCaps};
use chained::{Chained, copy};
use std::mem::offset_of;
use zerocopy::{FromBytes, FromZeros};

/// Bytes behind `sType` and `pNext`.
const fn fields<T>() -> usize {
    size_of::<T>() - HEAD
}

const HEAD: usize = offset_of!(vk::PhysicalDeviceFeatures2<'static>, features);
const PROPERTIES: usize = size_of::<vk::PhysicalDeviceProperties>();
const FEATURES: usize = fields::<vk::PhysicalDeviceFeatures2<'static>>();
const FEATURES_1_1: usize = fields::<vk::PhysicalDeviceVulkan11Features<'static>>();
const FEATURES_1_2: usize = fields::<vk::PhysicalDeviceVulkan12Features<'static>>();
const FEATURES_1_3: usize = fields::<vk::PhysicalDeviceVulkan13Features<'static>>();
const PROPERTIES_1_1: usize = fields::<vk::PhysicalDeviceVulkan11Properties<'static>>();
const PROPERTIES_1_2: usize = fields::<vk::PhysicalDeviceVulkan12Properties<'static>>();
const PROPERTIES_1_3: usize = fields::<vk::PhysicalDeviceVulkan13Properties<'static>>();
const LIMITS: usize = offset_of!(vk::PhysicalDeviceProperties, limits);
const NAME: usize = offset_of!(vk::PhysicalDeviceProperties, device_name);

// `CommandCaps` has room for each, and the structures here are Vulkan's.
const _: () = {
    assert!(
        size_of::<Chained<PROPERTIES>>() == size_of::<vk::PhysicalDeviceProperties2<'static>>()
    );
    assert!(offset_of!(Chained<FEATURES>, bytes) == HEAD);
    assert!(size_of::<vk::PhysicalDeviceLimits>() == 504);
    assert!(FEATURES >= 4 * 55 && FEATURES_1_1 == 48 && PROPERTIES_1_1 == 96);
    assert!(FEATURES_1_2 == 192 && FEATURES_1_3 == 64);
    assert!(PROPERTIES_1_2 == 720 && PROPERTIES_1_3 == 200);
    assert!(fields::<vk::PhysicalDeviceTransformFeedbackPropertiesEXT<'static>>() == 48);
};

impl Device<'_> {
    /// Returns what the device can do.
    pub fn caps(&self) -> CommandCaps {
        let mut properties =
            Chained::<PROPERTIES>::new(vk::StructureType::PHYSICAL_DEVICE_PROPERTIES_2);
        let mut features = Chained::<FEATURES>::new(vk::StructureType::PHYSICAL_DEVICE_FEATURES_2);
        let mut features_1_1 =
            Chained::<FEATURES_1_1>::new(vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
        let mut features_1_2 =
            Chained::<FEATURES_1_2>::new(vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
        let mut features_1_3 =
            Chained::<FEATURES_1_3>::new(vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
        let mut properties_1_1 = Chained::<PROPERTIES_1_1>::new(
            vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
        );
        let mut properties_1_2 = Chained::<PROPERTIES_1_2>::new(
            vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES,
        );
        let mut properties_1_3 = Chained::<PROPERTIES_1_3>::new(
            vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES,
        );
        features.chain(&mut features_1_1);
        features.chain(&mut features_1_2);
        properties.chain(&mut properties_1_1);
        properties.chain(&mut properties_1_2);
        if self.physical.is_since_1_3() {
            features.chain(&mut features_1_3);
            properties.chain(&mut properties_1_3);
        }
        let functions = self.physical.instance.raw.fp_v1_1();
        // SAFETY: the handle belongs to this instance. Each structure has the layout, the kind and the size of Vulkan's,
        // is of a version that the device has, and lives until both calls have returned.
        unsafe {
            let (ask, handle) = (functions.get_physical_device_properties2, self.physical.handle);
            ask(handle, (&raw mut properties).cast());
            (functions.get_physical_device_features2)(handle, (&raw mut features).cast());
        }
        let mut caps = CommandCaps::new_zeroed();
        let device = &properties.bytes;
        let word = |at| word(device, at);
        caps.version = CAPS_VERSION;
        caps.api_version = word(offset_of!(vk::PhysicalDeviceProperties, api_version));
        caps.device_type = word(offset_of!(vk::PhysicalDeviceProperties, device_type));
        caps.vendor = word(offset_of!(vk::PhysicalDeviceProperties, vendor_id));
        caps.device = word(offset_of!(vk::PhysicalDeviceProperties, device_id));
        caps.driver_version = word(offset_of!(vk::PhysicalDeviceProperties, driver_version));
        copy(&device[NAME..], &mut caps.name);
        copy(&device[LIMITS..], &mut caps.limits);
        caps.timestamp_bits = self.bounds.timestamp_bits;
        caps.queue_flags = self.bounds.queue_flags.as_raw();
        features.fill(&mut caps.features);
        features_1_1.fill(&mut caps.features_1_1);
        features_1_2.fill(&mut caps.features_1_2);
        features_1_3.fill(&mut caps.features_1_3);
        properties_1_1.fill(&mut caps.properties_1_1);
        properties_1_2.fill(&mut caps.properties_1_2);
        properties_1_3.fill(&mut caps.properties_1_3);
        caps.extension_features = Extensions::of(&self.physical).features();
        caps.extension_properties = self.physical.extension_properties();
        caps.formats = self.bounds.formats.all();
        caps
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::read_from_prefix(&bytes[at..]).map_or(0, |(word, _)| word)
}
