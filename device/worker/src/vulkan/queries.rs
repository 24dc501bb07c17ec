// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records what is counted while commands run: times, samples, and what pipelines do.

use super::{Binding, Called, Device, Recorder, VulkanError};
use ash::vk;
use std::collections::BTreeMap;

/// What counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// The time.
    Time,
    /// Samples that are drawn.
    Samples,
    /// What pipelines do: these of Vulkan's statistics, at least one.
    Statistics(u32),
    /// Primitives of a stream whose vertices are stored, and those that would be if there were room.
    Stored(u32),
    /// Primitives that are made of a stream.
    Made(u32),
}

impl Counter {
    /// What begins to count with a command that has these fields; `None` for an unknown type.
    pub const fn of(query: u32, statistics: u32, stream: u32) -> Option<Self> {
        match vk::QueryType::from_raw(query as i32) {
            vk::QueryType::OCCLUSION => Some(Self::Samples),
            vk::QueryType::PIPELINE_STATISTICS => Some(Self::Statistics(statistics)),
            vk::QueryType::TRANSFORM_FEEDBACK_STREAM_EXT => Some(Self::Stored(stream)),
            vk::QueryType::PRIMITIVES_GENERATED_EXT => Some(Self::Made(stream)),
            _ => None,
        }
    }

    /// Numbers of each.
    pub const fn numbers(self) -> u32 {
        match self {
            Self::Time | Self::Samples | Self::Made(_) => 1,
            Self::Stored(_) => 2,
            Self::Statistics(statistics) => statistics.count_ones(),
        }
    }

    /// Bytes of what one stores.
    pub const fn size(self) -> u64 {
        self.numbers() as u64 * size_of::<u64>() as u64
    }

    /// The stream that it is of, if it is of one.
    const fn stream(self) -> Option<u32> {
        match self {
            Self::Stored(stream) | Self::Made(stream) => Some(stream),
            _ => None,
        }
    }

    /// Vulkan's name of it.
    fn raw(self) -> (vk::QueryType, vk::QueryPipelineStatisticFlags) {
        let none = vk::QueryPipelineStatisticFlags::empty();
        match self {
            Self::Time => (vk::QueryType::TIMESTAMP, none),
            Self::Samples => (vk::QueryType::OCCLUSION, none),
            Self::Stored(_) => (vk::QueryType::TRANSFORM_FEEDBACK_STREAM_EXT, none),
            Self::Made(_) => (vk::QueryType::PRIMITIVES_GENERATED_EXT, none),
            Self::Statistics(statistics) => (
                vk::QueryType::PIPELINE_STATISTICS,
                vk::QueryPipelineStatisticFlags::from_raw(statistics),
            ),
        }
    }
}

/// How often commands count: for each view once.
pub type Counts = BTreeMap<Counter, u32>;

/// Queries of one counter, which are used one after the other.
struct Pool {
    raw: vk::QueryPool,
    room: u32,
    used: u32,
}

/// Queries that were begun.
struct Begun {
    counter: Counter,
    first: u32,
    count: u32,
}

/// What is stored when the rendering has ended.
struct Pending {
    pool: vk::QueryPool,
    first: u32,
    count: u32,
    /// Bytes of each.
    stride: u64,
    buffer: vk::Buffer,
    offset: u64,
}

/// The queries of a recorder.
pub(super) struct Queries<'d> {
    device: &'d Device<'d>,
    pools: BTreeMap<Counter, Pool>,
    begun: Vec<Begun>,
    pending: Vec<Pending>,
    /// The views of the rendering that is being recorded, or 0 outside of one.
    pub views: u32,
}

impl<'d> Queries<'d> {
    pub fn new(device: &'d Device<'d>) -> Self {
        let (begun, pending) = (Vec::new(), Vec::new());
        Self { device, pools: BTreeMap::new(), begun, pending, views: 0 }
    }

    /// Has room for these counts, of which none was used.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    ///
    /// # Safety
    /// The command buffer is being recorded, and nothing uses the queries.
    pub unsafe fn begin(
        &mut self,
        commands: vk::CommandBuffer,
        counts: &Counts,
    ) -> Result<(), VulkanError> {
        let raw = &self.device.raw;
        self.begun.clear();
        self.pending.clear();
        self.views = 0;
        self.pools.retain(|counter, pool| {
            let stays = counts.get(counter).is_some_and(|count| *count <= pool.room);
            if !stays {
                // SAFETY: nothing uses the queries, as the caller says.
                unsafe { raw.destroy_query_pool(pool.raw, None) };
            }
            stays
        });
        for (counter, count) in counts.iter().filter(|(_, count)| **count > 0) {
            if !self.pools.contains_key(counter) {
                let (kind, statistics) = counter.raw();
                let information = vk::QueryPoolCreateInfo::default()
                    .query_type(kind)
                    .query_count(*count)
                    .pipeline_statistics(statistics);
                // SAFETY: the structure lives until the call returns.
                let pool = unsafe { raw.create_query_pool(&information, None) };
                let pool = pool.called("vkCreateQueryPool")?;
                self.pools.insert(*counter, Pool { raw: pool, room: *count, used: 0 });
            }
            if let Some(pool) = self.pools.get_mut(counter) {
                pool.used = 0;
                // SAFETY: the command buffer is being recorded, as the caller says, and the pool has so many queries.
                unsafe { raw.cmd_reset_query_pool(commands, pool.raw, 0, pool.room) };
            }
        }
        Ok(())
    }

