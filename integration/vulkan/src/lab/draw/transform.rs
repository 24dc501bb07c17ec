// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Transformed vertices that are stored and drawn again, and conditions.

use super::super::{Buffer, Recorder};
use ash::vk;

/// A buffer of words that say how many bytes other buffers have, from the first on, and how many of these there are.
pub(crate) type Counters<'b> = Option<(&'b Buffer<'b>, u32)>;

/// The handles and offsets of counters.
fn places(counters: Counters<'_>) -> (Vec<vk::Buffer>, Vec<vk::DeviceSize>) {
    let Some((buffer, count)) = counters else { return (Vec::new(), Vec::new()) };
    (0..count).map(|at| (buffer.raw, u64::from(at) * 4)).unzip()
}

// As in `recorder`.
impl Recorder<'_> {
    /// Has vertices stored in these buffers, behind what counters say.
    pub(crate) fn keep(&self, buffers: &[(&Buffer<'_>, u64)], counters: Counters<'_>) -> &Self {
        let functions = self.gpu.functions.transform.fp();
        let raw: Vec<_> = buffers.iter().map(|(buffer, _)| buffer.raw).collect();
        let sizes: Vec<_> = buffers.iter().map(|(_, size)| *size).collect();
        let (zeros, count) = (vec![0; buffers.len()], buffers.len() as u32);
        let (words, offsets) = places(counters);
        // SAFETY: as in `recorder`. The pointers are to as many as is said.
        unsafe {
            (functions.cmd_bind_transform_feedback_buffers_ext)(
                self.raw,
                0,
                count,
                raw.as_ptr(),
                zeros.as_ptr(),
                sizes.as_ptr(),
            );
            let (words, offsets, count) = (words.as_ptr(), offsets.as_ptr(), words.len() as u32);
            (functions.cmd_begin_transform_feedback_ext)(self.raw, 0, count, words, offsets);
        }
        self
    }

    /// Has vertices stored no more, and counters say how many bytes there are.
    pub(crate) fn keep_no_more(&self, counters: Counters<'_>) -> &Self {
        let (words, offsets) = places(counters);
        let end = self.gpu.functions.transform.fp().cmd_end_transform_feedback_ext;
        // SAFETY: as above.
        unsafe { end(self.raw, 0, words.len() as u32, words.as_ptr(), offsets.as_ptr()) };
        self
    }

    /// Draws as many vertices of so many bytes as a counter says.
    pub(crate) fn draw_kept(&self, counter: &Buffer<'_>, stride: u32) -> &Self {
        let draw = self.gpu.functions.transform.fp().cmd_draw_indirect_byte_count_ext;
        // SAFETY: as in `recorder`.
        unsafe { draw(self.raw, 1, 0, counter.raw, 0, 0, stride) };
        self
    }

    /// Begins a query of a stream.
    pub(crate) fn begin_query_of(&self, pool: vk::QueryPool, query: u32, stream: u32) -> &Self {
        let begin = self.gpu.functions.transform.fp().cmd_begin_query_indexed_ext;
        // SAFETY: as in `recorder`.
        unsafe { begin(self.raw, pool, query, vk::QueryControlFlags::empty(), stream) };
        self
    }

    /// Ends a query of a stream.
    pub(crate) fn end_query_of(&self, pool: vk::QueryPool, query: u32, stream: u32) -> &Self {
        let end = self.gpu.functions.transform.fp().cmd_end_query_indexed_ext;
        // SAFETY: as in `recorder`.
        unsafe { end(self.raw, pool, query, stream) };
        self
    }

    /// Has what follows done if a word of a buffer is not 0, or, inverted, if it is.
    pub(crate) fn only_if(&self, buffer: &Buffer<'_>, word: u64, inverted: bool) -> &Self {
        let mut information =
            vk::ConditionalRenderingBeginInfoEXT::default().buffer(buffer.raw).offset(word * 4);
        if inverted {
            information.flags = vk::ConditionalRenderingFlagsEXT::INVERTED;
        }
        let begin = self.gpu.functions.conditional.fp().cmd_begin_conditional_rendering_ext;
        // SAFETY: as in `recorder`.
        unsafe { begin(self.raw, &raw const information) };
        self
    }

    /// Has what follows done.
    pub(crate) fn in_any_case(&self) -> &Self {
        let end = self.gpu.functions.conditional.fp().cmd_end_conditional_rendering_ext;
        // SAFETY: as in `recorder`.
        unsafe { end(self.raw) };
        self
    }

    /// Sets how lines are stippled.
    pub(crate) fn stipple(&self, factor: u32, pattern: u16) -> &Self {
        let set = self.gpu.functions.lines.fp().cmd_set_line_stipple_ext;
        // SAFETY: as in `recorder`.
        unsafe { set(self.raw, factor, pattern) };
        self
    }
}
