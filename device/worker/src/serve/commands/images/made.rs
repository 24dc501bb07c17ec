// SPDX-License-Identifier: MIT OR Apache-2.0

//! Vulkan's objects of descriptions, which are kept because they take long to make.

use crate::serve::commands::wrong::Why;
use crate::serve::imports::Imports;
use crate::vulkan::{Device, Image, Sampler, Texels, View, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan as protocol;
use std::collections::HashMap;
use std::rc::Rc;
use zerocopy::IntoBytes;

/// Most objects of a kind to keep.
const MOST: usize = 1024;

/// Objects by the bytes of their descriptions.
struct Kept<T>(HashMap<Box<[u8]>, Rc<T>>);

impl<T> Kept<T> {
    fn new() -> Self {
        Self(HashMap::new())
    }

    fn get<E>(
        &mut self,
        description: &[u8],
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Rc<T>, E> {
        if let Some(known) = self.0.get(description) {
            return Ok(Rc::clone(known));
        }
        let made = Rc::new(make()?);
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(description.into(), Rc::clone(&made));
        Ok(made)
    }
}

/// Vulkan's objects of the descriptions that streams named last. Images of one description and one memory are alike, so it
/// does not matter whether one was kept.
pub struct Made<'d> {
    device: &'d Device<'d>,
    images: Kept<Image<'d>>,
    views: Kept<View<'d>>,
    texels: Kept<Texels<'d>>,
    samplers: Kept<Sampler<'d>>,
}

impl<'d> Made<'d> {
    /// Begins with nothing.
    pub fn new(device: &'d Device<'d>) -> Self {
        let (images, views) = (Kept::new(), Kept::new());
        Self { device, images, views, texels: Kept::new(), samplers: Kept::new() }
    }

    /// Forgets everything that may hold memory of the window.
    pub fn forget_memory(&mut self) {
        self.views.0.clear();
        self.images.0.clear();
        self.texels.0.clear();
    }

    /// Returns the image of a description that Vulkan allows.
    ///
    /// # Errors
    /// When the device makes no such image, or not in so little memory, or Vulkan fails.
    pub fn image(
        &mut self,
        of: &protocol::Image,
        imports: &mut Imports<'d>,
    ) -> Result<Rc<Image<'d>>, Why> {
        let device = self.device;
        self.images.get(of.as_bytes(), || {
            let shape = device.shape(of).map_err(|result| match result {
                vk::Result::ERROR_FORMAT_NOT_SUPPORTED => {
                    "an image that the device does not make".into()
                }
                result => Why::from(VulkanError::Call { call: "vkCreateImage", result }),
            })?;
            if of.size < shape.size() || !of.address.is_multiple_of(shape.alignment()) {
                return Err(Why::Malformed(format!(
                    "an image of {} bytes at {:#x} that needs {} at a multiple of {}",
                    of.size,
                    of.address,
                    shape.size(),
                    shape.alignment(),
                )));
            }
            let range = imports.range(of.address, shape.size())?;
            Ok(shape.bind(&range)?)
        })
    }

    /// Returns the view of a description that has been checked, of its image.
    ///
    /// # Errors
    /// When Vulkan fails.
    pub fn view(
        &mut self,
        of: &protocol::ImageView,
        image: &Rc<Image<'d>>,
    ) -> Result<Rc<View<'d>>, VulkanError> {
        self.views.get(of.as_bytes(), || self.device.view(of, image))
    }

    /// Returns the sampler of a description that has been checked.
    ///
    /// # Errors
    /// When Vulkan fails.
    pub fn sampler(&mut self, of: &protocol::Sampler) -> Result<Rc<Sampler<'d>>, VulkanError> {
        self.samplers.get(of.as_bytes(), || self.device.sampler(of))
    }

    /// Returns a buffer of texels of a descriptor that has been checked.
    ///
    /// # Errors
    /// When Vulkan fails.
    pub fn texels(
        &mut self,
        of: &protocol::Descriptor,
        imports: &mut Imports<'d>,
    ) -> Result<Rc<Texels<'d>>, Why> {
        self.texels.get(of.as_bytes(), || {
            let range = imports.range(of.address, of.length)?;
            Ok(self.device.texels(&range, of.about as u32)?)
        })
    }
}
