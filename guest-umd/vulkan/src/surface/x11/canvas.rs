// SPDX-License-Identifier: MIT OR Apache-2.0

//! How images get into a window.

use super::segment::Segment;
use super::window::lost;
use crate::surface::screen::{Canvas, Fits, Picture};
use ash::vk;
use std::sync::Arc;
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
    fn put(&self, segment: &Segment, picture: &Picture<'_>) -> Result<Fits, ReplyOrIdError> {
        let row = picture.row();
        for (number, offset) in picture.rows().enumerate() {
            if let Ok(place) = segment.bytes().subslice(number * row, row) {
                picture.memory.copy_to(offset, place);
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
        // The answer comes when the server has copied.
        let fits = self.fits(picture)?;
        put.check()?;
        Ok(fits)
    }

    /// Sends an image, some rows at a time.
    fn send(
        &self,
        most: usize,
        rows: &mut Vec<u8>,
        picture: &Picture<'_>,
    ) -> Result<Fits, ReplyOrIdError> {
        let row = picture.row();
        let [width, height] = sides(picture);
        let at_once = (most / row.max(1)).max(1);
        let offsets: Vec<usize> = picture.rows().take(height.into()).collect();
        for (number, offsets) in offsets.chunks(at_once).enumerate() {
            rows.resize(offsets.len() * row, 0);
            for (place, offset) in rows.chunks_exact_mut(row).zip(offsets) {
                picture.memory.read(*offset, place);
            }
            let first = (number * at_once) as i16;
            let (format, count) = (ImageFormat::Z_PIXMAP, offsets.len() as u16);
            let (window, context, depth) = (self.window, self.context, self.depth);
            let connection = &self.connection;
            let sent = connection
                .put_image(format, window, context, width, count, 0, first, 0, depth, rows)?;
            sent.check()?;
        }
        self.fits(picture)
    }

    fn fits(&self, picture: &Picture<'_>) -> Result<Fits, ReplyOrIdError> {
        let told = self.connection.get_geometry(self.window)?.reply()?;
        let is_same = [told.width, told.height] == sides(picture);
        Ok(if is_same { Fits::Yes } else { Fits::No })
    }
}

/// The sides of an image: X11 has no larger ones.
fn sides(picture: &Picture<'_>) -> [u16; 2] {
    [picture.extent.width, picture.extent.height].map(|side| side.try_into().unwrap_or(u16::MAX))
}

impl Canvas for WindowCanvas {
    fn show(&mut self, picture: &Picture<'_>) -> Result<Fits, vk::Result> {
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
