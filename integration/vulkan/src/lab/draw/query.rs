// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Queries of what is drawn.

use super::super::{Gpu, Outcome, Recorder};
use ash::vk;

/// Numbers of a query of statistics, at most: a bit for each.
const MOST: usize = 11;

impl Gpu<'_> {
    /// Queries that were reset. Of statistics, each has a number for each of these.
    pub(crate) fn queries(
        &self,
        kind: vk::QueryType,
        count: u32,
        statistics: vk::QueryPipelineStatisticFlags,
    ) -> Outcome<vk::QueryPool> {
        let information = vk::QueryPoolCreateInfo::default()
            .query_type(kind)
            .query_count(count)
            .pipeline_statistics(statistics);
        // SAFETY: the device is open.
        let pool = unsafe { self.raw.create_query_pool(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_query_pool(pool, None) });
        self.run(|commands| {
            commands.reset_queries(pool, 0, count);
        })?;
        Ok(pool)
    }

    /// The numbers of a query of statistics, once they are there.
    pub(crate) fn statistics(&self, pool: vk::QueryPool, numbers: usize) -> Outcome<Vec<u64>> {
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        let mut all = [[0u64; MOST]];
        // SAFETY: the query is the device's, and was ended. It has no more numbers than an element has.
        unsafe { self.raw.get_query_pool_results(pool, 0, &mut all, flags) }?;
        Ok(all.as_flattened().iter().copied().take(numbers).collect())
    }
}

// As in `recorder`.
impl Recorder<'_> {
    /// Begins a query.
    pub(crate) fn begin_query(
        &self,
        pool: vk::QueryPool,
        query: u32,
        flags: vk::QueryControlFlags,
    ) -> &Self {
        // SAFETY: the command buffer is being recorded, and the query is the device's and was reset.
        unsafe { self.gpu.raw.cmd_begin_query(self.raw, pool, query, flags) };
        self
    }

    /// Ends a query.
    pub(crate) fn end_query(&self, pool: vk::QueryPool, query: u32) -> &Self {
        // SAFETY: the command buffer is being recorded, and the query was begun.
        unsafe { self.gpu.raw.cmd_end_query(self.raw, pool, query) };
        self
    }
}
