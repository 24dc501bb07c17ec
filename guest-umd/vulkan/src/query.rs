// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Query pools. A query is two 64-bit words in memory: its value, and whether there is one.

use crate::device::Device;
use crate::device::wait::{self, Deadline, Left};
use crate::heap::Piece;
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::handoff::publication;
use std::ffi::c_void;

/// Bytes of a query.
pub(crate) const QUERY: u64 = 16;
/// Where in a query the word is that says whether there is a value.
pub(crate) const AVAILABLE: u64 = 8;

/// A query pool.
pub(crate) struct QueryPool {
    memory: Piece,
    count: u32,
}

impl QueryPool {
    fn new(device: &Device, count: u32) -> Result<Self, vk::Result> {
        let memory = device.heap.take(count.max(1) as usize * QUERY as usize)?;
        let pool = Self { memory, count };
        pool.reset(0, count);
        Ok(pool)
    }

    /// The GPU virtual address of a query.
    pub(crate) fn address(&self, query: u32) -> u64 {
        self.memory.gpu_va() + u64::from(query) * QUERY
    }

    /// Forgets the values of queries.
    fn reset(&self, first: u32, count: u32) {
        let end = first.saturating_add(count).min(self.count);
        for query in first..end {
            self.memory.write(query as usize * QUERY as usize, &[0; QUERY as usize]);
        }
    }

    /// A query's value, if there is one.
    fn value(&self, query: u32) -> Option<u64> {
        let place = query as usize * QUERY as usize;
        let available = self.memory.long(place + AVAILABLE as usize);
        (publication::read(available) != 0).then(|| publication::read(self.memory.long(place)))
    }
}

/// How a program wants its results.
struct Results<'r> {
    bytes: &'r mut [u8],
    stride: usize,
    flags: vk::QueryResultFlags,
}

impl Results<'_> {
    /// Writes a number of the result at `index`.
    fn put(&mut self, index: usize, number: usize, value: u64) {
        let is_wide = self.flags.contains(vk::QueryResultFlags::TYPE_64);
        let value = value.to_ne_bytes();
        // The half with the low bits.
        let half = if cfg!(target_endian = "little") { 0..4 } else { 4..8 };
        let value = value.get(if is_wide { 0..8 } else { half }).unwrap_or_default();
        let at = index.saturating_mul(self.stride).saturating_add(number * value.len());
        let end = at.saturating_add(value.len());
        if let Some(place) = self.bytes.get_mut(at..end) {
            place.copy_from_slice(value);
        }
    }

    /// Writes a result. Returns whether there is one.
    fn put_result(&mut self, index: usize, value: Option<u64>) -> bool {
        let partial = self.flags.contains(vk::QueryResultFlags::PARTIAL).then_some(0);
        if let Some(value) = value.or(partial) {
            self.put(index, 0, value);
        }
        if self.flags.contains(vk::QueryResultFlags::WITH_AVAILABILITY) {
            self.put(index, 1, value.is_some().into());
        }
        value.is_some()
    }
}

/// A query's value, if there is one. Waits for it if `flags` say so, until the device is lost.
fn value(
    device: &Device,
    pool: &QueryPool,
    query: u32,
    flags: vk::QueryResultFlags,
) -> Option<u64> {
    let mut value = pool.value(query);
    if value.is_none() && flags.contains(vk::QueryResultFlags::WAIT) {
        let look = || {
            // Before the look: a queue that goes on after it ends the wait.
            let progress = device.progress();
            value = pool.value(query);
            value.is_none().then_some(Left::Also(progress))
        };
        // A loss is told with all results.
        let _ = wait::wait(device, true, &Deadline::NEVER, None, look);
    }
    value
}

unsafe extern "system" fn create(
    device: vk::Device,
    information: *const vk::QueryPoolCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    pool: *mut vk::QueryPool,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        match QueryPool::new(Device::get(device), (*information).query_count) {
            Ok(made) => *pool = vk::QueryPool::from_raw(handle::create(made)),
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    _device: vk::Device,
    pool: vk::QueryPool,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    // SAFETY: the program destroys it once.
    unsafe { handle::destroy::<QueryPool>(pool.as_raw()) };
}

unsafe extern "system" fn reset(_device: vk::Device, pool: vk::QueryPool, first: u32, count: u32) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { handle::get::<QueryPool>(pool.as_raw()) }.reset(first, count);
}

unsafe extern "system" fn results(
    device: vk::Device,
    pool: vk::QueryPool,
    first: u32,
    count: u32,
    size: usize,
    data: *mut c_void,
    stride: vk::DeviceSize,
    flags: vk::QueryResultFlags,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (device, pool, bytes) = unsafe {
        let bytes = raw::slice_mut(data.cast::<u8>(), u32::try_from(size).unwrap_or(u32::MAX));
        (Device::get(device), handle::get::<QueryPool>(pool.as_raw()), bytes)
    };
    let mut results = Results { bytes, stride: stride as usize, flags };
    let mut are_all_there = true;
    let end = first.saturating_add(count).min(pool.count);
    for (index, query) in (first..end).enumerate() {
        are_all_there &= results.put_result(index, value(device, pool, query, flags));
    }
    match (device.is_lost(), are_all_there) {
        (true, _) => vk::Result::ERROR_DEVICE_LOST,
        (false, true) => vk::Result::SUCCESS,
        (false, false) => vk::Result::NOT_READY,
    }
}

crate::entry::entry_points! {
    vkCreateQueryPool = create,
    vkDestroyQueryPool = destroy,
    vkResetQueryPool = reset,
    vkResetQueryPoolEXT = reset,
    vkGetQueryPoolResults = results,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_width_and_the_place_that_was_asked_for() {
        let mut bytes = [0xEE; 40];
        let flags = vk::QueryResultFlags::WITH_AVAILABILITY;
        let mut results = Results { bytes: &mut bytes, stride: 12, flags };
        assert!(results.put_result(0, Some(0x1_0000_0002)));
        assert!(!results.put_result(1, None));
        assert!(results.put_result(3, Some(5)), "what there is no room for is left out");
        let words: Vec<_> =
            bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        let old = 0xEEEE_EEEE;
        assert_eq!(words, [2, 1, old, old, 0, old, old, old, old, 5]);
    }

    #[test]
    fn wide_and_partial_results() {
        let mut bytes = [0xEE; 16];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::PARTIAL;
        let mut results = Results { bytes: &mut bytes, stride: 8, flags };
        assert!(results.put_result(0, Some(u64::MAX - 1)));
        assert!(!results.put_result(1, None));
        let words: Vec<_> =
            bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        assert_eq!(words, [u64::MAX - 1, 0]);
    }
}
