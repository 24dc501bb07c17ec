// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! Groups of devices: each device is its own.

use ash::vk;

unsafe extern "system" fn peer_memory(
    _device: vk::Device,
    _heap: u32,
    _local: u32,
    _remote: u32,
    features: *mut vk::PeerMemoryFeatureFlags,
) {
    type Features = vk::PeerMemoryFeatureFlags;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        *features =
            Features::COPY_SRC | Features::COPY_DST | Features::GENERIC_SRC | Features::GENERIC_DST;
    }
}

crate::entry::entry_points! {
    vkGetDeviceGroupPeerMemoryFeatures = peer_memory,
    vkGetDeviceGroupPeerMemoryFeaturesKHR = peer_memory,
}
