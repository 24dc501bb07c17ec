// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Commands of queries.

use super::buffer::CommandBuffer;
use super::recording::Recording;
use crate::buffer::Buffer;
use crate::handle;
use crate::query::{AVAILABLE, Counted, NUMBER, QueryPool};
use ash::vk::{self, Handle as _};

impl Recording {
    /// Writes the time into a query: in a rendering, into one for each view.
    fn write_time(&mut self, pool: &QueryPool, query: u32) {
        let views = self.views();
        if views.is_none() {
            self.barrier();
        }
        self.timestamp(pool.address(query));
        self.say_available(pool.available(query), views);
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
        let pool = handle::get::<QueryPool>(pool.as_raw());
        CommandBuffer::record(buffer).write_time(pool, query);
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
        let pool = handle::get::<QueryPool>(pool.as_raw());
        CommandBuffer::record(buffer).write_time(pool, query);
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
        let pool = handle::get::<QueryPool>(pool.as_raw());
        let recording = CommandBuffer::record(buffer);
        recording.barrier();
        recording.fill(pool.address(first), u64::from(count) * pool.size(), 0);
        recording.fill(pool.available(first), u64::from(count) * AVAILABLE, 0);
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
    let is_wide = flags.contains(vk::QueryResultFlags::TYPE_64);
    let with_availability = flags.contains(vk::QueryResultFlags::WITH_AVAILABILITY);
    // Values of queries are there when what writes them is done.
    recording.barrier();
    if is_wide && !with_availability && stride == pool.size() {
        return recording.copy(pool.address(first), destination, u64::from(count) * stride);
    }
    for index in 0..count {
        let (query, to) = (first + index, destination + u64::from(index) * stride);
        let (value, numbers) = (pool.address(query), pool.size() / NUMBER);
        let length = if is_wide { NUMBER } else { NUMBER / 2 };
        if is_wide {
            recording.copy(value, to, pool.size());
        } else {
            for number in 0..numbers {
                // The low half comes first in memory.
                recording.copy(value + number * NUMBER, to + number * length, length);
            }
        }
        if with_availability {
            recording.copy(pool.available(query), to + numbers * length, length);
        }
    }
}

unsafe extern "system" fn begin(
    buffer: vk::CommandBuffer,
    pool: vk::QueryPool,
    query: u32,
    flags: vk::QueryControlFlags,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { begin_of_stream(buffer, pool, query, flags, 0) };
}

unsafe extern "system" fn begin_of_stream(
    buffer: vk::CommandBuffer,
    pool: vk::QueryPool,
    query: u32,
    flags: vk::QueryControlFlags,
    stream: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let pool = handle::get::<QueryPool>(pool.as_raw());
        // A time has no beginning.
        if let Some(counted) = pool.counted() {
            let (destination, counted) = (pool.address(query), Counted { stream, ..counted });
            CommandBuffer::record(buffer).begin_query(counted, flags.as_raw(), destination);
        }
    }
}

unsafe extern "system" fn end(buffer: vk::CommandBuffer, pool: vk::QueryPool, query: u32) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let pool = handle::get::<QueryPool>(pool.as_raw());
        // A time has no end.
        if pool.counted().is_some() {
            let (value, available) = (pool.address(query), pool.available(query));
            CommandBuffer::record(buffer).end_query(value, available);
        }
    }
}

/// A query that is being counted knows its stream.
unsafe extern "system" fn end_of_stream(
    buffer: vk::CommandBuffer,
    pool: vk::QueryPool,
    query: u32,
    _stream: u32,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { end(buffer, pool, query) };
}

crate::entry::entry_points! {
    vkCmdWriteTimestamp = write_timestamp,
    vkCmdWriteTimestamp2 = write_timestamp_2,
    vkCmdWriteTimestamp2KHR = write_timestamp_2,
    vkCmdResetQueryPool = reset,
    vkCmdCopyQueryPoolResults = copy_results,
    vkCmdBeginQuery = begin,
    vkCmdEndQuery = end,
    vkCmdBeginQueryIndexedEXT = begin_of_stream,
    vkCmdEndQueryIndexedEXT = end_of_stream,
}
