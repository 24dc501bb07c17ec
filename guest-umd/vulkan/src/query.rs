// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Query pools. The value of a query is one number of 64 bits in memory, or several; those of all queries follow each other, since
//! one command may write several. Behind them there is a word for each query that says whether there is a value.

use crate::device::Device;
use crate::device::vain::looked_in_vain;
use crate::device::wait::{self, Deadline, Left};
use crate::heap::{Heap, Piece};
use crate::{handle, raw};
use ash::vk::{self, Handle as _};
use bellhop_protocol::handoff::publication;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// Bytes of a number.
pub(crate) const NUMBER: u64 = 8;
/// Bytes of the word that says whether there is a value.
pub(crate) const AVAILABLE: u64 = 8;

/// What is counted between the beginning of a query and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    /// `VkQueryType`.
    pub(crate) kind: u32,
    /// `VkQueryPipelineStatisticFlags`.
    pub(crate) statistics: u32,
    /// The stream of primitives that it is of.
    pub(crate) stream: u32,
}

impl Counted {
    /// Numbers of a value.
    fn numbers(self) -> u64 {
        if self.kind == vk::QueryType::TRANSFORM_FEEDBACK_STREAM_EXT.as_raw() as u32 {
            return 2;
        }
        u64::from(self.statistics.count_ones().max(1))
    }
}

/// A query pool.
pub(crate) struct QueryPool {
    memory: Piece,
    count: u32,
    /// What is counted, unless it is a time.
    counted: Option<Counted>,
    /// Numbers of a value.
    numbers: u64,
}

impl QueryPool {
    /// A pool of so many queries that are of times, or of what is counted.
    fn new(heap: &Heap, count: u32, counted: Option<Counted>) -> Result<Self, vk::Result> {
        let numbers = counted.map_or(1, Counted::numbers);
        let bytes = u64::from(count.max(1)) * (numbers * NUMBER + AVAILABLE);
        let memory = heap.take(bytes as usize)?;
        let pool = Self { memory, count, counted, numbers };
        pool.reset(0, count);
        Ok(pool)
    }

    /// What is counted, unless it is a time.
    pub(crate) const fn counted(&self) -> Option<Counted> {
        self.counted
    }

    /// Bytes of a value.
    pub(crate) const fn size(&self) -> u64 {
        self.numbers * NUMBER
    }

    /// Where in the memory a query's value is.
    fn place(&self, query: u32) -> u64 {
        u64::from(query) * self.size()
    }

    /// Where in the memory the word is that says whether there is a value.
    fn available_place(&self, query: u32) -> u64 {
        self.place(self.count) + u64::from(query) * AVAILABLE
    }

    /// The GPU virtual address of a query's value.
    pub(crate) fn address(&self, query: u32) -> u64 {
        self.memory.gpu_va() + self.place(query)
    }

    /// The GPU virtual address of the word that says whether there is a value.
    pub(crate) fn available(&self, query: u32) -> u64 {
        self.memory.gpu_va() + self.available_place(query)
    }

    /// Forgets the values of queries.
    fn reset(&self, first: u32, count: u32) {
        let end = first.saturating_add(count).min(self.count);
        for query in first..end {
            for number in 0..self.numbers {
                let place = self.place(query) + number * NUMBER;
                self.memory.long(place as usize).store(0, Ordering::Relaxed);
            }
            self.memory.long(self.available_place(query) as usize).store(0, Ordering::Relaxed);
        }
    }

