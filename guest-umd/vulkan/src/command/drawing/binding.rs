// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that bind vertex buffers and index buffers.

use super::super::buffer::CommandBuffer;
use super::super::drawn::{Indices, stale};
use crate::buffer::Buffer;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};

/// Where what is bound of a buffer is, and how many bytes: so many, or all from an offset on.
///
/// # Safety
/// The buffer is live.
pub(super) unsafe fn part(
    buffer: vk::Buffer,
    offset: vk::DeviceSize,
    size: Option<vk::DeviceSize>,
) -> (u64, u64) {
    // SAFETY: the caller says so.
    let buffer = unsafe { handle::get::<Buffer>(buffer.as_raw()) };
    let rest = buffer.size().saturating_sub(offset);
    (buffer.address() + offset, size.filter(|size| *size != vk::WHOLE_SIZE).unwrap_or(rest))
}

/// Binds vertex buffers from a binding on. Sizes and strides may be left out.
///
/// # Safety
/// The handles are those of a call that records.
unsafe fn bind_buffers(
    buffer: vk::CommandBuffer,
    first: u32,
    buffers: &[vk::Buffer],
    offsets: &[vk::DeviceSize],
    sizes: &[vk::DeviceSize],
    strides: &[vk::DeviceSize],
) {
    // SAFETY: as the caller says.
    let recording = unsafe { CommandBuffer::record(buffer) };
    recording.stale |= stale::VERTICES;
    let vertices = &mut recording.drawing().vertices;
    let all = (first..).zip(buffers).zip(offsets).enumerate();
    for (at, ((binding, buffer), offset)) in all {
        let stride = strides.get(at).copied();
        if buffer.is_null() {
            vertices.bind(binding, 0, 0, stride);
            continue;
        }
        // SAFETY: as the caller says.
        let (address, length) = unsafe { part(*buffer, *offset, sizes.get(at).copied()) };
        vertices.bind(binding, address, length, stride);
    }
}

unsafe extern "system" fn bind_vertices(
    buffer: vk::CommandBuffer,
    first: u32,
    count: u32,
    buffers: *const vk::Buffer,
    offsets: *const vk::DeviceSize,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (buffers, offsets) = (raw::slice(buffers, count), raw::slice(offsets, count));
        bind_buffers(buffer, first, buffers, offsets, &[], &[]);
    }
}

unsafe extern "system" fn bind_vertices_2(
    buffer: vk::CommandBuffer,
    first: u32,
    count: u32,
    buffers: *const vk::Buffer,
    offsets: *const vk::DeviceSize,
    sizes: *const vk::DeviceSize,
    strides: *const vk::DeviceSize,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (buffers, offsets) = (raw::slice(buffers, count), raw::slice(offsets, count));
        let (sizes, strides) = (raw::slice(sizes, count), raw::slice(strides, count));
        bind_buffers(buffer, first, buffers, offsets, sizes, strides);
    }
}

unsafe extern "system" fn bind_indices(
    buffer: vk::CommandBuffer,
    indices: vk::Buffer,
    offset: vk::DeviceSize,
    kind: vk::IndexType,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (recording, (address, length)) =
        unsafe { (CommandBuffer::record(buffer), part(indices, offset, None)) };
    let bound = Indices { kind: kind.as_raw() as u32, address, length };
    if recording.drawing().indices.replace(bound) != Some(bound) {
        recording.stale |= stale::INDICES;
    }
}

crate::entry::entry_points! {
    vkCmdBindVertexBuffers = bind_vertices,
    vkCmdBindVertexBuffers2 = bind_vertices_2,
    vkCmdBindVertexBuffers2EXT = bind_vertices_2,
    vkCmdBindIndexBuffer = bind_indices,
}
