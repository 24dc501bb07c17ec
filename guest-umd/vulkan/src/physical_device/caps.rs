// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a physical device can do: what its host can, as far as commands carry it.

use super::features::{self, Features};
use super::format_table::Formats;
use super::limits::Limits;
use super::properties::{Properties, VERSION, cache_id};
use ash::vk;
use bellhop_protocol::config::VIRTIO_DEVICE_ID;
use bellhop_protocol::control::kernel::unpadded;
use bellhop_protocol::vulkan::{CAPS_VERSION, CommandCaps};

/// The newest version of Vulkan that the driver knows.
pub const NEWEST: u32 = vk::HEADER_VERSION_COMPLETE;
/// The oldest version of Vulkan that a host must have.
const OLDEST: u32 = vk::API_VERSION_1_2;

/// The device's vendor and its number, as PCI has them in a VM: those of virtio devices.
const VENDOR: u32 = 0x1AF4;
const DEVICE: u32 = 0x1040 + VIRTIO_DEVICE_ID;

/// The driver's version, as Vulkan packs versions.
#[must_use]
pub fn driver_version() -> u32 {
    let mut numbers = VERSION.split('.').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    vk::make_api_version(0, next(), next(), next())
}

/// What a physical device can do.
#[derive(Debug, Clone)]
pub struct Caps {
    /// The version of Vulkan.
    pub api_version: u32,
    /// The name of the host's device.
    pub host: String,
    /// The driver of the host's device, with its version.
    pub host_driver: String,
    /// Bits of a timestamp that mean something, 0 if there are none.
    pub timestamp_bits: u32,
    /// The features.
    pub features: Features,
    /// The limits.
    pub limits: Limits,
    /// The other properties.
    pub properties: Properties,
    /// What formats are good for.
    pub formats: Formats,
}

impl Caps {
    /// What a guest has on a host that can do this. `pointers`: whether shaders may use GPU virtual addresses; `driver`: the
    /// driver of the host's device, with its version; `gpu`: the ordinal in the chain.
    ///
    /// # Errors
    /// What a host lacks that serves no guests.
    pub fn new(host: &CommandCaps, pointers: bool, driver: &str, gpu: u8) -> Result<Self, String> {
        if host.version != CAPS_VERSION {
            return Err(format!(
                "the device describes its Vulkan in version {}, this driver knows {CAPS_VERSION}; update the older of the two",
                host.version
            ));
        }
        if host.api_version < OLDEST {
            let (major, minor) =
                (vk::api_version_major(host.api_version), vk::api_version_minor(host.api_version));
            return Err(format!(
                "the host's Vulkan is version {major}.{minor}, and guests need 1.2; update its driver"
            ));
        }
        let name = unpadded(&host.name).to_owned();
        let limits = Limits::offered(host);
        Ok(Self {
            api_version: host.api_version.min(NEWEST),
            timestamp_bits: host.timestamp_bits.min(64),
            features: Features::offered(host, pointers),
            properties: Properties::offered(host, &limits, &format!("{name}, {driver}"), gpu),
            limits,
            formats: Formats::offered(host),
            host: name,
            host_driver: driver.to_owned(),
        })
    }

    /// Whether there are images, samplers and buffers of texels.
    #[must_use]
    pub fn have_images(&self) -> bool {
        self.features.has(features::IMAGES)
    }

    /// Whether there are graphics.
    #[must_use]
    pub fn have_graphics(&self) -> bool {
        self.features.has(features::GRAPHICS)
    }

    /// The device's vendor, its number, and what pipeline caches have in common that were made for it.
    #[must_use]
    pub fn pipeline_cache_identity(&self) -> (u32, u32, [u8; vk::UUID_SIZE]) {
        (VENDOR, DEVICE, cache_id(&format!("{}, {}", self.host, self.host_driver)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bellhop_protocol::control::kernel::padded;
    use zerocopy::FromZeros;

    fn host(everything: bool) -> CommandCaps {
        let mut host = CommandCaps::new_zeroed();
        host.version = CAPS_VERSION;
        host.api_version = vk::make_api_version(0, 1, 4, 305);
        host.name = padded("llvmpipe");
        host.timestamp_bits = 64;
        if everything {
            host.features.fill(1);
            host.features_1_1.fill(1);
            host.features_1_2.fill(1);
            host.features_1_3.fill(1);
            host.extension_features = zerocopy::transmute!([1u32; 32]);
            host.formats.fill([u32::MAX; 3]);
            host.queue_flags = vk::QueueFlags::GRAPHICS.as_raw();
        }
        host
    }

    /// Of a host that can do everything.
    pub(crate) fn caps() -> Caps {
        Caps::new(&host(true), true, "Mesa", 0).unwrap()
    }

    /// Of a host that can do nothing but run kernels on buffers.
    pub(crate) fn poor_caps() -> Caps {
        Caps::new(&host(false), false, "Mesa", 0).unwrap()
    }

    #[test]
    fn there_are_images_if_a_format_has_a_feature() {
        assert!(caps().have_images() && !poor_caps().have_images());
        assert!(caps().have_graphics() && !poor_caps().have_graphics());
    }

    #[test]
    fn the_version_is_one_that_both_know() {
        assert_eq!(caps().api_version, NEWEST);
        let host = CommandCaps { api_version: vk::API_VERSION_1_2, ..host(true) };
        assert_eq!(Caps::new(&host, true, "", 0).unwrap().api_version, vk::API_VERSION_1_2);
        let host = CommandCaps { api_version: vk::API_VERSION_1_1, ..host };
        assert!(Caps::new(&host, true, "", 0).unwrap_err().contains("version 1.1"));
        let host = CommandCaps { version: 0, ..host };
        assert!(Caps::new(&host, true, "", 0).unwrap_err().contains("update"));
    }
}
