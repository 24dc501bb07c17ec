// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Images and their memory.

use super::form::Form;
use super::{Gpu, Outcome};
use ash::vk;

/// An image.
#[derive(Clone, Copy)]
pub(crate) struct Image {
    pub(super) raw: vk::Image,
    pub(crate) form: Form,
}

impl Image {
    /// How memory of its own for it is asked for.
    pub(crate) fn dedicated(&self) -> vk::MemoryDedicatedAllocateInfo<'static> {
        vk::MemoryDedicatedAllocateInfo::default().image(self.raw)
    }
}

impl Gpu<'_> {
    /// An image with memory of its own, if the device has such images.
    pub(crate) fn image(&self, form: Form) -> Outcome<Image> {
        let (image, needs) = self.bare_image(form)?;
        self.bind_alone(image, needs, vk::MemoryPropertyFlags::empty())?;
        Ok(image)
    }

    /// Memory that is like this, for an image alone.
    pub(crate) fn bind_alone(
        &self,
        image: Image,
        needs: vk::MemoryRequirements,
        like: vk::MemoryPropertyFlags,
    ) -> Outcome<vk::DeviceMemory> {
        let index = self.memory_type(needs.memory_type_bits, like)?;
        let memory = self.allocate(needs.size, index)?;
        self.bind_image(image, memory, 0)?;
        Ok(memory)
    }

    /// An image without memory, if the device has such images, and what it needs.
    pub(crate) fn bare_image(&self, form: Form) -> Outcome<(Image, vk::MemoryRequirements)> {
        self.lab.offers(form)?;
        let image = self.image_as(form, form.information())?;
        Ok((image, self.image_needs(image)))
    }

    /// An image that Vulkan is told of in these words.
    pub(crate) fn image_as(
        &self,
        form: Form,
        information: vk::ImageCreateInfo<'_>,
    ) -> Outcome<Image> {
        // SAFETY: the device is open, and has such images. The structure lives until the call returns.
        let raw = unsafe { self.raw.create_image(&information, None) }?;
        // SAFETY: nothing executes when this is called, and nobody else destroys it.
        self.later(move |device| unsafe { device.destroy_image(raw, None) });
        Ok(Image { raw, form })
    }

    /// What an image needs of memory.
    pub(crate) fn image_needs(&self, image: Image) -> vk::MemoryRequirements {
        // SAFETY: the image is the device's.
        unsafe { self.raw.get_image_memory_requirements(image.raw) }
    }

    /// The same, as Vulkan 1.1 says it, and whether memory of its own is wanted.
    pub(crate) fn image_needs_2(
        &self,
        image: Image,
        dedicated: &mut vk::MemoryDedicatedRequirements<'_>,
    ) -> vk::MemoryRequirements {
        let information = vk::ImageMemoryRequirementsInfo2::default().image(image.raw);
        let mut needs = vk::MemoryRequirements2::default().push_next(dedicated);
        // SAFETY: the image is the device's. The structures live until the call returns.
        unsafe { self.raw.get_image_memory_requirements2(&information, &mut needs) };
        needs.memory_requirements
    }

    /// What such an image would need of memory.
    pub(crate) fn needs_of(&self, form: Form) -> Outcome<vk::MemoryRequirements> {
        self.lab.offers(form)?;
        let information = form.information();
        let information = vk::DeviceImageMemoryRequirements::default().create_info(&information);
        let mut needs = vk::MemoryRequirements2::default();
        // SAFETY: the device is open. The structures live until the call returns.
        unsafe { self.raw.get_device_image_memory_requirements(&information, &mut needs) };
        Ok(needs.memory_requirements)
    }

    /// Binds memory to an image that has none, from an offset on.
    pub(crate) fn bind_image(
        &self,
        image: Image,
        memory: vk::DeviceMemory,
        offset: u64,
    ) -> Outcome {
        // SAFETY: the caller names an image and a memory of the device's, and the image has none yet.
        Ok(unsafe { self.raw.bind_image_memory(image.raw, memory, offset) }?)
    }

    /// Binds memory to several images at once, each from an offset on.
    pub(crate) fn bind_images(&self, all: &[(Image, vk::DeviceMemory, u64)]) -> Outcome {
        let all: Vec<_> = all
            .iter()
            .map(|(image, memory, offset)| {
                let bind = vk::BindImageMemoryInfo::default().image(image.raw);
                bind.memory(*memory).memory_offset(*offset)
            })
            .collect();
        // SAFETY: as `bind_image`, of each.
        Ok(unsafe { self.raw.bind_image_memory2(&all) }?)
    }

    /// Memory for an image and nothing else.
    pub(crate) fn allocate_for(
        &self,
        image: Image,
        needs: vk::MemoryRequirements,
    ) -> Outcome<vk::DeviceMemory> {
        let index = self.memory_type(needs.memory_type_bits, vk::MemoryPropertyFlags::empty())?;
        let mut dedicated = image.dedicated();
        let information = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(index)
            .push_next(&mut dedicated);
        // SAFETY: the device is open. The structures live until the call returns.
        let memory = unsafe { self.raw.allocate_memory(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.free_memory(memory, None) });
        Ok(memory)
    }

    /// Where a subresource of a linear image is in its memory.
    pub(crate) fn place(&self, image: Image, level: u32, layer: u32) -> vk::SubresourceLayout {
        let which = vk::ImageSubresource::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .mip_level(level)
            .array_layer(layer);
        // SAFETY: the image is the device's, linear, and has the subresource.
        unsafe { self.raw.get_image_subresource_layout(image.raw, which) }
    }

    /// Makes an image without memory, and destroys it at once; then destroys none.
    pub(crate) fn make_and_destroy(&self, form: Form) -> Outcome {
        self.lab.offers(form)?;
        // SAFETY: the device is open, and has such images. The structure lives until the call returns.
        let raw = unsafe { self.raw.create_image(&form.information(), None) }?;
        for raw in [raw, vk::Image::null()] {
            // SAFETY: the image was made just now, and nobody has it. None may be destroyed too.
            unsafe { self.raw.destroy_image(raw, None) };
        }
        Ok(())
    }
}
