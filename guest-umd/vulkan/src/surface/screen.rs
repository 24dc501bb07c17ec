// SPDX-License-Identifier: MIT OR Apache-2.0

//! What surfaces are of: what shows images.

use crate::device::Device;
use crate::heap::Piece;
use ash::vk;
use bellhop_guest_umd::display::Primary;
use std::time::Duration;
use vm_memory::VolatileSlice;

/// Something that shows images.
pub(super) trait Screen: Send + Sync {
    /// Its size, which images must have; `None` if it has that of the images.
    ///
    /// # Errors
    /// When it is not there any more.
    fn extent(&self) -> Result<Option<vk::Extent2D>, vk::Result>;

    /// The formats of images that it shows.
    fn formats(&self) -> &'static [vk::Format];

    /// The time between two images in modes that wait for the screen; `None` if showing one waits by itself, or there is no time.
    fn interval(&self) -> Option<Duration>;

    /// Takes memory for an image whose rows are so many bytes apart.
    ///
    /// # Errors
    /// When there is no more.
    fn place(&self, device: &Device, size: Size) -> Result<Place, vk::Result> {
        // A piece begins at any multiple of 64 bytes.
        let bytes = size.bytes.saturating_add(size.alignment) as usize;
        device.heap.take(bytes).map(Place::Piece)
    }

    /// Begins to show images of one size.
    ///
    /// # Errors
    /// When it cannot show any.
    fn canvas(
        &self,
        extent: vk::Extent2D,
        mode: vk::PresentModeKHR,
    ) -> Result<Box<dyn Canvas>, vk::Result>;
}

/// What memory an image needs.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Bytes.
    pub(super) bytes: u64,
    /// What its address is a multiple of.
    pub(super) alignment: u64,
    /// Bytes from a row to the next.
    pub(super) pitch: usize,
    /// Texels.
    pub(super) extent: vk::Extent2D,
}

/// Memory of an image.
pub(super) enum Place {
    /// The driver's own.
    Piece(Piece),
    /// What a display can show.
    Primary(Primary),
}

impl Place {
    /// GPU virtual address of its first byte.
    pub(super) fn gpu_va(&self) -> u64 {
        match self {
            Self::Piece(piece) => piece.gpu_va(),
            Self::Primary(primary) => primary.gpu_va(),
        }
    }
}

/// Where images of a swap chain are shown.
pub(super) trait Canvas: Send {
    /// Shows an image, and returns when the next one may be shown.
    ///
    /// # Errors
    /// When the screen is not there any more.
    fn show(&mut self, picture: &Picture<'_>) -> Result<Shown, vk::Result>;
}

/// What became of showing an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// Whether images still have the size of the screen.
    pub(super) fits: bool,
    /// The image that nothing reads any more: this one, or one that was shown before.
    pub(super) free: Option<u32>,
}

/// An image with texels of 4 bytes.
pub(super) struct Picture<'p> {
    /// Its number in its swap chain.
    pub(super) index: u32,
    /// Its memory.
    pub(super) place: &'p Place,
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

    /// Copies a row out.
    pub(super) fn copy_row(&self, row: usize, room: VolatileSlice<'_>) {
        if let Place::Piece(memory) = self.place {
            memory.copy_to(self.offset + row * self.pitch, room);
        }
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

    fn canvas(
        &self,
        _extent: vk::Extent2D,
        _mode: vk::PresentModeKHR,
    ) -> Result<Box<dyn Canvas>, vk::Result> {
        Ok(Box::new(Self))
    }
}

impl Canvas for Headless {
    fn show(&mut self, picture: &Picture<'_>) -> Result<Shown, vk::Result> {
        Ok(Shown { fits: true, free: Some(picture.index) })
    }
}
