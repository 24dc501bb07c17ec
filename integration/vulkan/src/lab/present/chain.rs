// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Surfaces that nobody sees, and swap chains.

use super::loaded::{Presents, Surfaces};
use crate::lab::{Failure, Form, Gpu, Image, Lab, Outcome, Queue};
use ash::vk;

/// The side of images of swap chains.
pub(crate) const SIDE: u32 = 24;

/// What images are used for that are copied.
pub(super) const COPIED: vk::ImageUsageFlags = vk::ImageUsageFlags::from_raw(
    vk::ImageUsageFlags::TRANSFER_SRC.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw(),
);

/// A swap chain, and its images.
pub(crate) struct Chain<'g> {
    pub(super) gpu: &'g Gpu<'g>,
    pub(super) presents: &'g Presents,
    pub(crate) surface: vk::SurfaceKHR,
    pub(crate) raw: vk::SwapchainKHR,
    pub(crate) images: Vec<Image>,
}

impl Lab {
    pub(super) fn surfaces(&self) -> Outcome<&Surfaces> {
        self.surfaces.as_ref().ok_or_else(|| Failure::not_offered("no surfaces"))
    }

    /// What swap chains of a surface may be.
    pub(crate) fn capabilities(
        &self,
        surface: vk::SurfaceKHR,
    ) -> Outcome<vk::SurfaceCapabilitiesKHR> {
        let asked = &self.surfaces()?.asked;
        // SAFETY: device and surface are this instance's.
        Ok(unsafe { asked.get_physical_device_surface_capabilities(self.physical, surface) }?)
    }

    /// The formats of a surface.
    pub(crate) fn formats(&self, surface: vk::SurfaceKHR) -> Outcome<Vec<vk::SurfaceFormatKHR>> {
        let asked = &self.surfaces()?.asked;
        // SAFETY: as above.
        Ok(unsafe { asked.get_physical_device_surface_formats(self.physical, surface) }?)
    }

    /// The modes of a surface.
    pub(crate) fn modes(&self, surface: vk::SurfaceKHR) -> Outcome<Vec<vk::PresentModeKHR>> {
        let asked = &self.surfaces()?.asked;
        // SAFETY: as above.
        Ok(unsafe { asked.get_physical_device_surface_present_modes(self.physical, surface) }?)
    }

    /// Whether a family's queues present to a surface.
    pub(crate) fn presents(&self, family: u32, surface: vk::SurfaceKHR) -> Outcome<bool> {
        let asked = &self.surfaces()?.asked;
        // SAFETY: as above.
        Ok(unsafe { asked.get_physical_device_surface_support(self.physical, family, surface) }?)
    }
}

impl Gpu<'_> {
    pub(super) fn can_present(&self) -> Outcome<&Presents> {
        self.presents.as_ref().ok_or_else(|| Failure::not_offered("no swap chains"))
    }

    /// A surface that nobody sees.
    pub(crate) fn surface(&self) -> Outcome<vk::SurfaceKHR> {
        let surfaces = self.lab.surfaces()?;
        self.can_present()?;
        let information = vk::HeadlessSurfaceCreateInfoEXT::default();
        // SAFETY: the instance has the extension.
        let raw = unsafe { surfaces.headless.create_headless_surface(&information, None) }?;
        self.destroy_later(raw)?;
        Ok(raw)
    }

    /// Has a surface destroyed with the device.
    pub(super) fn destroy_later(&self, surface: vk::SurfaceKHR) -> Outcome {
        let asked = self.lab.surfaces()?.asked.clone();
        // SAFETY: what was made of it is destroyed before it: that came later.
        self.later(move |_| unsafe { asked.destroy_surface(surface, None) });
        Ok(())
    }

    /// Presents an image of each chain, and returns what became of each.
    pub(crate) fn present(
        &self,
        queue: Queue,
        of: &[&Chain<'_>],
        images: &[u32],
    ) -> Outcome<Vec<vk::Result>> {
        let presents = self.can_present()?;
        let chains: Vec<_> = of.iter().map(|chain| chain.raw).collect();
        let mut results = vec![vk::Result::ERROR_UNKNOWN; of.len()];
        let information = vk::PresentInfoKHR::default()
            .swapchains(&chains)
            .image_indices(images)
            .results(&mut results);
        // SAFETY: the images were acquired, and are in the layout for it. This thread alone uses the queue.
        unsafe { presents.chains.queue_present(queue.raw, &information) }?;
        Ok(results)
    }

    /// A swap chain of so many images at least, in a mode, whose images may be copied, in place of another one.
    pub(crate) fn chain(
        &self,
        surface: vk::SurfaceKHR,
        images: u32,
        mode: vk::PresentModeKHR,
        old: vk::SwapchainKHR,
    ) -> Outcome<Chain<'_>> {
        let size = vk::Extent2D { width: SIDE, height: SIDE };
        self.chain_of_size(surface, images, mode, old, size)
    }

    /// The same, with images of this size.
    pub(super) fn chain_of_size(
        &self,
        surface: vk::SurfaceKHR,
        images: u32,
        mode: vk::PresentModeKHR,
        old: vk::SwapchainKHR,
        size: vk::Extent2D,
    ) -> Outcome<Chain<'_>> {
        self.chain_with(surface, images, size, COPIED, |information| {
            information.present_mode(mode).old_swapchain(old)
        })
    }

    /// A swap chain of so many images at least, which are drawn on, and copied if that is said.
    pub(crate) fn drawn_chain(
        &self,
        surface: vk::SurfaceKHR,
        images: u32,
        is_copied: bool,
    ) -> Outcome<Chain<'_>> {
        let size = vk::Extent2D { width: SIDE, height: SIDE };
        let usage = if is_copied { COPIED } else { vk::ImageUsageFlags::empty() };
        let usage = usage | vk::ImageUsageFlags::COLOR_ATTACHMENT;
        self.chain_with(surface, images, size, usage, |information| information)
    }

    /// The same, in the mode in which none is lost, with what else a program says of it.
    pub(super) fn chain_with<'i>(
        &self,
        surface: vk::SurfaceKHR,
        images: u32,
        size: vk::Extent2D,
        usage: vk::ImageUsageFlags,
        say: impl FnOnce(vk::SwapchainCreateInfoKHR<'i>) -> vk::SwapchainCreateInfoKHR<'i>,
    ) -> Outcome<Chain<'_>> {
        let presents = self.can_present()?;
        let format = vk::Format::B8G8R8A8_UNORM;
        let form = Form::flat(format, size.width, size.height);
        let information = vk::SwapchainCreateInfoKHR::default()
            .surface(surface)
            .min_image_count(images)
            .image_format(format)
            .image_color_space(vk::ColorSpaceKHR::SRGB_NONLINEAR)
            .image_extent(size)
            .image_array_layers(1)
            .image_usage(usage)
            .pre_transform(vk::SurfaceTransformFlagsKHR::IDENTITY)
            .composite_alpha(vk::CompositeAlphaFlagsKHR::OPAQUE)
            .present_mode(vk::PresentModeKHR::FIFO)
            .clipped(true);
        let information = say(information);
        // SAFETY: the surface is there, and nobody else makes one of it. The structure lives until the call returns.
        let raw = unsafe { presents.chains.create_swapchain(&information, None) }?;
        let chains = presents.chains.clone();
        // SAFETY: nothing executes when this is called.
        self.later(move |_| unsafe { chains.destroy_swapchain(raw, None) });
        // SAFETY: it was made just now.
        let all = unsafe { presents.chains.get_swapchain_images(raw) }?;
        let form = Form { usage, ..form };
        let images = all.into_iter().map(|raw| Image { raw, form }).collect();
        Ok(Chain { gpu: self, presents, surface, raw, images })
    }
}

