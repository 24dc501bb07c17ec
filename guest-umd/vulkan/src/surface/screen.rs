// SPDX-License-Identifier: MIT OR Apache-2.0

//! What surfaces are of: what shows images.

use crate::heap::Piece;
use ash::vk;
use std::time::Duration;

/// Something that shows images.
pub(super) trait Screen: Send + Sync {
    /// Its size, which images must have; `None` if it has that of the images.
    ///
    /// # Errors
    /// When it is not there any more.
    fn extent(&self) -> Result<Option<vk::Extent2D>, vk::Result>;

    /// The formats of images that it shows.
    fn formats(&self) -> &'static [vk::Format];

    /// The time between two images in modes that wait for the screen; `None` if it has none.
    fn interval(&self) -> Option<Duration>;

    /// Begins to show images of one size.
    ///
    /// # Errors
    /// When it cannot show any.
    fn canvas(&self, extent: vk::Extent2D) -> Result<Box<dyn Canvas>, vk::Result>;
}

/// Where images of a swap chain are shown.
pub(super) trait Canvas: Send {
    /// Shows an image, and returns when nothing reads it any more. Says whether it still has the screen's size.
    ///
    /// # Errors
    /// When the screen is not there any more.
    fn show(&mut self, picture: &Picture<'_>) -> Result<Fits, vk::Result>;
}

/// Whether images have the size of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fits {
    /// They have.
    Yes,
    /// The screen has another size now.
    No,
}

/// An image with texels of 4 bytes.
pub(super) struct Picture<'p> {
    /// Its memory.
    pub(super) memory: &'p Piece,
    /// Where in it the image begins.
    pub(super) offset: usize,
    /// Bytes from a row to the next.
    pub(super) pitch: usize,
    /// Its size.
    pub(super) extent: vk::Extent2D,
}

impl Picture<'_> {
    /// Bytes of a row's texels.
    pub(super) const fn row(&self) -> usize {
        self.extent.width as usize * 4
    }

    /// The rows, one after the other: where each begins in its memory.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        let (offset, pitch) = (self.offset, self.pitch);
        (0..self.extent.height as usize).map(move |row| offset + row * pitch)
    }
}

/// A screen that nobody sees (`VK_EXT_headless_surface`).
pub(super) struct Headless;

impl Screen for Headless {
    fn extent(&self) -> Result<Option<vk::Extent2D>, vk::Result> {
        Ok(None)
    }

    fn formats(&self) -> &'static [vk::Format] {
        &[
            vk::Format::B8G8R8A8_UNORM,
            vk::Format::B8G8R8A8_SRGB,
            vk::Format::R8G8B8A8_UNORM,
            vk::Format::R8G8B8A8_SRGB,
        ]
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn canvas(&self, _extent: vk::Extent2D) -> Result<Box<dyn Canvas>, vk::Result> {
        Ok(Box::new(Self))
    }
}

impl Canvas for Headless {
    fn show(&mut self, _picture: &Picture<'_>) -> Result<Fits, vk::Result> {
        Ok(Fits::Yes)
    }
}
