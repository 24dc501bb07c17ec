// SPDX-License-Identifier: MIT OR Apache-2.0

//! The images of a swap chain, and their memory.

use crate::device::Device;
use crate::image::Image;
use crate::surface::screen::{Picture, Place, Screen, Size};
use ash::vk;
use bellhop_protocol::vulkan::{Image as Description, Layers};

/// The part of an image that is shown.
const PART: Layers =
    Layers { aspect: vk::ImageAspectFlags::COLOR.as_raw(), level: 0, first: 0, count: 1 };

/// Where images of a swap chain are, which are all alike.
pub(super) struct Images {
    /// What the host is told of each, without an address.
    description: Description,
    places: Vec<Place>,
    alignment: u64,
    /// Where the rows begin, from the first byte on.
    offset: usize,
    pitch: usize,
    extent: vk::Extent2D,
}

impl Images {
    /// Takes memory for so many images of a description, of a screen.
    ///
    /// # Errors
    /// Why there can be no such images.
    pub(super) fn new(
        device: &Device,
        screen: &dyn Screen,
        description: Description,
        count: u32,
    ) -> Result<Self, vk::Result> {
        if !device.caps.formats.may_have(&description) {
            return Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
        }
        let needs = device.gpus.first().image_needs(description, PART)?;
        let alignment = needs.alignment.max(1);
        let (pitch, offset) = (needs.row_pitch as usize, needs.offset as usize);
        let [width, height, _] = description.extent;
        let extent = vk::Extent2D { width, height };
        let size = Size { bytes: needs.size, alignment, pitch, extent };
        let places = (0..count).map(|_| screen.place(device, size)).collect::<Result<_, _>>()?;
        Ok(Self { description, places, alignment, offset, pitch, extent })
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.places.len() as u32
    }

    /// The address of an image in its memory.
    fn address(&self, place: &Place) -> u64 {
        place.gpu_va().next_multiple_of(self.alignment)
    }

    /// Makes an image for each place, already bound.
    ///
    /// # Errors
    /// Why there can be none.
    pub(super) fn make(&self, device: &Device) -> Result<Vec<Image>, vk::Result> {
        let make = |place| {
            let image = Image::new(device, self.description)?;
            image.bind(self.address(place));
            Ok(image)
        };
        self.places.iter().map(make).collect()
    }

    /// Binds another image of this kind to the place of an image.
    pub(super) fn bind(&self, image: &Image, index: u32) {
        if let Some(place) = self.places.get(index as usize) {
            image.bind(self.address(place));
        }
    }

    /// What is shown of an image.
    pub(super) fn picture(&self, index: u32) -> Option<Picture<'_>> {
        let place = self.places.get(index as usize)?;
        let first = (self.address(place) - place.gpu_va()) as usize;
        let (pitch, extent) = (self.pitch, self.extent);
        Some(Picture { index, place, offset: first + self.offset, pitch, extent })
    }
}
