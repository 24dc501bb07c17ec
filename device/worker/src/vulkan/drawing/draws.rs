// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records draws, and the buffers that they read. Whoever records them has begun a rendering, has bound a pipeline for it, and
//! has given it what it has no default for.

use crate::vulkan::{Binding, Recorder, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan::{Draw, DrawIndexed};

impl<'d> Recorder<'d> {
    /// Gives draws a vertex buffer, or none on a device that has null descriptors; with the stride, if it is dynamic.
    ///
    /// # Errors
    /// When there are too many ranges of memory.
    pub fn bind_vertices(
        &mut self,
        number: u32,
        buffer: Option<&Binding<'d>>,
        stride: Option<u64>,
    ) -> Result<(), VulkanError> {
        if let Some(buffer) = buffer {
            self.keep(buffer)?;
        }
        let (raw, offset, size) = match buffer {
            Some(Binding { memory, offset, length }) => (memory.buffer, *offset, *length),
            None => (vk::Buffer::null(), 0, vk::WHOLE_SIZE),
        };
        let (commands, stride) = (self.commands.raw, stride.map(|stride| [stride]));
        let stride = stride.as_ref().map(|stride| &stride[..]);
        // SAFETY: the command buffer is being recorded. The range is in the buffer, which `self` keeps.
        unsafe {
            self.device.raw.cmd_bind_vertex_buffers2(
                commands,
                number,
                &[raw],
                &[offset],
                Some(&[size]),
                stride,
            );
        }
        Ok(())
    }

    /// Gives draws an index buffer with indices of a `VkIndexType`, at a multiple of their size.
    ///
    /// # Errors
    /// As [`Self::bind_vertices`].
    pub fn bind_indices(&mut self, buffer: &Binding<'d>, kind: u32) -> Result<(), VulkanError> {
        self.keep(buffer)?;
        let (raw, kind) = (buffer.memory.buffer, vk::IndexType::from_raw(kind as i32));
        // SAFETY: as above.
        unsafe {
            self.device.raw.cmd_bind_index_buffer(self.commands.raw, raw, buffer.offset, kind);
        }
        Ok(())
    }

    /// Records a draw.
    pub fn draw(&self, draw: &Draw) {
        let Draw { vertices, instances, first_vertex, first_instance, .. } = *draw;
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // SAFETY: the command buffer is being recorded. What draws need is there, as the module says.
        unsafe { raw.cmd_draw(commands, vertices, instances, first_vertex, first_instance) };
    }

    /// Records a draw of vertices that indices name, which are in the index buffer.
    pub fn draw_indexed(&self, draw: &DrawIndexed) {
        let DrawIndexed { indices, instances, first_index, vertex_offset, first_instance, .. } =
            *draw;
        // SAFETY: as above.
        unsafe {
            self.device.raw.cmd_draw_indexed(
                self.commands.raw,
                indices,
                instances,
                first_index,
                vertex_offset,
                first_instance,
            );
        }
    }

    /// Records so many draws as structures in memory say, or as a number in memory says, of which there is room for so many.
    ///
    /// # Errors
    /// As [`Self::bind_vertices`].
    pub fn draw_indirect(
        &mut self,
        structures: &Binding<'d>,
        count: Option<&Binding<'d>>,
        is_indexed: bool,
        [most, stride]: [u32; 2],
    ) -> Result<(), VulkanError> {
        self.keep(structures)?;
        if let Some(count) = count {
            self.keep(count)?;
        }
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        let (buffer, at) = (structures.memory.buffer, structures.offset);
        // SAFETY: as above. So many structures are in the buffers, at multiples of 4, and so is the number.
        unsafe {
            match count.map(|count| (count.memory.buffer, count.offset)) {
                None if is_indexed => {
                    raw.cmd_draw_indexed_indirect(commands, buffer, at, most, stride);
                }
                None => raw.cmd_draw_indirect(commands, buffer, at, most, stride),
                Some((number, place)) if is_indexed => raw.cmd_draw_indexed_indirect_count(
                    commands, buffer, at, number, place, most, stride,
                ),
                Some((number, place)) => {
                    raw.cmd_draw_indirect_count(commands, buffer, at, number, place, most, stride);
                }
            }
        }
        Ok(())
    }
}
