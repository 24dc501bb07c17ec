// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers")]

//! Groups of devices: a device may consist of several GPUs of a chain. All of them reach all memory, of which there is one instance.

use crate::physical_device::Gpu;
use ash::vk;
use std::iter;

/// Some GPUs of a device: a bit for each, by device index. A chain has no more than four.
pub(crate) type DeviceMask = u8;

/// The GPUs of a device, by device index.
pub(crate) struct Gpus {
    first: Gpu,
    others: Vec<Gpu>,
    /// Those that draw frames in turns with the first, without the program's knowing.
    alternates: Vec<Gpu>,
}

impl Gpus {
    pub(crate) const fn new(first: Gpu, others: Vec<Gpu>) -> Self {
        Self { first, others, alternates: Vec::new() }
    }

    /// One GPU for the program, whose frames it draws in turns with others.
    pub(crate) const fn in_turns(first: Gpu, alternates: Vec<Gpu>) -> Self {
        Self { first, others: Vec::new(), alternates }
    }

    /// Whether several GPUs draw frames in turns.
    pub(crate) fn alternate(&self) -> bool {
        !self.alternates.is_empty()
    }

    /// All that execute something.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Gpu> {
        iter::once(&self.first).chain(&self.others).chain(&self.alternates)
    }

    /// That of device index 0, which answers for all: they can do the same.
    pub(crate) const fn first(&self) -> &Gpu {
        &self.first
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        1 + self.others.len() as u32
    }

    /// All of them.
    pub(crate) fn mask(&self) -> DeviceMask {
        let bits = iter::successors(Some(1), |bit: &DeviceMask| bit.checked_mul(2));
        bits.take(self.count() as usize).fold(0, |mask, bit| mask | bit)
    }
}

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
