// SPDX-License-Identifier: MIT OR Apache-2.0

//! The pointer, which the display draws over a source.

use super::error::DisplayError;
use super::object::Display;
use crate::device::Device;
use crate::memory::allocation::pages;
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::flip::{POINTER_VISIBLE, SetPointerPosition, SetPointerShape};

/// A pointer's shape.
#[derive(Debug, Clone, Copy)]
pub struct PointerShape<'a> {
    /// Pixels of a line, 1 to 64.
    pub width: u32,
    /// Lines, 1 to 64.
    pub height: u32,
    /// The point from the left and from above that lies at the pointer's position.
    pub hot_spot: (u32, u32),
    /// Its pixels, `A8R8G8B8`, alpha not multiplied, line by line.
    pub pixels: &'a [u32],
}

impl Display {
    /// Gives the pointer of a source a shape. The device copies the pixels.
    ///
    /// # Errors
    /// [`DisplayError::BadSurface`] if these are not the shape's pixels, [`DisplayError::NotInTopology`]; a refusal if the
    /// shape is larger than a pointer can be.
    pub fn set_pointer(
        &self,
        source: u32,
        device: &Device,
        shape: &PointerShape<'_>,
    ) -> Result<(), DisplayError> {
        let PointerShape { width, height, hot_spot: (hot_x, hot_y), pixels } = *shape;
        if u64::from(width) * u64::from(height) != pixels.len() as u64 || pixels.is_empty() {
            return Err(DisplayError::BadSurface("a pointer's pixels are its width by its height"));
        }
        let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        let memory = device.create_allocation(AllocationKind::LOCAL, pages(bytes.len() as u64))?;
        memory.write(0, &bytes)?;
        let (allocation, pitch) = (memory.handle(), width.saturating_mul(4));
        let request =
            SetPointerShape { source, width, height, pitch, hot_x, hot_y, allocation, offset: 0 };
        self.session().call(&request).map_err(DisplayError::of_source(source))
    }

    /// Takes the shape of a source's pointer away.
    ///
    /// # Errors
    /// [`DisplayError::NotInTopology`]
    pub fn remove_pointer(&self, source: u32) -> Result<(), DisplayError> {
        let [width, height, pitch, hot_x, hot_y] = [0; 5];
        let allocation = Handle(0);
        let request =
            SetPointerShape { source, width, height, pitch, hot_x, hot_y, allocation, offset: 0 };
        self.session().call(&request).map_err(DisplayError::of_source(source))
    }

    /// Moves the pointer of a source, in pixels from its upper left corner; it may lie outside.
    ///
    /// # Errors
    /// [`DisplayError::NotInTopology`]
    pub fn move_pointer(
        &self,
        source: u32,
        (x, y): (i32, i32),
        visible: bool,
    ) -> Result<(), DisplayError> {
        let flags = if visible { POINTER_VISIBLE } else { 0 };
        let request = SetPointerPosition { source, x, y, flags };
        self.session().call(&request).map_err(DisplayError::of_source(source))
    }
}
