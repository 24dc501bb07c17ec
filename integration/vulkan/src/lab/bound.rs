// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Descriptors of images, samplers and texels.

use super::{Gpu, Kernel, Outcome, Recorder};
use ash::vk;

/// A descriptor of a view that is in `GENERAL`.
pub(crate) fn shown(view: vk::ImageView) -> vk::DescriptorImageInfo {
    sampled(view, vk::Sampler::null())
}

/// A descriptor of a view that is in `GENERAL`, with a sampler.
pub(crate) fn sampled(view: vk::ImageView, sampler: vk::Sampler) -> vk::DescriptorImageInfo {
    vk::DescriptorImageInfo::default()
        .image_view(view)
        .sampler(sampler)
        .image_layout(vk::ImageLayout::GENERAL)
}

/// An image with its sampler as binding 0, and storage buffers as the next two, as a template finds them.
#[repr(C)]
pub(crate) struct Bundle {
    pub(crate) image: vk::DescriptorImageInfo,
    pub(crate) buffers: [vk::DescriptorBufferInfo; 2],
}

const KINDS: [vk::DescriptorType; 2] =
    [vk::DescriptorType::COMBINED_IMAGE_SAMPLER, vk::DescriptorType::STORAGE_BUFFER];

impl Bundle {
    fn writes(&self, set: vk::DescriptorSet) -> [vk::WriteDescriptorSet<'_>; 2] {
        let [image, buffer] = KINDS;
        let write = vk::WriteDescriptorSet::default().dst_set(set);
        let first = write.dst_binding(0).descriptor_type(image);
        let next = write.dst_binding(1).descriptor_type(buffer);
        // Binding 1 has one descriptor, so the second buffer goes to binding 2.
        [first.image_info(std::slice::from_ref(&self.image)), next.buffer_info(&self.buffers)]
    }
}

impl Gpu<'_> {
    /// Stores descriptors of images or samplers, from a binding's first on.
    pub(crate) fn write_images(
        &self,
        set: vk::DescriptorSet,
        binding: u32,
        kind: vk::DescriptorType,
        images: &[vk::DescriptorImageInfo],
    ) {
        let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding);
        let writes = [write.descriptor_type(kind).image_info(images)];
        // SAFETY: set, views and samplers are the device's. A set that executes is written only if its layout allows it.
        unsafe { self.raw.update_descriptor_sets(&writes, &[]) };
    }

    /// Stores descriptors of texels, from a binding's first on.
    pub(crate) fn write_texels(
        &self,
        set: vk::DescriptorSet,
        binding: u32,
        kind: vk::DescriptorType,
        views: &[vk::BufferView],
    ) {
        let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding);
        let writes = [write.descriptor_type(kind).texel_buffer_view(views)];
        // SAFETY: as `write_images`.
        unsafe { self.raw.update_descriptor_sets(&writes, &[]) };
    }

    /// Stores an image and two buffers at once.
    pub(crate) fn write_bundle(&self, set: vk::DescriptorSet, bundle: &Bundle) {
        // SAFETY: as `write_images`.
        unsafe { self.raw.update_descriptor_sets(&bundle.writes(set), &[]) };
    }

    /// A template that reads a bundle.
    pub(crate) fn bundle_template(
        &self,
        kernel: &Kernel,
        kind: vk::DescriptorUpdateTemplateType,
    ) -> Outcome<vk::DescriptorUpdateTemplate> {
        let [image, buffer] = KINDS;
        let stride = size_of::<vk::DescriptorBufferInfo>();
        let first = std::mem::offset_of!(Bundle, buffers);
        let places = [
            (0, image, std::mem::offset_of!(Bundle, image)),
            (1, buffer, first),
            (2, buffer, first + stride),
        ];
        let entries = places.map(|(binding, kind, offset)| {
            vk::DescriptorUpdateTemplateEntry::default()
                .dst_binding(binding)
                .descriptor_count(1)
                .descriptor_type(kind)
                .offset(offset)
                .stride(stride)
        });
        self.template_with(kernel, &entries, kind)
    }

    /// Stores a bundle by a template that was made for one.
    pub(crate) fn write_bundle_by(
        &self,
        set: vk::DescriptorSet,
        template: vk::DescriptorUpdateTemplate,
        bundle: &Bundle,
    ) {
        let data = std::ptr::from_ref(bundle).cast();
        // SAFETY: the template reads the bundle, which lives until the call returns. The set does not execute.
        unsafe { self.raw.update_descriptor_set_with_template(set, template, data) };
    }
}

impl Recorder<'_> {
    /// Pushes an image and two buffers. Nothing, where the device lacks it.
    pub(crate) fn push_bundle(&self, kernel: &Kernel, bundle: &Bundle) -> &Self {
        let Some(extension) = &self.gpu.push_descriptors else { return self };
        let (point, layout) = (vk::PipelineBindPoint::COMPUTE, kernel.layout);
        let writes = bundle.writes(vk::DescriptorSet::null());
        // SAFETY: the command buffer is being recorded, and what is pushed is the device's.
        unsafe { extension.cmd_push_descriptor_set(self.raw, point, layout, 0, &writes) };
        self
    }

    /// Pushes what a template reads from a bundle.
    pub(crate) fn push_bundle_by(
        &self,
        kernel: &Kernel,
        template: vk::DescriptorUpdateTemplate,
        bundle: &Bundle,
    ) -> &Self {
        let Some(extension) = &self.gpu.push_descriptors else { return self };
        let (layout, data) = (kernel.layout, std::ptr::from_ref(bundle).cast());
        // SAFETY: the command buffer is being recorded. The template reads the bundle, which lives until the call returns.
        unsafe {
            extension.cmd_push_descriptor_set_with_template(self.raw, template, layout, 0, data);
        }
        self
    }
}
