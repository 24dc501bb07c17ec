// SPDX-License-Identifier: MIT OR Apache-2.0

//! Windows of X11 (`VK_KHR_xcb_surface`, `VK_KHR_xlib_surface`), through the program's own connection. The X server copies images
//! out of memory that it shares with the program where it can (MIT-SHM 1.2), and gets them by its socket elsewhere.

mod canvas;
mod segment;
mod support;
mod window;

pub(super) use support::lookup;
pub(super) use window::Window;
