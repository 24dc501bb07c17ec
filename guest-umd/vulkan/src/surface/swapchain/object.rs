// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes handles")]

//! A swap chain.

use super::chain::Chain;
use super::images::Images;
use super::presenter::Presenter;
use crate::device::Device;
use crate::handle;
use crate::image::Image;
use ash::vk::{self, Handle as _};
use std::sync::Arc;

/// A swap chain.
pub(super) struct Swapchain {
    pub(super) chain: Arc<Chain>,
    pub(super) images: Arc<Images>,
    /// The handles of the images.
    handles: Vec<vk::Image>,
    pub(super) presenter: Presenter,
}

impl Swapchain {
    /// A swap chain of these images.
    ///
    /// # Errors
    /// Why there can be none.
    pub(super) fn new(
        device: &Device,
        images: Arc<Images>,
        chain: Arc<Chain>,
        presenter: Presenter,
    ) -> Result<Self, vk::Result> {
        let made = images.make(device)?;
        let handles = made.into_iter().map(|image| vk::Image::from_raw(handle::create(image)));
        Ok(Self { chain, images, handles: handles.collect(), presenter })
    }

    /// The object of a handle.
    ///
    /// # Safety
    /// The swap chain lives as long as this is used.
    pub(super) unsafe fn get<'a>(swapchain: vk::SwapchainKHR) -> &'a Self {
        // SAFETY: the caller says that it lives.
        unsafe { handle::get::<Self>(swapchain.as_raw()) }
    }

    /// The handles of its images.
    pub(super) fn handles(&self) -> &[vk::Image] {
        &self.handles
    }
}

impl Drop for Swapchain {
    fn drop(&mut self) {
        // Nothing is shown any more when the images end.
        self.presenter.end();
        for image in &self.handles {
            // SAFETY: the swap chain made the images, and the program uses them no more.
            unsafe { handle::destroy::<Image>(image.as_raw()) };
        }
    }
}
