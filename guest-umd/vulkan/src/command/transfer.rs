// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that copy, fill and write buffers.

use super::buffer::CommandBuffer;
use crate::buffer::Buffer;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use std::ffi::c_void;

unsafe extern "system" fn copy(
    buffer: vk::CommandBuffer,
    source: vk::Buffer,
    destination: vk::Buffer,
    count: u32,
    regions: *const vk::BufferCopy,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let source = handle::get::<Buffer>(source.as_raw()).address();
        let destination = handle::get::<Buffer>(destination.as_raw()).address();
        let recording = CommandBuffer::record(buffer);
        for region in raw::slice(regions, count) {
            let vk::BufferCopy { src_offset, dst_offset, size } = *region;
            recording.copy(source + src_offset, destination + dst_offset, size);
        }
    }
}

unsafe extern "system" fn copy_2(
    buffer: vk::CommandBuffer,
    information: *const vk::CopyBufferInfo2<'_>,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let information = &*information;
        let source = handle::get::<Buffer>(information.src_buffer.as_raw()).address();
        let destination = handle::get::<Buffer>(information.dst_buffer.as_raw()).address();
        let recording = CommandBuffer::record(buffer);
        for region in raw::slice(information.p_regions, information.region_count) {
            let vk::BufferCopy2 { src_offset, dst_offset, size, .. } = *region;
            recording.copy(source + src_offset, destination + dst_offset, size);
        }
    }
}

unsafe extern "system" fn fill(
    buffer: vk::CommandBuffer,
    destination: vk::Buffer,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    word: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let destination = handle::get::<Buffer>(destination.as_raw());
        let all = destination.size().saturating_sub(offset);
        let size = if size == vk::WHOLE_SIZE { all } else { size };
        let address = destination.address() + offset;
        CommandBuffer::record(buffer).fill(address, size / 4 * 4, word);
    }
}

unsafe extern "system" fn update(
    buffer: vk::CommandBuffer,
    destination: vk::Buffer,
    offset: vk::DeviceSize,
    size: vk::DeviceSize,
    data: *const c_void,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let address = handle::get::<Buffer>(destination.as_raw()).address() + offset;
        let bytes = raw::slice(data.cast::<u8>(), size as u32);
        CommandBuffer::record(buffer).update(address, bytes);
    }
}

crate::entry::entry_points! {
    vkCmdCopyBuffer = copy,
    vkCmdCopyBuffer2 = copy_2,
    vkCmdCopyBuffer2KHR = copy_2,
    vkCmdFillBuffer = fill,
    vkCmdUpdateBuffer = update,
}
