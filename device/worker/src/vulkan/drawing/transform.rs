// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records that transformed vertices are stored, and drawn again, and that what is drawn depends on a word.

use crate::vulkan::{Binding, Recorder, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::DrawByteCount;

/// A buffer that transformed vertices are stored in, and what says how many bytes it has already.
pub struct Stored<'d> {
    /// The buffer.
    pub buffer: Binding<'d>,
    /// A number of 32 bits.
    pub counter: Option<Binding<'d>>,
}

/// Buffers and offsets of counters. A counter that is not there is in no buffer.
fn places<'b, 'd: 'b>(
    all: impl Iterator<Item = Option<&'b Binding<'d>>>,
) -> (Vec<vk::Buffer>, Vec<vk::DeviceSize>) {
    let place = |counter: Option<&Binding<'_>>| match counter {
        Some(counter) => (counter.memory.buffer, counter.offset),
        None => (vk::Buffer::null(), 0),
    };
    all.map(place).unzip()
}

impl<'d> Recorder<'d> {
    /// Records that transformed vertices are stored from here on, in a rendering, with the bound pipeline. `None`: there is no such
    /// buffer.
    ///
    /// # Errors
    /// When there are too many ranges of memory.
    pub fn begin_transform(&mut self, stored: &[Option<Stored<'d>>]) -> Result<(), VulkanError> {
        for Stored { buffer, counter } in stored.iter().flatten() {
            self.keep(buffer)?;
            if let Some(counter) = counter {
                self.keep(counter)?;
            }
        }
        let functions = self.device.transform.fp();
        for (number, stored) in (0..).zip(stored) {
            let Some(Stored { buffer, .. }) = stored else { continue };
            let (raw, offset, size) = (buffer.memory.buffer, buffer.offset, buffer.length);
            let bind = functions.cmd_bind_transform_feedback_buffers_ext;
            // SAFETY: the command buffer is being recorded. The range is in the buffer, which `self` keeps, and the pointers are to one
            // each.
            unsafe {
                bind(
                    self.commands.raw,
                    number,
                    1,
                    &raw const raw,
                    &raw const offset,
                    &raw const size,
                );
            }
        }
        let counters = stored.iter().map(|it| it.as_ref().and_then(|it| it.counter.as_ref()));
        let (buffers, offsets) = places(counters);
        let (begin, count) = (functions.cmd_begin_transform_feedback_ext, buffers.len() as u32);
        // SAFETY: as above, and the pointers are to as many. A rendering has begun, and a pipeline is bound.
        unsafe { begin(self.commands.raw, 0, count, buffers.as_ptr(), offsets.as_ptr()) };
        Ok(())
    }

    /// Records that transformed vertices are stored no more, and where the numbers of bytes go that the buffers have.
    ///
    /// # Errors
    /// As [`Self::begin_transform`].
    pub fn end_transform(&mut self, to: &[Option<Binding<'d>>]) -> Result<(), VulkanError> {
        for counter in to.iter().flatten() {
            self.keep(counter)?;
        }
        let (buffers, offsets) = places(to.iter().map(Option::as_ref));
        let end = self.device.transform.fp().cmd_end_transform_feedback_ext;
        let count = buffers.len() as u32;
        // SAFETY: the command buffer is being recorded, and vertices are being stored. The ranges are in buffers that `self` keeps, and
        // the pointers are to as many.
        unsafe { end(self.commands.raw, 0, count, buffers.as_ptr(), offsets.as_ptr()) };
        Ok(())
    }

    /// Records a draw of as many vertices as a number of bytes in memory says.
    ///
    /// # Errors
    /// As [`Self::begin_transform`].
    pub fn draw_byte_count(
        &mut self,
        draw: &DrawByteCount,
        counter: &Binding<'d>,
    ) -> Result<(), VulkanError> {
        self.keep(counter)?;
        // SAFETY: the command buffer is being recorded. What draws need is there, and the number is in a buffer that `self` keeps.
        unsafe {
            (self.device.transform.fp().cmd_draw_indirect_byte_count_ext)(
                self.commands.raw,
                draw.instances,
                draw.first_instance,
                counter.memory.buffer,
                counter.offset,
                draw.offset,
                draw.stride,
            );
        }
        Ok(())
    }

    /// Records that draws and dispatches do nothing from here on if a word is 0, or if it is not.
    ///
    /// # Errors
    /// As [`Self::begin_transform`].
    pub fn begin_conditional(
        &mut self,
        word: &Binding<'d>,
        is_inverted: bool,
    ) -> Result<(), VulkanError> {
        self.keep(word)?;
        let mut information = vk::ConditionalRenderingBeginInfoEXT::default()
            .buffer(word.memory.buffer)
            .offset(word.offset);
        if is_inverted {
            information.flags = vk::ConditionalRenderingFlagsEXT::INVERTED;
        }
        // SAFETY: the command buffer is being recorded. The word is in a buffer that `self` keeps.
        unsafe {
            let begin = self.device.conditional.fp().cmd_begin_conditional_rendering_ext;
            begin(self.commands.raw, &raw const information);
        }
        Ok(())
    }

    /// Records that they do what they do again.
    pub fn end_conditional(&self) {
        // SAFETY: the command buffer is being recorded, and this has begun in it.
        unsafe {
            (self.device.conditional.fp().cmd_end_conditional_rendering_ext)(self.commands.raw);
        }
    }
}
