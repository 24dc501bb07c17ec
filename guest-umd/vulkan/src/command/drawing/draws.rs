// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands that draw.

use super::super::buffer::CommandBuffer;
use super::super::stream::HEADER;
use crate::buffer::Buffer;
use crate::handle;
use ash::vk::{self, Handle as _};
use bellhop_protocol::vulkan::{Draw, DrawIndexed, DrawIndirect};

/// What a draw reads its numbers from: `VkDrawIndirectCommand`s or `VkDrawIndexedIndirectCommand`s.
const PLAIN: u32 = 0;
const INDEXED: u32 = 1;

unsafe extern "system" fn draw(
    buffer: vk::CommandBuffer,
    vertices: u32,
    instances: u32,
    first_vertex: u32,
    first_instance: u32,
) {
    let command = Draw { header: HEADER, vertices, instances, first_vertex, first_instance };
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.draw(0, command);
}

unsafe extern "system" fn draw_indexed(
    buffer: vk::CommandBuffer,
    indices: u32,
    instances: u32,
    first_index: u32,
    vertex_offset: i32,
    first_instance: u32,
) {
    let command = DrawIndexed {
        header: HEADER,
        indices,
        instances,
        first_index,
        vertex_offset,
        first_instance,
        reserved: 0,
    };
    // SAFETY: the call is the only one with this handle.
    unsafe { CommandBuffer::record(buffer) }.draw(0, command);
}

/// The address of a byte of a buffer, or 0 of none.
///
/// # Safety
/// The buffer is live, or null.
pub(super) unsafe fn address(buffer: vk::Buffer, offset: vk::DeviceSize) -> u64 {
    if buffer.is_null() {
        return 0;
    }
    // SAFETY: the caller says that it is live.
    unsafe { handle::get::<Buffer>(buffer.as_raw()) }.address() + offset
}

/// Records draws whose numbers are in memory: as many as `count` has, if that is not null.
///
/// # Safety
/// The handles are those of a call that records.
unsafe fn indirect(
    buffer: vk::CommandBuffer,
    kind: u32,
    draws: (vk::Buffer, vk::DeviceSize),
    count: (vk::Buffer, vk::DeviceSize),
    (most, stride): (u32, u32),
) {
    // SAFETY: as the caller says.
    let (recording, address, count) = unsafe {
        let count = address(count.0, count.1);
        (CommandBuffer::record(buffer), address(draws.0, draws.1), count)
    };
    // Of one draw the stride does not count.
    let stride = if most > 1 { stride } else { 0 };
    if most > 0 {
        recording.draw(kind, DrawIndirect { header: HEADER, address, count, most, stride });
    }
}

/// No buffer with a number of draws.
const NO_COUNT: (vk::Buffer, vk::DeviceSize) = (vk::Buffer::null(), 0);

unsafe extern "system" fn draw_indirect(
    buffer: vk::CommandBuffer,
    draws: vk::Buffer,
    offset: vk::DeviceSize,
    count: u32,
    stride: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { indirect(buffer, PLAIN, (draws, offset), NO_COUNT, (count, stride)) };
}

unsafe extern "system" fn draw_indexed_indirect(
    buffer: vk::CommandBuffer,
    draws: vk::Buffer,
    offset: vk::DeviceSize,
    count: u32,
    stride: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { indirect(buffer, INDEXED, (draws, offset), NO_COUNT, (count, stride)) };
}

unsafe extern "system" fn draw_indirect_count(
    buffer: vk::CommandBuffer,
    draws: vk::Buffer,
    offset: vk::DeviceSize,
    count: vk::Buffer,
    count_offset: vk::DeviceSize,
    most: u32,
    stride: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { indirect(buffer, PLAIN, (draws, offset), (count, count_offset), (most, stride)) };
}

unsafe extern "system" fn draw_indexed_indirect_count(
    buffer: vk::CommandBuffer,
    draws: vk::Buffer,
    offset: vk::DeviceSize,
    count: vk::Buffer,
    count_offset: vk::DeviceSize,
    most: u32,
    stride: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { indirect(buffer, INDEXED, (draws, offset), (count, count_offset), (most, stride)) };
}

crate::entry::entry_points! {
    vkCmdDraw = draw,
    vkCmdDrawIndexed = draw_indexed,
    vkCmdDrawIndirect = draw_indirect,
    vkCmdDrawIndexedIndirect = draw_indexed_indirect,
    vkCmdDrawIndirectCount = draw_indirect_count,
    vkCmdDrawIndirectCountKHR = draw_indirect_count,
    vkCmdDrawIndexedIndirectCount = draw_indexed_indirect_count,
    vkCmdDrawIndexedIndirectCountKHR = draw_indexed_indirect_count,
}
