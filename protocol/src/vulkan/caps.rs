// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host's Vulkan can do.

use super::{ExtensionFeatures, ExtensionProperties, FORMATS};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version of [`CommandCaps`], which is incremented when it changes.
pub const CAPS_VERSION: u32 = 4;

/// What `QUERY_CAPS` stores. Vulkan's structures are as its header lays them out on 64-bit machines; of those with
/// `sType` and `pNext`, what follows these. Booleans are 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CommandCaps {
    /// [`CAPS_VERSION`].
    pub version: u32,
    /// `VkPhysicalDeviceProperties::apiVersion`.
    pub api_version: u32,
    /// `deviceType`.
    pub device_type: u32,
    /// `vendorID`.
    pub vendor: u32,
    /// `deviceID`.
    pub device: u32,
    /// `driverVersion`.
    pub driver_version: u32,
    /// `deviceName`.
    pub name: [u8; 256],
    /// Bits of a timestamp that mean something, 0 if there are none.
    pub timestamp_bits: u32,
    /// `VkQueueFlags`: what commands can be about. Without `VK_QUEUE_GRAPHICS_BIT` nothing is drawn.
    pub queue_flags: u32,
    /// `VkPhysicalDeviceLimits`.
    pub limits: [u8; 504],
    /// `VkPhysicalDeviceFeatures`.
    pub features: [u32; 55],
    /// `VkPhysicalDeviceVulkan11Features`.
    pub features_1_1: [u32; 12],
    /// `VkPhysicalDeviceVulkan12Features`: 47 booleans.
    pub features_1_2: [u32; 48],
    /// `VkPhysicalDeviceVulkan13Features`: 15 booleans.
    pub features_1_3: [u32; 16],
    /// Zero.
    pub padding: u32,
    /// `VkPhysicalDeviceVulkan11Properties`.
    pub properties_1_1: [u8; 96],
    /// `VkPhysicalDeviceVulkan12Properties`.
    pub properties_1_2: [u8; 720],
    /// `VkPhysicalDeviceVulkan13Properties`.
    pub properties_1_3: [u8; 200],
    /// What extensions have of features.
    pub extension_features: ExtensionFeatures,
    /// What extensions have of properties.
    pub extension_properties: ExtensionProperties,
    /// `VkFormatFeatureFlags` of each format: those of linear images, of optimal images, and of buffers. All are 0 if the host
    /// makes no images of a process's memory.
    pub formats: [[u32; 3]; FORMATS],
    /// Zero.
    pub end: u32,
}
crate::assert_layout!(
    CommandCaps, 4776,
    version at 0, api_version at 4, device_type at 8, vendor at 12, device at 16, driver_version at 20, name at 24,
    timestamp_bits at 280, queue_flags at 284, limits at 288, features at 792, features_1_1 at 1012,
    features_1_2 at 1060, features_1_3 at 1252, padding at 1316, properties_1_1 at 1320, properties_1_2 at 1416,
    properties_1_3 at 2136, extension_features at 2336, extension_properties at 2464, formats at 2552, end at 4772,
);
