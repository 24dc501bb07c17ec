// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Writes of descriptors, and copies of them.

use super::describe;
use super::layout::SetLayout;
use super::set::DescriptorSet;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::Descriptor;

/// What has descriptors: a set, or a set that is being pushed.
pub(crate) trait Target {
    /// Its layout.
    fn layout(&self) -> &SetLayout;

    /// Writes a descriptor. The layout has one with this index.
    fn put(&mut self, index: u32, descriptor: Descriptor);

    /// Writes bytes of the inline uniform block of a binding, from byte `offset` of it on.
    fn put_block(&mut self, number: u32, offset: u32, bytes: &[u8]);

    /// Writes descriptors to `element` of binding `number` and those after it, as far as the layout goes. Samplers that are the
    /// layout's own stay.
    fn put_all(
        &mut self,
        number: u32,
        element: u32,
        descriptors: impl IntoIterator<Item = Descriptor>,
    ) {
        let Some(first) = self.layout().descriptor(number, element) else { return };
        for (index, descriptor) in (first..self.layout().descriptors()).zip(descriptors) {
            let descriptor = self.layout().complete(index, descriptor);
            self.put(index, descriptor);
        }
    }
}

/// Elements of an array that are `stride` bytes apart, which may be any number.
///
/// # Safety
/// So many of them are there, as long as the iterator is used.
unsafe fn elements<T>(first: *const u8, stride: usize, count: u32) -> impl Iterator<Item = T> {
    (0..count as usize).map(move |index| {
        let element = first.wrapping_add(index * stride).cast::<T>();
        // SAFETY: the caller says that it is there. All of Vulkan's structures may be copied.
        unsafe { element.read_unaligned() }
    })
}

/// Writes an array of what describes descriptors of a kind, which is no inline uniform block: its first element, the bytes from
/// one to the next, and how many there are.
///
/// # Safety
/// They are there, and what the kind uses of them is live or null.
pub(super) unsafe fn write_array(
    target: &mut impl Target,
    (number, element): (u32, u32),
    kind: vk::DescriptorType,
    (first, stride, count): (*const u8, usize, u32),
) {
    type Image = vk::DescriptorImageInfo;
    type Kind = vk::DescriptorType;
    // SAFETY: the caller says that these are there, and their objects live. Where samplers are the layout's, those of the write
    // mean nothing: they are not looked at. All descriptors of a write are alike in that.
    unsafe {
        match kind {
            Kind::SAMPLER if !target.layout().has_sampler(number, element) => {
                let samplers = elements::<Image>(first, stride, count);
                target.put_all(number, element, samplers.map(|it| describe::sampler(it.sampler)));
            }
            Kind::COMBINED_IMAGE_SAMPLER if !target.layout().has_sampler(number, element) => {
                let both = elements(first, stride, count);
                target.put_all(number, element, both.map(|it| describe::combined(&it)));
            }
            Kind::SAMPLER => {}
            Kind::COMBINED_IMAGE_SAMPLER
            | Kind::SAMPLED_IMAGE
            | Kind::STORAGE_IMAGE
            | Kind::INPUT_ATTACHMENT => {
                let images = elements::<Image>(first, stride, count);
                target.put_all(number, element, images.map(|it| describe::image(it.image_view)));
            }
            Kind::UNIFORM_TEXEL_BUFFER | Kind::STORAGE_TEXEL_BUFFER => {
                let views = elements(first, stride, count);
                target.put_all(number, element, views.map(|view| describe::texels(view)));
            }
            _ => {
                let buffers = elements(first, stride, count);
                target.put_all(number, element, buffers.map(|it| describe::buffer(&it)));
            }
        }
    }
}

/// Does one write. Its `dst_set` is passed over.
///
/// # Safety
/// The write is valid, as Vulkan demands it.
pub(crate) unsafe fn write(mut target: impl Target, write: &vk::WriteDescriptorSet<'_>) {
    type Kind = vk::DescriptorType;
    let (number, element) = (write.dst_binding, write.dst_array_element);
    let (first, stride) = match write.descriptor_type {
        Kind::INLINE_UNIFORM_BLOCK => {
            // SAFETY: a valid write's chain and pointers are.
            unsafe {
                let block = raw::find::<vk::WriteDescriptorSetInlineUniformBlock<'_>>(write.p_next);
                let Some(block) = block else { return };
                let bytes = raw::slice(block.p_data.cast::<u8>(), block.data_size);
                return target.put_block(number, element, bytes);
            }
        }
        Kind::SAMPLER
        | Kind::COMBINED_IMAGE_SAMPLER
        | Kind::SAMPLED_IMAGE
        | Kind::STORAGE_IMAGE
        | Kind::INPUT_ATTACHMENT => {
            (write.p_image_info.cast(), size_of::<vk::DescriptorImageInfo>())
        }
        Kind::UNIFORM_TEXEL_BUFFER | Kind::STORAGE_TEXEL_BUFFER => {
            (write.p_texel_buffer_view.cast(), size_of::<vk::BufferView>())
        }
        _ => (write.p_buffer_info.cast(), size_of::<vk::DescriptorBufferInfo>()),
    };
    let array = (first, stride, write.descriptor_count);
    // SAFETY: a valid write has as many of what its kind has, which live.
    unsafe { write_array(&mut target, (number, element), write.descriptor_type, array) };
}

unsafe extern "system" fn update_sets(
    _device: vk::Device,
    writes: u32,
    first_write: *const vk::WriteDescriptorSet<'_>,
    copies: u32,
    first_copy: *const vk::CopyDescriptorSet<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        for change in raw::slice(first_write, writes) {
            write(handle::get::<DescriptorSet>(change.dst_set.as_raw()), change);
        }
        for copy in raw::slice(first_copy, copies) {
            let from = handle::get::<DescriptorSet>(copy.src_set.as_raw());
            let to = handle::get::<DescriptorSet>(copy.dst_set.as_raw());
            let source = (copy.src_binding, copy.src_array_element);
            let destination = (copy.dst_binding, copy.dst_array_element);
            to.copy_from(from, source, destination, copy.descriptor_count);
        }
    }
}

crate::entry::entry_points! {
    vkUpdateDescriptorSets = update_sets,
}

#[cfg(test)]
mod tests;
