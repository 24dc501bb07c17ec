// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes handles")]

//! A surface.

use super::screen::Screen;
use crate::handle;
use ash::vk::{self, Handle as _};
use std::sync::Arc;

/// A surface.
pub(super) struct Surface {
    /// What it is of.
    pub(super) screen: Arc<dyn Screen>,
}

impl Surface {
    /// Makes the handle of a surface.
    pub(super) fn create(screen: impl Screen + 'static) -> vk::SurfaceKHR {
        vk::SurfaceKHR::from_raw(handle::create(Self { screen: Arc::new(screen) }))
    }

    /// The object of a handle.
    ///
    /// # Safety
    /// The surface lives as long as this is used.
    pub(super) unsafe fn get<'a>(surface: vk::SurfaceKHR) -> &'a Self {
        // SAFETY: the caller says that it lives.
        unsafe { handle::get::<Self>(surface.as_raw()) }
    }
}
