// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes handles")]

//! What descriptors are in memory. A null handle gives one of nothing.

use crate::buffer::Buffer;
use crate::buffer::BufferView;
use crate::handle;
use crate::numbered::Numbered;
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::Descriptor;

/// The descriptor of a buffer.
///
/// # Safety
/// The buffer is live, or null.
pub(super) unsafe fn buffer(information: &vk::DescriptorBufferInfo) -> Descriptor {
    let vk::DescriptorBufferInfo { buffer, offset, range } = *information;
    if buffer.is_null() {
        return Descriptor::default();
    }
    // SAFETY: the caller says that it is live.
    let buffer = unsafe { handle::get::<Buffer>(buffer.as_raw()) };
    let length = if range == vk::WHOLE_SIZE { buffer.size().saturating_sub(offset) } else { range };
    Descriptor { address: buffer.address() + offset, length, sampler: 0, about: 0 }
}

/// The descriptor of a buffer of texels.
///
/// # Safety
/// The view is live, or null.
pub(super) unsafe fn texels(view: vk::BufferView) -> Descriptor {
    if view.is_null() {
        return Descriptor::default();
    }
    // SAFETY: the caller says that it is live.
    unsafe { handle::get::<BufferView>(view.as_raw()) }.descriptor
}

/// The descriptor of an image.
///
/// # Safety
/// The view is live, or null.
pub(super) unsafe fn image(view: vk::ImageView) -> Descriptor {
    if view.is_null() {
        return Descriptor::default();
    }
    // SAFETY: the caller says that it is live.
    let view = unsafe { handle::get::<Numbered>(view.as_raw()) };
    Descriptor { address: view.address(), length: view.serial(), sampler: 0, about: 0 }
}

/// The descriptor of a sampler.
///
/// # Safety
/// The sampler is live, or null.
pub(super) unsafe fn sampler(sampler: vk::Sampler) -> Descriptor {
    if sampler.is_null() {
        return Descriptor::default();
    }
    // SAFETY: the caller says that it is live.
    let sampler = unsafe { handle::get::<Numbered>(sampler.as_raw()) };
    Descriptor { address: 0, length: 0, sampler: sampler.address(), about: sampler.serial() }
}

/// The descriptor of an image and a sampler.
///
/// # Safety
/// View and sampler are live, or null.
pub(super) unsafe fn combined(information: &vk::DescriptorImageInfo) -> Descriptor {
    // SAFETY: as the caller says.
    let (image, sampler) = unsafe { (image(information.image_view), sampler(information.sampler)) };
    Descriptor { address: image.address, length: image.length, ..sampler }
}
