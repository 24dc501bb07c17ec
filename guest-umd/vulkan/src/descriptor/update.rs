// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Writes of descriptors, and copies of them.

use super::layout::SetLayout;
use super::set::DescriptorSet;
use crate::buffer::Buffer;
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

    /// Writes descriptors to `element` of binding `number` and those after it, as far as the layout goes.
    fn put_all(
        &mut self,
        number: u32,
        element: u32,
        descriptors: impl IntoIterator<Item = Descriptor>,
    ) {
        let Some(first) = self.layout().descriptor(number, element) else { return };
        for (index, descriptor) in (first..self.layout().descriptors()).zip(descriptors) {
            self.put(index, descriptor);
        }
    }
}

/// What a buffer's descriptor is in memory.
///
/// # Safety
/// The buffer is live, or null.
pub(super) unsafe fn describe(information: &vk::DescriptorBufferInfo) -> Descriptor {
    let vk::DescriptorBufferInfo { buffer, offset, range } = *information;
    if buffer.is_null() {
        return Descriptor::default();
    }
    // SAFETY: the caller says that it is live.
    let buffer = unsafe { handle::get::<Buffer>(buffer.as_raw()) };
    let length = if range == vk::WHOLE_SIZE { buffer.size().saturating_sub(offset) } else { range };
    Descriptor { address: buffer.address() + offset, length, reserved: [0; 2] }
}

/// Does one write. Its `dst_set` is passed over.
///
/// # Safety
/// The write is valid, as Vulkan demands it.
pub(crate) unsafe fn write(mut target: impl Target, write: &vk::WriteDescriptorSet<'_>) {
    let (number, element) = (write.dst_binding, write.dst_array_element);
    if write.descriptor_type == vk::DescriptorType::INLINE_UNIFORM_BLOCK {
        // SAFETY: a valid write's chain and pointers are.
        unsafe {
            let block = raw::find::<vk::WriteDescriptorSetInlineUniformBlock<'_>>(write.p_next);
            let Some(block) = block else { return };
            let bytes = raw::slice(block.p_data.cast::<u8>(), block.data_size);
            target.put_block(number, element, bytes);
        }
        return;
    }
    // SAFETY: layouts have buffers alone beside blocks, so that a valid write has so many of them.
    let buffers = unsafe { raw::slice(write.p_buffer_info, write.descriptor_count) };
    // SAFETY: those of a valid write are live.
    target.put_all(number, element, buffers.iter().map(|buffer| unsafe { describe(buffer) }));
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
