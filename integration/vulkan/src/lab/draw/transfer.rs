// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Commands that scale, resolve, and clear what was drawn.

use super::super::Recorder;
use super::super::image::Image;
use ash::vk;

const READ: vk::ImageLayout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;
const WRITTEN: vk::ImageLayout = vk::ImageLayout::TRANSFER_DST_OPTIMAL;

// As in `recorder`: each call appends a command of the device's own objects to a command buffer that is being recorded by this
// thread, and passes structures that live until it returns.
impl Recorder<'_> {
    /// Scales parts of an image that is read, to parts of one that is written.
    pub(crate) fn blit(
        &self,
        from: Image,
        to: Image,
        regions: &[vk::ImageBlit],
        filter: vk::Filter,
    ) -> &Self {
        let (raw, from, to) = (self.raw, from.raw, to.raw);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_blit_image(raw, from, READ, to, WRITTEN, regions, filter) };
        self
    }

    /// The same of one part, as Vulkan 1.3 says it.
    pub(crate) fn blit_2(
        &self,
        from: Image,
        to: Image,
        region: vk::ImageBlit,
        filter: vk::Filter,
    ) -> &Self {
        let regions = [vk::ImageBlit2::default()
            .src_subresource(region.src_subresource)
            .src_offsets(region.src_offsets)
            .dst_subresource(region.dst_subresource)
            .dst_offsets(region.dst_offsets)];
        let information = vk::BlitImageInfo2::default()
            .src_image(from.raw)
            .src_image_layout(READ)
            .dst_image(to.raw)
            .dst_image_layout(WRITTEN)
            .regions(&regions)
            .filter(filter);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_blit_image2(self.raw, &information) };
        self
    }

    /// Resolves parts of an image of several samples that is read, to parts of one that is written.
    pub(crate) fn resolve(&self, from: Image, to: Image, regions: &[vk::ImageResolve]) -> &Self {
        let (raw, from, to) = (self.raw, from.raw, to.raw);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_resolve_image(raw, from, READ, to, WRITTEN, regions) };
        self
    }

    /// The same of one part, as Vulkan 1.3 says it.
    pub(crate) fn resolve_2(&self, from: Image, to: Image, region: vk::ImageResolve) -> &Self {
        let regions = [vk::ImageResolve2::default()
            .src_subresource(region.src_subresource)
            .src_offset(region.src_offset)
            .dst_subresource(region.dst_subresource)
            .dst_offset(region.dst_offset)
            .extent(region.extent)];
        let information = vk::ResolveImageInfo2::default()
            .src_image(from.raw)
            .src_image_layout(READ)
            .dst_image(to.raw)
            .dst_image_layout(WRITTEN)
            .regions(&regions);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_resolve_image2(self.raw, &information) };
        self
    }

    /// Fills parts of an image of depths or stencils that is written.
    pub(crate) fn clear_depth(
        &self,
        image: Image,
        (depth, stencil): (f32, u32),
        ranges: &[vk::ImageSubresourceRange],
    ) -> &Self {
        let value = vk::ClearDepthStencilValue { depth, stencil };
        let (raw, image) = (self.raw, image.raw);
        // SAFETY: as above.
        unsafe {
            self.gpu.raw.cmd_clear_depth_stencil_image(raw, image, WRITTEN, &value, ranges);
        }
        self
    }

    /// Fills parts of what is drawn on.
    pub(crate) fn clear_targets(
        &self,
        clears: &[vk::ClearAttachment],
        areas: &[vk::ClearRect],
    ) -> &Self {
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_clear_attachments(self.raw, clears, areas) };
        self
    }

    /// Has what one draw of a subpass stored at a place be seen by the next there, where the pass allows it.
    pub(crate) fn barrier_within(&self, dependency: &vk::SubpassDependency) -> &Self {
        let memory = [vk::MemoryBarrier::default()
            .src_access_mask(dependency.src_access_mask)
            .dst_access_mask(dependency.dst_access_mask)];
        let [from, to] = [dependency.src_stage_mask, dependency.dst_stage_mask];
        let (device, flags) = (&self.gpu.raw, dependency.dependency_flags);
        // SAFETY: as above.
        unsafe { device.cmd_pipeline_barrier(self.raw, from, to, flags, &memory, &[], &[]) };
        self
    }
}
