// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Commands that draw, and what they take.

use super::super::{Buffer, Kernel, Recorder};
use super::pipeline::BOTH;
use ash::vk;

const GRAPHICS: vk::PipelineBindPoint = vk::PipelineBindPoint::GRAPHICS;

/// How far apart the parameters of draws are in a buffer, and where they are.
#[derive(Clone, Copy)]
pub(crate) struct Parameters<'b> {
    pub(crate) buffer: &'b Buffer<'b>,
    /// The first byte.
    pub(crate) offset: u64,
    /// Bytes from one draw's to the next's.
    pub(crate) stride: u32,
}

// As in `recorder`: each call appends a command of the device's own objects to a command buffer that is being recorded by this
// thread, and passes structures that live until it returns.
impl Recorder<'_> {
    /// Binds a pipeline that draws.
    pub(crate) fn brush(&self, kernel: &Kernel) -> &Self {
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_bind_pipeline(self.raw, GRAPHICS, kernel.pipeline) };
        self
    }

    /// Binds sets of a pipeline that draws, from set 0 on, with dynamic offsets.
    pub(crate) fn brush_sets(
        &self,
        kernel: &Kernel,
        sets: &[vk::DescriptorSet],
        offsets: &[u32],
    ) -> &Self {
        let (raw, layout) = (self.raw, kernel.layout);
        // SAFETY: as above.
        unsafe {
            self.gpu.raw.cmd_bind_descriptor_sets(raw, GRAPHICS, layout, 0, sets, offsets);
        }
        self
    }

    /// Sets push constants of a pipeline that draws.
    pub(crate) fn brush_push(&self, kernel: &Kernel, words: &[u32]) -> &Self {
        let bytes: Vec<u8> = words.iter().copied().flat_map(u32::to_le_bytes).collect();
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_push_constants(self.raw, kernel.layout, BOTH, 0, &bytes) };
        self
    }

    /// Binds buffers of vertices, from a binding on, each from a byte on.
    pub(crate) fn vertices_from(&self, first: u32, buffers: &[(&Buffer<'_>, u64)]) -> &Self {
        let (raw, offsets): (Vec<_>, Vec<_>) =
            buffers.iter().map(|(buffer, offset)| (buffer.raw, *offset)).unzip();
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_bind_vertex_buffers(self.raw, first, &raw, &offsets) };
        self
    }

    /// Binds a buffer of vertices.
    pub(crate) fn vertices(&self, buffer: &Buffer<'_>) -> &Self {
        self.vertices_from(0, &[(buffer, 0)])
    }

    /// Binds a part of a buffer of vertices, which are so far apart, as Vulkan 1.3 says it.
    pub(crate) fn vertices_apart(
        &self,
        buffer: &Buffer<'_>,
        [offset, size, stride]: [u64; 3],
    ) -> &Self {
        let (raw, buffers) = (self.raw, [buffer.raw]);
        let [offset, size, stride] = [[offset], [size], [stride]];
        // SAFETY: as above.
        unsafe {
            self.gpu.raw.cmd_bind_vertex_buffers2(
                raw,
                0,
                &buffers,
                &offset,
                Some(&size),
                Some(&stride),
            );
        }
        self
    }

    /// Binds indices, from a byte on.
    pub(crate) fn indices(&self, buffer: &Buffer<'_>, offset: u64, kind: vk::IndexType) -> &Self {
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_bind_index_buffer(self.raw, buffer.raw, offset, kind) };
        self
    }

    /// Draws the first vertices once.
    pub(crate) fn draw(&self, vertices: u32) -> &Self {
        self.draw_some([vertices, 1], [0, 0])
    }

    /// Draws vertices and instances, from the first of each on.
    pub(crate) fn draw_some(
        &self,
        [vertices, instances]: [u32; 2],
        [vertex, instance]: [u32; 2],
    ) -> &Self {
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_draw(self.raw, vertices, instances, vertex, instance) };
        self
    }

    /// Draws the vertices of the first indices once.
    pub(crate) fn draw_indexed(&self, indices: u32) -> &Self {
        self.draw_indexed_some([indices, 1], [0, 0], 0)
    }

    /// Draws the vertices of indices, and instances, from the first of each on; and adds a number to indices.
    pub(crate) fn draw_indexed_some(
        &self,
        [indices, instances]: [u32; 2],
        [index, instance]: [u32; 2],
        added: i32,
    ) -> &Self {
        let raw = self.raw;
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_draw_indexed(raw, indices, instances, index, added, instance) };
        self
    }

    /// Draws so often what a buffer says.
    pub(crate) fn draw_indirect(&self, from: Parameters<'_>, draws: u32) -> &Self {
        let Parameters { buffer, offset, stride } = from;
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_draw_indirect(self.raw, buffer.raw, offset, draws, stride) };
        self
    }

    /// The same with indices.
    pub(crate) fn draw_indexed_indirect(&self, from: Parameters<'_>, draws: u32) -> &Self {
        let Parameters { buffer, offset, stride } = from;
        let (raw, buffer) = (self.raw, buffer.raw);
        // SAFETY: as above.
        unsafe { self.gpu.raw.cmd_draw_indexed_indirect(raw, buffer, offset, draws, stride) };
        self
    }

    /// Draws what a buffer says, as often as another says, but not more often than this.
    pub(crate) fn draw_indirect_count(
        &self,
        from: Parameters<'_>,
        (count, at): (&Buffer<'_>, u64),
        most: u32,
    ) -> &Self {
        let Parameters { buffer, offset, stride } = from;
        let (raw, buffer, count) = (self.raw, buffer.raw, count.raw);
        // SAFETY: as above.
        unsafe {
            self.gpu.raw.cmd_draw_indirect_count(raw, buffer, offset, count, at, most, stride);
        }
        self
    }

    /// The same with indices.
    pub(crate) fn draw_indexed_indirect_count(
        &self,
        from: Parameters<'_>,
        (count, at): (&Buffer<'_>, u64),
        most: u32,
    ) -> &Self {
        let Parameters { buffer, offset, stride } = from;
        let (raw, buffer, count) = (self.raw, buffer.raw, count.raw);
        let device = &self.gpu.raw;
        // SAFETY: as above.
        unsafe {
            device.cmd_draw_indexed_indirect_count(raw, buffer, offset, count, at, most, stride);
        }
        self
    }
}
