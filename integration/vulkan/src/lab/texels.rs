// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Commands about images.

use super::image::Image;
use super::{Buffer, Recorder};
use ash::vk;

/// A layout in which everything may be done.
const ANY: vk::ImageLayout = vk::ImageLayout::GENERAL;
const ALL: vk::PipelineStageFlags = vk::PipelineStageFlags::ALL_COMMANDS;

/// All that memory is accessed for.
fn everything() -> vk::AccessFlags {
    vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE
}

/// How an image changes its layout, behind everything and before everything.
fn change(
    image: Image,
    range: vk::ImageSubresourceRange,
    [from, to]: [vk::ImageLayout; 2],
) -> vk::ImageMemoryBarrier<'static> {
    vk::ImageMemoryBarrier::default()
        .src_access_mask(everything())
        .dst_access_mask(everything())
        .old_layout(from)
        .new_layout(to)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(image.raw)
        .subresource_range(range)
}

// As in `recorder`: each call appends a command of the device's own objects to a command buffer that is being recorded by this
// thread, and passes structures that live until it returns.
impl Recorder<'_> {
    /// Has new images be ready for everything. What they held is gone.
    pub(crate) fn ready(&self, images: &[Image]) -> &Self {
        for image in images {
            self.change(*image, [vk::ImageLayout::UNDEFINED, ANY]);
        }
        self
    }

    /// Changes the layout of all of an image.
    pub(crate) fn change(&self, image: Image, layouts: [vk::ImageLayout; 2]) -> &Self {
        self.change_part(image, image.form.range(), layouts)
    }

    /// Changes the layout of a part of an image.
    pub(crate) fn change_part(
        &self,
        image: Image,
        range: vk::ImageSubresourceRange,
        layouts: [vk::ImageLayout; 2],
    ) -> &Self {
        self.barriers(&[change(image, range, layouts)])
    }

    fn barriers(&self, barriers: &[vk::ImageMemoryBarrier<'_>]) -> &Self {
        let flags = vk::DependencyFlags::empty();
        // SAFETY: as above.
        unsafe {
            self.gpu.raw.cmd_pipeline_barrier(self.raw, ALL, ALL, flags, &[], &[], barriers);
        }
        self
    }

    /// Gives an image to another family of queues, or takes it from there: both record the same.
    pub(crate) fn hand_over(&self, image: Image, [from, to]: [u32; 2]) -> &Self {
        let change = change(image, image.form.range(), [ANY, ANY]);
        self.barriers(&[change.src_queue_family_index(from).dst_queue_family_index(to)])
    }

    /// Gives a buffer to another family of queues, or takes it from there: both record the same.
    pub(crate) fn hand_buffer_over(&self, buffer: &Buffer<'_>, [from, to]: [u32; 2]) -> &Self {
        let barriers = [vk::BufferMemoryBarrier::default()
            .src_access_mask(everything())
            .dst_access_mask(everything())
            .src_queue_family_index(from)
            .dst_queue_family_index(to)
            .buffer(buffer.raw)
            .size(vk::WHOLE_SIZE)];
        let flags = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded, and the buffer is the device's.
        unsafe {
            self.gpu.raw.cmd_pipeline_barrier(self.raw, ALL, ALL, flags, &[], &barriers, &[]);
        }
        self
    }

    /// Changes the layout of all of an image, as Vulkan 1.3 says it.
    pub(crate) fn change_2(&self, image: Image, [from, to]: [vk::ImageLayout; 2]) -> &Self {
        let everything = vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE;
        let barriers = [vk::ImageMemoryBarrier2::default()
            .src_stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
            .src_access_mask(everything)
            .dst_stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
            .dst_access_mask(everything)
            .old_layout(from)
            .new_layout(to)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .image(image.raw)
            .subresource_range(image.form.range())];
        let dependency = vk::DependencyInfo::default().image_memory_barriers(&barriers);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_pipeline_barrier2(self.raw, &dependency) };
        self
    }

    /// Waits for an event, and changes the layout of all of an image.
    pub(crate) fn wait_and_change(
        &self,
        event: vk::Event,
        image: Image,
        layouts: [vk::ImageLayout; 2],
    ) -> &Self {
        let barriers = [change(image, image.form.range(), layouts)];
        // SAFETY: as above.
        unsafe {
            self.gpu.raw.cmd_wait_events(self.raw, &[event], ALL, ALL, &[], &[], &barriers);
        }
        self
    }

    /// Copies texels from a buffer to an image that is in `GENERAL`.
    pub(crate) fn to_image(
        &self,
        from: &Buffer<'_>,
        to: Image,
        regions: &[vk::BufferImageCopy],
    ) -> &Self {
        self.to_image_in(from, (to, ANY), regions)
    }

    /// Copies texels from a buffer to an image in a layout.
    pub(crate) fn to_image_in(
        &self,
        from: &Buffer<'_>,
        (to, layout): (Image, vk::ImageLayout),
        regions: &[vk::BufferImageCopy],
    ) -> &Self {
        let (from, to) = (from.raw, to.raw);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_copy_buffer_to_image(self.raw, from, to, layout, regions) };
        self
    }

    /// Copies texels from an image that is in `GENERAL` to a buffer.
    pub(crate) fn out_of_image(
        &self,
        from: Image,
        to: &Buffer<'_>,
        regions: &[vk::BufferImageCopy],
    ) -> &Self {
        self.out_of_image_in((from, ANY), to, regions)
    }

    /// Copies texels from an image in a layout to a buffer.
    pub(crate) fn out_of_image_in(
        &self,
        (from, layout): (Image, vk::ImageLayout),
        to: &Buffer<'_>,
        regions: &[vk::BufferImageCopy],
    ) -> &Self {
        let (from, to) = (from.raw, to.raw);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_copy_image_to_buffer(self.raw, from, layout, to, regions) };
        self
    }

    /// Copies texels between images that are in `GENERAL`.
    pub(crate) fn copy_image(&self, from: Image, to: Image, regions: &[vk::ImageCopy]) -> &Self {
        self.copy_image_in((from, ANY), (to, ANY), regions)
    }

    /// Copies texels between images in layouts.
    pub(crate) fn copy_image_in(
        &self,
        (from, of): (Image, vk::ImageLayout),
        (to, layout): (Image, vk::ImageLayout),
        regions: &[vk::ImageCopy],
    ) -> &Self {
        let (from, to) = (from.raw, to.raw);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_copy_image(self.raw, from, of, to, layout, regions) };
        self
    }

    /// Fills parts of an image that is in `GENERAL` with a colour.
    pub(crate) fn clear(
        &self,
        image: Image,
        colour: vk::ClearColorValue,
        ranges: &[vk::ImageSubresourceRange],
    ) -> &Self {
        // SAFETY: as above.
        unsafe {
            self.gpu.raw.cmd_clear_color_image(self.raw, image.raw, ANY, &colour, ranges);
        }
        self
    }

    /// As `to_image`, as Vulkan 1.3 says it.
    pub(crate) fn to_image_2(
        &self,
        from: &Buffer<'_>,
        to: Image,
        region: vk::BufferImageCopy,
    ) -> &Self {
        let regions = [newer(region)];
        let information = vk::CopyBufferToImageInfo2::default()
            .src_buffer(from.raw)
            .dst_image(to.raw)
            .dst_image_layout(ANY)
            .regions(&regions);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_copy_buffer_to_image2(self.raw, &information) };
        self
    }

    /// As `out_of_image`, as Vulkan 1.3 says it.
    pub(crate) fn out_of_image_2(
        &self,
        from: Image,
        to: &Buffer<'_>,
        region: vk::BufferImageCopy,
    ) -> &Self {
        let regions = [newer(region)];
        let information = vk::CopyImageToBufferInfo2::default()
            .src_image(from.raw)
            .src_image_layout(ANY)
            .dst_buffer(to.raw)
            .regions(&regions);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_copy_image_to_buffer2(self.raw, &information) };
        self
    }

    /// As `copy_image`, as Vulkan 1.3 says it.
    pub(crate) fn copy_image_2(&self, from: Image, to: Image, region: vk::ImageCopy) -> &Self {
        let regions = [vk::ImageCopy2::default()
            .src_subresource(region.src_subresource)
            .src_offset(region.src_offset)
            .dst_subresource(region.dst_subresource)
            .dst_offset(region.dst_offset)
            .extent(region.extent)];
        let information = vk::CopyImageInfo2::default()
            .src_image(from.raw)
            .src_image_layout(ANY)
            .dst_image(to.raw)
            .dst_image_layout(ANY)
            .regions(&regions);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_copy_image2(self.raw, &information) };
        self
    }
}

/// A region, as Vulkan 1.3 says it.
fn newer(region: vk::BufferImageCopy) -> vk::BufferImageCopy2<'static> {
    vk::BufferImageCopy2::default()
        .buffer_offset(region.buffer_offset)
        .buffer_row_length(region.buffer_row_length)
        .buffer_image_height(region.buffer_image_height)
        .image_subresource(region.image_subresource)
        .image_offset(region.image_offset)
        .image_extent(region.image_extent)
}
