// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that store transformed vertices and draw them again.

use super::super::buffer::CommandBuffer;
use super::super::drawn::Storing;
use super::super::recording::Recording;
use super::super::stream::HEADER;
use super::binding::part;
use super::draws::address;
use super::interrupted::{BUFFERS, Words};
use crate::raw;
use ash::vk;
use bellhop_protocol::vulkan::{DrawByteCount, TransformBuffer};

impl Recording {
    /// Begins to store vertices in the buffers that are bound, behind what these counters say.
    pub(super) fn begin_storing(&mut self, counters: Words) {
        // The pipeline is bound before, since it stays until the end.
        if !self.tell_all() {
            return;
        }
        self.store(counters);
        self.drawing().storing = Some(Storing { spare: None });
    }

    /// Stores no more, and has these counters say how many bytes there are.
    pub(super) fn finish_storing(&mut self, counters: Words) {
        if self.drawing().storing.take().is_some() {
            self.end_storing(counters);
        }
    }
}

/// The words that counters are, from one on. A counter that is not there has no buffer.
///
/// # Safety
/// The pointers are those of a call that records.
unsafe fn counters(
    first: u32,
    count: u32,
    buffers: *const vk::Buffer,
    offsets: *const vk::DeviceSize,
) -> Words {
    // SAFETY: as the caller says.
    let (buffers, offsets) = unsafe { (raw::slice(buffers, count), raw::slice(offsets, count)) };
    let mut words = [0; BUFFERS];
    for (at, (word, buffer)) in words.iter_mut().skip(first as usize).zip(buffers).enumerate() {
        // SAFETY: as the caller says. Without offsets they are 0.
        *word = unsafe { address(*buffer, offsets.get(at).copied().unwrap_or_default()) };
    }
    words
}

unsafe extern "system" fn bind_stored(
    buffer: vk::CommandBuffer,
    first: u32,
    count: u32,
    buffers: *const vk::Buffer,
    offsets: *const vk::DeviceSize,
    sizes: *const vk::DeviceSize,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (recording, buffers, offsets, sizes) = unsafe {
        let sizes = raw::slice(sizes, count);
        let (buffers, offsets) = (raw::slice(buffers, count), raw::slice(offsets, count));
        (CommandBuffer::record(buffer), buffers, offsets, sizes)
    };
    let stored = recording.drawing().stored.iter_mut().skip(first as usize);
    for (at, ((to, buffer), offset)) in stored.zip(buffers).zip(offsets).enumerate() {
        // SAFETY: as above.
        let (address, length) = unsafe { part(*buffer, *offset, sizes.get(at).copied()) };
        *to = TransformBuffer { address, length, counter: 0 };
    }
}

unsafe extern "system" fn begin(
    buffer: vk::CommandBuffer,
    first: u32,
    count: u32,
    buffers: *const vk::Buffer,
    offsets: *const vk::DeviceSize,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let counters = counters(first, count, buffers, offsets);
        CommandBuffer::record(buffer).begin_storing(counters);
    }
}

unsafe extern "system" fn end(
    buffer: vk::CommandBuffer,
    first: u32,
    count: u32,
    buffers: *const vk::Buffer,
    offsets: *const vk::DeviceSize,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let counters = counters(first, count, buffers, offsets);
        CommandBuffer::record(buffer).finish_storing(counters);
    }
}

unsafe extern "system" fn draw_byte_count(
    buffer: vk::CommandBuffer,
    instances: u32,
    first_instance: u32,
    counter: vk::Buffer,
    counter_offset: vk::DeviceSize,
    offset: u32,
    stride: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (recording, counter) =
        unsafe { (CommandBuffer::record(buffer), address(counter, counter_offset)) };
    let command =
        DrawByteCount { header: HEADER, counter, offset, stride, instances, first_instance };
    recording.draw(0, command);
}

crate::entry::entry_points! {
    vkCmdBindTransformFeedbackBuffersEXT = bind_stored,
    vkCmdBeginTransformFeedbackEXT = begin,
    vkCmdEndTransformFeedbackEXT = end,
    vkCmdDrawIndirectByteCountEXT = draw_byte_count,
}
