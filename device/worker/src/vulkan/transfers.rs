// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records what moves bytes: copies, fills and updates.

use super::{Binding, Recorder, VulkanError};
use ash::vk;

impl<'d> Recorder<'d> {
    /// Records a copy between ranges of one length, which do not overlap.
    ///
    /// # Errors
    /// When there are too many.
    pub fn copy(&mut self, from: &Binding<'d>, to: &Binding<'d>) -> Result<(), VulkanError> {
        self.keep(from)?;
        self.keep(to)?;
        let region = [vk::BufferCopy::default()
            .src_offset(from.offset)
            .dst_offset(to.offset)
            .size(from.length.min(to.length))];
        let (from, to) = (from.memory.buffer, to.memory.buffer);
        // SAFETY: the command buffer is being recorded, and the ranges are in the buffers, which `self` keeps.
        unsafe { self.device.raw.cmd_copy_buffer(self.commands.raw, from, to, &region) };
        Ok(())
    }

    /// Records that a range is filled with a word. Address and length are multiples of 4.
    ///
    /// # Errors
    /// When there are too many.
    pub fn fill(&mut self, to: &Binding<'d>, word: u32) -> Result<(), VulkanError> {
        self.keep(to)?;
        let (buffer, raw) = (to.memory.buffer, &self.device.raw);
        // SAFETY: as in `copy`.
        unsafe { raw.cmd_fill_buffer(self.commands.raw, buffer, to.offset, to.length, word) };
        Ok(())
    }

    /// Records that these bytes are written, at most 65,536. Address and length are multiples of 4.
    ///
    /// # Errors
    /// When there are too many.
    pub fn update(&mut self, to: &Binding<'d>, bytes: &[u8]) -> Result<(), VulkanError> {
        self.keep(to)?;
        let (buffer, raw) = (to.memory.buffer, &self.device.raw);
        // SAFETY: as in `copy`. The bytes are copied before the call returns.
        unsafe { raw.cmd_update_buffer(self.commands.raw, buffer, to.offset, bytes) };
        Ok(())
    }
}