impl Chain<'_> {
    /// Acquires an image.
    pub(crate) fn acquire(
        &self,
        timeout: u64,
        semaphore: vk::Semaphore,
        fence: vk::Fence,
    ) -> Result<u32, vk::Result> {
        let chains = &self.presents.chains;
        // SAFETY: the objects are the device's, and unsignaled; this thread alone uses the swap chain.
        let acquired = unsafe { chains.acquire_next_image(self.raw, timeout, semaphore, fence) }?;
        Ok(acquired.0)
    }

    /// Presents an image when semaphores are signaled, with an identifier if that is not 0.
    pub(crate) fn present(
        &self,
        queue: Queue,
        image: u32,
        wait: &[vk::Semaphore],
        id: u64,
    ) -> Result<bool, vk::Result> {
        let (chains, images, ids) = ([self.raw], [image], [id]);
        let mut ids = vk::PresentIdKHR::default().present_ids(&ids);
        let mut information = vk::PresentInfoKHR::default()
            .wait_semaphores(wait)
            .swapchains(&chains)
            .image_indices(&images);
        if id != 0 {
            information = information.push_next(&mut ids);
        }
        // SAFETY: the image was acquired, and is in the layout for it. This thread alone uses the queue.
        unsafe { self.presents.chains.queue_present(queue.raw, &information) }
    }

    /// Waits until an image with this identifier was presented.
    pub(crate) fn wait_for(&self, id: u64, timeout: u64) -> Outcome<Result<(), vk::Result>> {
        let waits = self.presents.waits.as_ref();
        let waits = waits.ok_or_else(|| Failure::not_offered("no waits for what is presented"))?;
        let wait = waits.fp().wait_for_present_khr;
        // SAFETY: the swap chain is the device's.
        Ok(match unsafe { wait(waits.device(), self.raw, id, timeout) } {
            vk::Result::SUCCESS => Ok(()),
            other => Err(other),
        })
    }

    /// An image of the program's at the place of one of the chain's.
    pub(crate) fn alias(&self, index: u32) -> Outcome<Image> {
        let form = self.images.first().map(|image| image.form);
        let form = form.ok_or_else(|| Failure::seen("a swap chain without images"))?;
        let mut of = vk::ImageSwapchainCreateInfoKHR::default().swapchain(self.raw);
        let alias = self.gpu.image_as(form, form.information().push_next(&mut of))?;
        let mut place =
            vk::BindImageMemorySwapchainInfoKHR::default().swapchain(self.raw).image_index(index);
        let bind = [vk::BindImageMemoryInfo::default().image(alias.raw).push_next(&mut place)];
        // SAFETY: the image has no memory yet, and is of the swap chain's kind.
        unsafe { self.gpu.raw.bind_image_memory2(&bind) }?;
        Ok(alias)
    }
}
