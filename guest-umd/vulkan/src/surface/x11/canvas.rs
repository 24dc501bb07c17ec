// SPDX-License-Identifier: MIT OR Apache-2.0

//! How images get into a window.

use super::segment::Segment;
use super::window::lost;
use crate::surface::screen::{Canvas, Picture, Shown};
use ash::vk;
use std::sync::Arc;
use vm_memory::VolatileSlice;
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyOrIdError;
use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, ImageFormat};
use x11rb::xcb_ffi::XCBConnection;

/// Bytes of the request that carries rows, without them.
const REQUEST: usize = 28;

/// Where images of one size are shown in a window.
pub(super) struct WindowCanvas {
    connection: Arc<XCBConnection>,
    window: u32,
    depth: u8,
    context: u32,
    way: Way,
}

/// How the server gets images.
enum Way {
    /// By memory.
    Shared(Segment),
    /// By requests with so many bytes at most. The rows are put together here.
    Sent(usize, Vec<u8>),
}

impl WindowCanvas {
    pub(super) fn new(
        connection: &Arc<XCBConnection>,
        window: u32,
        extent: vk::Extent2D,
    ) -> Result<Self, ReplyOrIdError> {
        let depth = connection.get_geometry(window)?.reply()?.depth;
        let context = connection.generate_id()?;
        connection
            .create_gc(context, window, &CreateGCAux::new().graphics_exposures(0))?
            .check()?;
        let bytes = extent.width as usize * extent.height as usize * 4;
        let way = match Segment::new(connection, bytes) {
            Some(segment) => Way::Shared(segment),
            None => Way::Sent(connection.maximum_request_bytes() - REQUEST, Vec::new()),
        };
        Ok(Self { connection: Arc::clone(connection), window, depth, context, way })
    }

    /// Has the server copy an image out of the memory that it shares.
    fn put(&self, segment: &Segment, picture: &Picture<'_>) -> Result<Shown, ReplyOrIdError> {
        let row = picture.row();
        for number in 0..picture.extent.height as usize {
            if let Ok(room) = segment.bytes().subslice(number * row, row) {
                picture.copy_row(number, room);
            }
        }
        let [width, height] = sides(picture);
        let format = ImageFormat::Z_PIXMAP.into();
        let put = self.connection.shm_put_image(
            self.window,
            self.context,
            width,
            height,
            0,
            0,
            width,
            height,
            0,
            0,
            self.depth,
            format,
            false,
            segment.id,
            0,
        )?;
        let shown = self.shown(picture)?;
        put.check()?;
        Ok(shown)
    }

    /// Sends an image, some rows at a time.
    fn send(
        &self,
        most: usize,
        rows: &mut Vec<u8>,
        picture: &Picture<'_>,
    ) -> Result<Shown, ReplyOrIdError> {
        let row = picture.row();
        let [width, height] = sides(picture);
        let at_once = (most / row.max(1)).max(1);
        for first in (0..usize::from(height)).step_by(at_once) {
            let count = at_once.min(usize::from(height) - first);
            rows.resize(count * row, 0);
            for (number, room) in (first..).zip(rows.chunks_exact_mut(row)) {
                picture.copy_row(number, VolatileSlice::from(room));
            }
            let (format, first, count) = (ImageFormat::Z_PIXMAP, first as i16, count as u16);
            let (window, context, depth) = (self.window, self.context, self.depth);
            let connection = &self.connection;
            let sent = connection
                .put_image(format, window, context, width, count, 0, first, 0, depth, rows)?;
            sent.check()?;
        }
        self.shown(picture)
    }

    /// The answer comes when the server has done what it was asked before.
    fn shown(&self, picture: &Picture<'_>) -> Result<Shown, ReplyOrIdError> {
        let told = self.connection.get_geometry(self.window)?.reply()?;
        let is_same = [told.width, told.height] == sides(picture);
        Ok(Shown { fits: is_same, free: Some(picture.index) })
    }
}

/// The sides of an image: X11 has no larger ones.
fn sides(picture: &Picture<'_>) -> [u16; 2] {
    [picture.extent.width, picture.extent.height].map(|side| side.try_into().unwrap_or(u16::MAX))
}

impl Canvas for WindowCanvas {
    fn show(&mut self, picture: &Picture<'_>) -> Result<Shown, vk::Result> {
        let mut way = std::mem::replace(&mut self.way, Way::Sent(0, Vec::new()));
        let shown = match &mut way {
            Way::Shared(segment) => self.put(segment, picture),
            Way::Sent(most, rows) => self.send(*most, rows, picture),
        };
        self.way = way;
        shown.map_err(lost)
    }
}

impl Drop for WindowCanvas {
    fn drop(&mut self) {
        if let Ok(freed) = self.connection.free_gc(self.context) {
            freed.ignore_error();
        }
        let _ = self.connection.flush();
    }
}
