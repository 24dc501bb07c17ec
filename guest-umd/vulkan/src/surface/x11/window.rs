// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes its connection")]

//! A window.

use super::canvas::WindowCanvas;
use crate::surface::screen::{Canvas, Screen};
use ash::vk;
use libloading::Library;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, VisualClass};
use x11rb::xcb_ffi::{XCBConnection, load_libxcb};

/// The time between two images in modes that wait for the screen. X11 tells a program of no vertical blanks without events in its
/// own queue, so the clock has 60 of them a second.
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// A window of a program's connection.
pub(in super::super) struct Window {
    connection: Arc<XCBConnection>,
    id: u32,
}

impl Window {
    /// A window of an xcb connection. `None` if the connection is not libxcb's.
    ///
    /// # Safety
    /// It is a live connection, and lives longer than the window.
    pub(in super::super) unsafe fn of_xcb(connection: *mut c_void, id: u32) -> Option<Self> {
        load_libxcb().ok()?;
        // SAFETY: the caller says that it lives. The program ends it, and not this.
        let connection = unsafe { XCBConnection::from_raw_xcb_connection(connection, false) };
        Some(Self { connection: Arc::new(connection.ok()?), id })
    }

    /// A window of a display of Xlib, which has an xcb connection.
    ///
    /// # Safety
    /// As [`Self::of_xcb`].
    pub(in super::super) unsafe fn of_xlib(display: *mut c_void, id: u32) -> Option<Self> {
        type GetConnection = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
        // SAFETY: the library's initialiser has no conditions, and the function has this type (`X11/Xlib-xcb.h`). The display
        // is one, as the caller says.
        let connection = unsafe {
            let library = Library::new("libX11-xcb.so.1").ok()?;
            let connection_of = library.get::<GetConnection>(b"XGetXCBConnection\0").ok()?;
            connection_of(display)
        };
        if connection.is_null() {
            return None;
        }
        // SAFETY: as the caller says: the connection is the display's.
        unsafe { Self::of_xcb(connection, id) }
    }

    /// Whether texels of windows of a visual are 8 bits each of blue, green and red. Some programs prefer visuals whose colours go
    /// through a map, and leave that as it is: each number stays itself.
    pub(super) fn knows(&self, visual: u32) -> bool {
        let depths = self.connection.setup().roots.iter().flat_map(|root| &root.allowed_depths);
        let mut visuals = depths.flat_map(|depth| &depth.visuals);
        visuals.any(|one| {
            one.visual_id == visual
                && [VisualClass::TRUE_COLOR, VisualClass::DIRECT_COLOR].contains(&one.class)
                && [one.red_mask, one.green_mask, one.blue_mask] == [0xFF_0000, 0xFF00, 0xFF]
        })
    }

    fn visual(&self) -> Option<u32> {
        let asked = self.connection.get_window_attributes(self.id).ok()?;
        Some(asked.reply().ok()?.visual)
    }
}

/// What becomes of a surface whose window X11 fails to draw into or to describe: it is not there any more, or its connection is not.
pub(super) fn lost<E: std::error::Error>(error: E) -> vk::Result {
    crate::debug::say(&error);
    vk::Result::ERROR_SURFACE_LOST_KHR
}

impl Screen for Window {
    fn extent(&self) -> Result<Option<vk::Extent2D>, vk::Result> {
        let asked = self.connection.get_geometry(self.id).map_err(lost)?;
        let told = asked.reply().map_err(lost)?;
        let (width, height) = (told.width.into(), told.height.into());
        Ok(Some(vk::Extent2D { width, height }))
    }

    fn formats(&self) -> &'static [vk::Format] {
        let visual = self.visual();
        if visual.is_some_and(|visual| self.knows(visual)) {
            &[vk::Format::B8G8R8A8_UNORM, vk::Format::B8G8R8A8_SRGB]
        } else {
            &[]
        }
    }

    fn interval(&self) -> Option<Duration> {
        Some(INTERVAL)
    }

    fn canvas(
        &self,
        extent: vk::Extent2D,
        _mode: vk::PresentModeKHR,
    ) -> Result<Box<dyn Canvas>, vk::Result> {
        Ok(Box::new(WindowCanvas::new(&self.connection, self.id, extent).map_err(lost)?))
    }
}