    /// Takes queries for each view, that nothing has used. Returns their pool, the first, and their number.
    fn take(&mut self, counter: Counter) -> (vk::QueryPool, u32, u32) {
        let count = self.views.max(1);
        let pool = self.pools.get_mut(&counter);
        let pool = pool.filter(|pool| pool.room - pool.used >= count);
        let Some(pool) = pool else { unreachable!("more is counted than was announced") };
        pool.used += count;
        (pool.raw, pool.used - count, count)
    }
}

impl<'d> Recorder<'d> {
    /// Records that 8 bytes become the time at which everything before is done, in a rendering of several views 8 bytes for
    /// each. Only so often as `begin` has made room for, on a device with timestamps.
    ///
    /// # Errors
    /// When there are too many.
    pub fn timestamp(&mut self, to: &Binding<'d>) -> Result<(), VulkanError> {
        let (pool, first, count) = self.queries.take(Counter::Time);
        let at = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the command buffer is being recorded. The queries exist, were reset at its beginning, and are written once.
        unsafe { self.device.raw.cmd_write_timestamp(self.commands.raw, at, pool, first) };
        self.store(Counter::Time, (pool, first, count), to)
    }

    /// Records that something begins to count which does not count yet, more precisely if the device can.
    pub fn begin_query(&mut self, counter: Counter, is_precise: bool) {
        let (pool, first, count) = self.queries.take(counter);
        let none = vk::QueryControlFlags::empty();
        let flags = if is_precise { vk::QueryControlFlags::PRECISE } else { none };
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // SAFETY: the command buffer is being recorded. The queries exist, were reset at its beginning, and are begun once. A device that
        // counts what is of a stream has that stream.
        unsafe {
            match counter.stream() {
                Some(stream) => {
                    let begin = self.device.transform.fp().cmd_begin_query_indexed_ext;
                    begin(commands, pool, first, flags, stream);
                }
                None => raw.cmd_begin_query(commands, pool, first, flags),
            }
        }
        self.queries.begun.push(Begun { counter, first, count });
    }

    /// How often what is counted now is stored: for each view.
    pub fn views(&self) -> u32 {
        self.queries.views.max(1)
    }

    /// What counts of a type of queries, and of a stream.
    pub fn counter(&self, query: u32, stream: u32) -> Option<(Counter, u32)> {
        let is_it = |begun: &&Begun| {
            begun.counter.raw().0.as_raw() as u32 == query
                && begun.counter.stream().unwrap_or_default() == stream
        };
        self.queries.begun.iter().find(is_it).map(|begun| (begun.counter, begun.count))
    }

    /// Records that what counts ends, where it began, and is stored when there is no rendering: for each view one after the
    /// other.
    ///
    /// # Errors
    /// When there are too many.
    pub fn end_query(&mut self, counter: Counter, to: &Binding<'d>) -> Result<(), VulkanError> {
        let at = self.queries.begun.iter().position(|begun| begun.counter == counter);
        let pool = self.queries.pools.get(&counter).map(|pool| pool.raw);
        let (Some(at), Some(pool)) = (at, pool) else { return Ok(()) };
        let Begun { first, count, .. } = self.queries.begun.swap_remove(at);
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // SAFETY: the command buffer is being recorded, and the query was begun in it.
        unsafe {
            match counter.stream() {
                Some(stream) => {
                    let end = self.device.transform.fp().cmd_end_query_indexed_ext;
                    end(commands, pool, first, stream);
                }
                None => raw.cmd_end_query(commands, pool, first),
            }
        }
        self.store(counter, (pool, first, count), to)
    }

    /// Stores what was counted, or has it stored when the rendering has ended.
    fn store(
        &mut self,
        counter: Counter,
        (pool, first, count): (vk::QueryPool, u32, u32),
        to: &Binding<'d>,
    ) -> Result<(), VulkanError> {
        self.keep(to)?;
        let stride = counter.size();
        assert!(to.length >= stride * u64::from(count), "too little memory for what was counted");
        let (buffer, offset) = (to.memory.buffer, to.offset);
        self.queries.pending.push(Pending { pool, first, count, stride, buffer, offset });
        if self.queries.views == 0 {
            self.store_pending();
        }
        Ok(())
    }

    /// Records that what waits for the end of the rendering is stored.
    pub(super) fn store_pending(&mut self) {
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        for Pending { pool, first, count, stride, buffer, offset } in self.queries.pending.drain(..)
        {
            // SAFETY: the command buffer is being recorded, outside of a rendering. The queries have ended, and the buffer,
            // which `self` keeps, has room for them.
            unsafe {
                self.device.raw.cmd_copy_query_pool_results(
                    self.commands.raw,
                    pool,
                    first,
                    count,
                    buffer,
                    offset,
                    stride,
                    flags,
                );
            }
        }
    }
}

impl Drop for Queries<'_> {
    fn drop(&mut self) {
        for pool in self.pools.values() {
            // SAFETY: no command buffer that uses it is pending: whoever runs one waits until it is done.
            unsafe { self.device.raw.destroy_query_pool(pool.raw, None) };
        }
    }
}
