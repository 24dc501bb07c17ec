// SPDX-License-Identifier: MIT OR Apache-2.0

//! The adapter, which all instances of a program share: a socket of the device or of a broker serves one connection.

use super::asking::Asking;
use super::caps::Caps;
use super::memory::Memory;
use crate::pages::out_of;
use ash::vk;
use bellhop_guest_umd::protocol::features::Features;
use bellhop_guest_umd::{Adapter, Error};
use bellhop_protocol::control::kernel::{KernelCaps, unpadded};
use bellhop_protocol::vulkan::{Image, ImageFormat, ImageNeeds, Layers};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An open adapter.
pub(crate) struct Opened {
    pub(crate) adapter: Adapter,
    pub(crate) caps: Arc<Caps>,
    pub(crate) memory: Memory,
    asking: Asking,
}

/// The adapter of this program, as long as an instance or a device uses it.
static OPENED: Mutex<Weak<Opened>> = Mutex::new(Weak::new());

impl Opened {
    /// The adapter of this program, opened if it is not.
    ///
    /// # Errors
    /// Why there is none that serves Vulkan programs.
    pub(crate) fn get() -> Result<Arc<Self>, String> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.upgrade() {
            return Ok(opened);
        }
        let new = Arc::new(Self::open()?);
        *opened = Arc::downgrade(&new);
        Ok(new)
    }

    fn open() -> Result<Self, String> {
        let text = |error: Error| error.to_string();
        let adapter = Adapter::open_default().map_err(text)?;
        let kernels = adapter.kernel_caps().map_err(text)?;
        if !kernels.are_supported() {
            return Err(format!("the device runs no kernels: {}", unpadded(&kernels.missing)));
        }
        let needed = Features::USER_MODE_SUBMISSION | Features::NATIVE_FENCES;
        let missing = needed.difference(adapter.features());
        if !missing.is_empty() {
            return Err(format!("the device offers this guest no {missing}"));
        }
        let asking = Asking::default();
        let host = asking.caps(&adapter).map_err(|error| format!("the host's Vulkan: {error}"))?;
        let caps = Caps::new(&host, kernels.have_pointers(), &driver(&kernels))?;
        let memory = Memory::of(&adapter);
        Ok(Self { adapter, caps: Arc::new(caps), memory, asking })
    }

    /// What an image needs, and where a part of it is.
    ///
    /// # Errors
    /// Why there can be no such image.
    pub(crate) fn image_needs(
        &self,
        image: Image,
        layers: Layers,
    ) -> Result<ImageNeeds, vk::Result> {
        let needs = self.asking.image(&self.adapter, image, layers);
        let needs = needs.map_err(|error| out_of(&error))?;
        vk::Result::from_raw(needs.result).result_with_success(needs)
    }

    /// Which images of a kind there can be.
    ///
    /// # Errors
    /// Why there can be none.
    pub(super) fn image_format(&self, image: Image) -> Result<ImageFormat, vk::Result> {
        let format = self.asking.image_format(&self.adapter, image);
        let format = format.map_err(|error| out_of(&error))?;
        vk::Result::from_raw(format.result).result_with_success(format)
    }
}

fn driver(kernels: &KernelCaps) -> String {
    unpadded(&kernels.driver).to_owned()
}
