// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Views of buffers as texels. What there is to say of one has room in its descriptor.

use super::object::Buffer;
use crate::device::Device;
use crate::handle;
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::{Descriptor, Texel};

/// A view of a buffer.
pub(crate) struct BufferView {
    /// What the host reads where it is used.
    pub(crate) descriptor: Descriptor,
}

impl BufferView {
    fn new(buffer: &Buffer, format: vk::Format, offset: u64, range: u64) -> Self {
        let about = format.as_raw() as u32;
        let length = if range == vk::WHOLE_SIZE {
            // As many texels as are whole.
            let texel = Texel::of(about).map_or(1, |texel| u64::from(texel.bytes));
            buffer.size().saturating_sub(offset) / texel * texel
        } else {
            range
        };
        let address = buffer.address() + offset;
        Self { descriptor: Descriptor { address, length, sampler: 0, about: about.into() } }
    }
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::BufferViewCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    view: *mut vk::BufferView,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it: the buffer is bound to memory.
    unsafe {
        if !Device::get(device).caps.have_images() {
            return vk::Result::ERROR_FEATURE_NOT_PRESENT;
        }
        let vk::BufferViewCreateInfo { buffer, format, offset, range, .. } = *information;
        let buffer = handle::get::<Buffer>(buffer.as_raw());
        let made = BufferView::new(buffer, format, offset, range);
        *view = vk::BufferView::from_raw(handle::create(made));
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    view: vk::BufferView,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<BufferView>(view.as_raw()) };
}

crate::entry::entry_points! {
    vkCreateBufferView = create,
    vkDestroyBufferView = destroy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_of_the_rest_of_a_buffer_has_whole_texels() {
        let buffer = Buffer::bound(0x1000, 110);
        let view = |range| BufferView::new(&buffer, vk::Format::R32G32_UINT, 32, range).descriptor;
        let whole = view(vk::WHOLE_SIZE);
        let expected = Descriptor { address: 0x1020, length: 72, sampler: 0, about: 101 };
        assert_eq!(whole, expected);
        assert_eq!(view(16), Descriptor { length: 16, ..expected });
    }
}