    /// A query's value, if there is one.
    fn value(&self, query: u32) -> Option<Vec<u64>> {
        let available = self.memory.long(self.available_place(query) as usize);
        if publication::read(available) == 0 {
            return None;
        }
        let places = (0..self.numbers).map(|number| self.place(query) + number * NUMBER);
        let numbers = places.map(|place| publication::read(self.memory.long(place as usize)));
        Some(numbers.collect())
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

    /// Writes a result of so many numbers. Returns whether there is one.
    fn put_result(&mut self, index: usize, numbers: usize, value: Option<Vec<u64>>) -> bool {
        let is_there = value.is_some();
        let partial = self.flags.contains(vk::QueryResultFlags::PARTIAL).then(|| vec![0; numbers]);
        for (number, value) in value.or(partial).into_iter().flatten().enumerate() {
            self.put(index, number, value);
        }
        if self.flags.contains(vk::QueryResultFlags::WITH_AVAILABILITY) {
            self.put(index, numbers, is_there.into());
        }
        is_there
    }
}

/// A query's value, if there is one. Waits for it if `flags` say so, until the device is lost.
fn value(
    device: &Device,
    pool: &QueryPool,
    query: u32,
    flags: vk::QueryResultFlags,
) -> Option<Vec<u64>> {
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
        let (device, information) = (Device::get(device), &*information);
        let kind = information.query_type;
        let counted = match kind {
            vk::QueryType::TIMESTAMP => None,
            vk::QueryType::OCCLUSION
            | vk::QueryType::TRANSFORM_FEEDBACK_STREAM_EXT
            | vk::QueryType::PRIMITIVES_GENERATED_EXT => {
                Some(vk::QueryPipelineStatisticFlags::empty())
            }
            vk::QueryType::PIPELINE_STATISTICS => Some(information.pipeline_statistics),
            _ => return vk::Result::ERROR_FEATURE_NOT_PRESENT,
        };
        if counted.is_some() && !device.caps.have_graphics() {
            return vk::Result::ERROR_FEATURE_NOT_PRESENT;
        }
        let counted = counted.map(|statistics| Counted {
            kind: kind.as_raw() as u32,
            statistics: statistics.as_raw(),
            stream: 0,
        });
        match QueryPool::new(&device.heap, information.query_count, counted) {
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
        let value = value(device, pool, query, flags);
        are_all_there &= results.put_result(index, pool.numbers as usize, value);
    }
    match (device.is_lost(), are_all_there) {
        (true, _) => vk::Result::ERROR_DEVICE_LOST,
        (false, true) => vk::Result::SUCCESS,
        (false, false) => {
            looked_in_vain();
            vk::Result::NOT_READY
        }
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
    use crate::command::test_heap;

    #[test]
    fn results_have_the_width_and_the_place_that_was_asked_for() {
        let mut bytes = [0xEE; 40];
        let flags = vk::QueryResultFlags::WITH_AVAILABILITY;
        let mut results = Results { bytes: &mut bytes, stride: 12, flags };
        assert!(results.put_result(0, 1, Some(vec![0x1_0000_0002])));
        assert!(!results.put_result(1, 1, None));
        assert!(results.put_result(3, 1, Some(vec![5])), "what there is no room for is left out");
        let words: Vec<_> =
            bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        let old = 0xEEEE_EEEE;
        assert_eq!(words, [2, 1, old, old, 0, old, old, old, old, 5]);
    }

    #[test]
    fn values_of_several_numbers_follow_each_other() {
        let counted = Counted { kind: 1, statistics: 0b101, stream: 0 };
        let pool = QueryPool::new(test_heap::heap(), 4, Some(counted)).unwrap();
        assert_eq!(pool.address(1) - pool.address(0), 16);
        assert_eq!(pool.available(0), pool.address(4));
        assert_eq!(pool.available(1) - pool.available(0), AVAILABLE);
        assert_eq!(pool.value(2), None);
        for (place, value) in [(32, 7), (40, 8), (4 * 16 + 2 * 8, 1)] {
            pool.memory.long(place).store(value, Ordering::Relaxed);
        }
        assert_eq!(pool.value(2), Some(vec![7, 8]));
        pool.reset(2, 1);
        assert_eq!((pool.value(2), pool.value(3)), (None, None));
    }

    #[test]
    fn wide_and_partial_results() {
        let mut bytes = [0xEE; 16];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::PARTIAL;
        let mut results = Results { bytes: &mut bytes, stride: 8, flags };
        assert!(results.put_result(0, 1, Some(vec![u64::MAX - 1])));
        assert!(!results.put_result(1, 1, None));
        let words: Vec<_> =
            bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        assert_eq!(words, [u64::MAX - 1, 0]);
    }
}
