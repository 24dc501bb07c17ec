// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes handles")]

//! An image, and what it needs.

use crate::device::Device;
use crate::handle;
use crate::memory::{Bound, Memory};
use crate::physical_device::format_table::is_of_depth;
use crate::physical_device::memory::MAX_ALLOCATION;
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::{Image as Description, ImageNeeds, Layers};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A part that each image of a format has.
fn part(format: u32) -> Layers {
    let aspect = match vk::Format::from_raw(format as i32) {
        vk::Format::S8_UINT => vk::ImageAspectFlags::STENCIL,
        format if is_of_depth(format) => vk::ImageAspectFlags::DEPTH,
        _ => vk::ImageAspectFlags::COLOR,
    };
    Layers { aspect: aspect.as_raw(), level: 0, first: 0, count: 1 }
}

/// An image.
pub(crate) struct Image {
    /// What the host is told of it, but for the address.
    description: Description,
    needs: vk::MemoryRequirements,
    /// 0 until it is bound.
    address: AtomicU64,
    /// What is bound to its memory, unless that is a swap chain's, where each image has a place of its own.
    bound: OnceLock<Bound>,
}

impl Image {
    /// Makes an image of a description without a size.
    pub(crate) fn new(device: &Device, description: Description) -> Result<Self, vk::Result> {
        let needs = needs(device, description)?;
        let description = Description { size: needs.size, ..description };
        Ok(Self { description, needs, address: AtomicU64::new(0), bound: OnceLock::new() })
    }

    /// The object of a handle.
    ///
    /// # Safety
    /// The image lives as long as this is used.
    pub(crate) unsafe fn get<'a>(image: vk::Image) -> &'a Self {
        // SAFETY: the caller says that it lives.
        unsafe { handle::get::<Self>(image.as_raw()) }
    }

    /// What the host is told of it, once it is bound to memory: the same to the letter each time.
    pub(crate) fn description(&self) -> Description {
        // Relaxed: who uses an image knows of its binding.
        Description { address: self.address.load(Ordering::Relaxed), ..self.description }
    }

    /// The memory that it needs.
    pub(super) const fn needs(&self) -> vk::MemoryRequirements {
        self.needs
    }

    /// Puts its first byte at a GPU virtual address of a swap chain's memory.
    pub(crate) fn bind(&self, address: u64) {
        self.address.store(address, Ordering::Relaxed);
    }

    /// Puts its first byte at a byte of a program's memory.
    pub(crate) fn bind_to(&self, memory: &Memory, offset: u64) {
        let (address, bound) = memory.bind(offset);
        self.bind(address);
        let _ = self.bound.set(bound.clone());
    }

    /// What is bound to its memory, if that is a program's.
    pub(super) fn bound(&self) -> Bound {
        self.bound.get().cloned().unwrap_or_default()
    }
}

/// The memory that an image of a description needs.
///
/// # Errors
/// Why there can be no such image.
pub(super) fn needs(
    device: &Device,
    description: Description,
) -> Result<vk::MemoryRequirements, vk::Result> {
    if !device.caps.formats.may_have(&description) {
        return Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
    }
    device
        .gpus
        .first()
        .image_needs(description, part(description.format))
        .and_then(|needs| requirements(&needs))
}

/// What a program is told of what an image needs, unless that is more than it can have.
fn requirements(needs: &ImageNeeds) -> Result<vk::MemoryRequirements, vk::Result> {
    let ImageNeeds { size, alignment, .. } = *needs;
    if size > MAX_ALLOCATION {
        return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
    }
    Ok(vk::MemoryRequirements { size, alignment, memory_type_bits: 1 })
}

#[cfg(test)]
mod tests {
    use super::super::description::tests::image;
    use super::*;

    #[test]
    fn an_image_that_fits_no_memory_is_none() {
        let needs = |size| ImageNeeds { size, alignment: 4096, ..Default::default() };
        let small = requirements(&needs(65536)).unwrap();
        assert_eq!((small.size, small.alignment, small.memory_type_bits), (65536, 4096, 1));
        assert!(requirements(&needs(1 << 30)).is_ok());
        let large = requirements(&needs((1 << 30) + 1));
        assert_eq!(large.err(), Some(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
    }

    #[test]
    fn a_part_has_an_aspect_of_its_format() {
        assert_eq!([37, 126, 127, 130].map(|format| part(format).aspect), [1, 2, 4, 2]);
    }

    #[test]
    fn an_image_is_where_it_was_bound() {
        let description = Description { size: 4096, ..image() };
        let needs = vk::MemoryRequirements { size: 4096, alignment: 64, memory_type_bits: 1 };
        let (address, bound) = (AtomicU64::new(0), OnceLock::new());
        let image = Image { description, needs, address, bound };
        image.bind(0x1_0040);
        assert_eq!(image.description(), Description { address: 0x1_0040, ..description });
    }
}
