// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Swap chains of devices that consist of several.

use super::chain::{COPIED, Chain, SIDE};
use crate::lab::{Failure, Form, Gpu, Image, Lab, Outcome, PATIENCE, Queue};
use ash::vk;

impl Lab {
    /// The parts of a surface that a device presents.
    pub(crate) fn present_rectangles(&self, surface: vk::SurfaceKHR) -> Outcome<Vec<vk::Rect2D>> {
        let chains = &self.surfaces()?.chains;
        // SAFETY: device and surface are this instance's.
        Ok(unsafe { chains.get_physical_device_present_rectangles(self.physical, surface) }?)
    }
}

impl Gpu<'_> {
    /// Which devices present whose images, and how.
    pub(crate) fn group_presents(&self) -> Outcome<vk::DeviceGroupPresentCapabilitiesKHR<'static>> {
        let mut can = vk::DeviceGroupPresentCapabilitiesKHR::default();
        // SAFETY: the device is open. The structure lives until the call returns.
        unsafe { self.can_present()?.chains.get_device_group_present_capabilities(&mut can) }?;
        Ok(can)
    }

    /// How images of a surface are presented.
    pub(crate) fn group_modes(
        &self,
        surface: vk::SurfaceKHR,
    ) -> Outcome<vk::DeviceGroupPresentModeFlagsKHR> {
        let chains = &self.can_present()?.chains;
        // SAFETY: device and surface are of one instance.
        Ok(unsafe { chains.get_device_group_surface_present_modes(surface) }?)
    }

    /// A swap chain whose images are presented in this way.
    pub(crate) fn chain_for_group(
        &self,
        surface: vk::SurfaceKHR,
        mode: vk::DeviceGroupPresentModeFlagsKHR,
    ) -> Outcome<Chain<'_>> {
        let size = vk::Extent2D { width: SIDE, height: SIDE };
        let mut group = vk::DeviceGroupSwapchainCreateInfoKHR::default().modes(mode);
        self.chain_with(surface, 3, size, COPIED, |information| information.push_next(&mut group))
    }
}

impl Chain<'_> {
    /// Acquires an image for the devices of a mask.
    pub(crate) fn acquire_for(&self, mask: u32, fence: vk::Fence) -> Outcome<u32> {
        let information = vk::AcquireNextImageInfoKHR::default()
            .swapchain(self.raw)
            .timeout(PATIENCE)
            .fence(fence)
            .device_mask(mask);
        // SAFETY: the fence is the device's, and unsignaled; this thread alone uses the swap chain.
        Ok(unsafe { self.presents.chains.acquire_next_image2(&information) }?.0)
    }

    /// Presents an image of a device in a way.
    pub(crate) fn present_for(
        &self,
        queue: Queue,
        image: u32,
        mask: u32,
        mode: vk::DeviceGroupPresentModeFlagsKHR,
    ) -> Outcome {
        let (chains, images, masks) = ([self.raw], [image], [mask]);
        let mut group = vk::DeviceGroupPresentInfoKHR::default().device_masks(&masks).mode(mode);
        let information = vk::PresentInfoKHR::default()
            .swapchains(&chains)
            .image_indices(&images)
            .push_next(&mut group);
        // SAFETY: as in `present`.
        let is_suboptimal = unsafe { self.presents.chains.queue_present(queue.raw, &information) }?;
        if is_suboptimal { Err(Failure::seen("suboptimal")) } else { Ok(()) }
    }

    /// An image at the place of one of the chain's, with whose memory is each device's.
    pub(crate) fn alias_for(&self, index: u32, devices: &[u32]) -> Outcome<Image> {
        let form: Option<Form> = self.images.first().map(|image| image.form);
        let form = form.ok_or_else(|| Failure::seen("a swap chain without images"))?;
        let mut of = vk::ImageSwapchainCreateInfoKHR::default().swapchain(self.raw);
        let alias = self.gpu.image_as(form, form.information().push_next(&mut of))?;
        let mut place =
            vk::BindImageMemorySwapchainInfoKHR::default().swapchain(self.raw).image_index(index);
        let mut group = vk::BindImageMemoryDeviceGroupInfo::default().device_indices(devices);
        let bind = [vk::BindImageMemoryInfo::default()
            .image(alias.raw)
            .push_next(&mut place)
            .push_next(&mut group)];
        // SAFETY: the image has no memory yet, and is of the swap chain's kind.
        unsafe { self.gpu.raw.bind_image_memory2(&bind) }?;
        Ok(alias)
    }
}
