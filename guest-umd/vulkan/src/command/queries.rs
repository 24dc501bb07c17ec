// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands of queries, all of which ask for a time.

use super::buffer::CommandBuffer;
use super::recording::Recording;
use crate::buffer::Buffer;
use crate::handle;
use crate::query::{AVAILABLE, QUERY, QueryPool};
use ash::vk::{self, Handle as _};

impl Recording {
    /// Writes the time into a query.
    fn write_time(&mut self, query: u64) {
        self.barrier();
        self.timestamp(query);
        self.barrier();
        self.fill(query + AVAILABLE, 4, 1);
    }
}

unsafe extern "system" fn write_timestamp(
    buffer: vk::CommandBuffer,
    _stage: vk::PipelineStageFlags,
    pool: vk::QueryPool,
    query: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let query = handle::get::<QueryPool>(pool.as_raw()).address(query);
        CommandBuffer::record(buffer).write_time(query);
    }
}

unsafe extern "system" fn write_timestamp_2(
    buffer: vk::CommandBuffer,
    _stage: vk::PipelineStageFlags2,
    pool: vk::QueryPool,
    query: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let query = handle::get::<QueryPool>(pool.as_raw()).address(query);
        CommandBuffer::record(buffer).write_time(query);
    }
}

unsafe extern "system" fn reset(
    buffer: vk::CommandBuffer,
    pool: vk::QueryPool,
    first: u32,
    count: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let first = handle::get::<QueryPool>(pool.as_raw()).address(first);
        let recording = CommandBuffer::record(buffer);
        recording.barrier();
        recording.fill(first, u64::from(count) * QUERY, 0);
    }
}

/// Copies results. A query without one gives 0: what is copied is decided when this is recorded.
unsafe extern "system" fn copy_results(
    buffer: vk::CommandBuffer,
    pool: vk::QueryPool,
    first: u32,
    count: u32,
    destination: vk::Buffer,
    offset: vk::DeviceSize,
    stride: vk::DeviceSize,
    flags: vk::QueryResultFlags,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (pool, destination, recording) = unsafe {
        let pool = handle::get::<QueryPool>(pool.as_raw());
        let destination = handle::get::<Buffer>(destination.as_raw()).address() + offset;
        (pool, destination, CommandBuffer::record(buffer))
    };
    let length = if flags.contains(vk::QueryResultFlags::TYPE_64) { 8 } else { 4 };
    let with_availability = flags.contains(vk::QueryResultFlags::WITH_AVAILABILITY);
    // Values of queries are there when what writes them is done.
    recording.barrier();
    if with_availability && length == 8 && stride == QUERY {
        return recording.copy(pool.address(first), destination, u64::from(count) * QUERY);
    }
    for index in 0..count {
        let query = pool.address(first + index);
        let to = destination + u64::from(index) * stride;
        // The low half comes first in memory.
        recording.copy(query, to, length);
        if with_availability {
            recording.copy(query + AVAILABLE, to + length, length);
        }
    }
}

unsafe extern "system" fn begin(
    _buffer: vk::CommandBuffer,
    _pool: vk::QueryPool,
    _query: u32,
    _flags: vk::QueryControlFlags,
) {
    // A time has no beginning.
}

unsafe extern "system" fn end(_buffer: vk::CommandBuffer, _pool: vk::QueryPool, _query: u32) {
    // A time has no end.
}

crate::entry::entry_points! {
    vkCmdWriteTimestamp = write_timestamp,
    vkCmdWriteTimestamp2 = write_timestamp_2,
    vkCmdWriteTimestamp2KHR = write_timestamp_2,
    vkCmdResetQueryPool = reset,
    vkCmdCopyQueryPoolResults = copy_results,
    vkCmdBeginQuery = begin,
    vkCmdEndQuery = end,
}
