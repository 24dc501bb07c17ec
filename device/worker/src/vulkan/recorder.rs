// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records copies, dispatches and timestamps into one command buffer, which may be run again as it was recorded.

use super::command_buffer::CommandBuffer;
use super::descriptor_sets::Pool;
use super::{Binding, Called, DescriptorSet, Device, Imported, Needs, Pipeline, VulkanError};
use ash::vk;
use bellhop_protocol::vulkan as protocol;
use std::rc::Rc;

/// Most imports that a command buffer uses: a bound on this process's memory, far beyond what drivers ask for.
const MOST: usize = 1 << 20;

/// How many work groups run.
pub enum Groups<'a, 'd> {
    /// So many in each dimension, from the first in each dimension.
    Are {
        /// The first, by dimension.
        base: [u32; 3],
        /// Their number, by dimension.
        groups: [u32; 3],
    },
    /// As many as three words in memory say.
    In(&'a Binding<'d>),
}

/// A command buffer, and what it uses.
pub struct Recorder<'d> {
    device: &'d Device<'d>,
    commands: CommandBuffer<'d>,
    /// What pool and queries have room for.
    room: Needs,
    pool: Pool<'d>,
    queries: vk::QueryPool,
    /// Timestamps so far.
    timestamps: u32,
    /// What the recorded commands use. The last pipeline is bound.
    pipelines: Vec<Rc<Pipeline<'d>>>,
    memory: Vec<Rc<Imported<'d>>>,
    /// Whether the last dispatch had a first work group.
    has_base: bool,
}

impl<'d> Recorder<'d> {
    /// Makes a recorder with room for nothing.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn new(device: &'d Device<'d>) -> Result<Self, VulkanError> {
        let room = Needs::default();
        Ok(Self {
            device,
            commands: CommandBuffer::new(device)?,
            room,
            pool: Pool::new(device, room)?,
            queries: vk::QueryPool::null(),
            timestamps: 0,
            pipelines: Vec::new(),
            memory: Vec::new(),
            has_base: false,
        })
    }

    /// Forgets what was recorded, and begins anew, with room for these needs.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn begin(&mut self, needs: Needs) -> Result<(), VulkanError> {
        self.commands.begin()?;
        self.pipelines.clear();
        self.memory.clear();
        self.timestamps = 0;
        self.has_base = false;
        let raw = &self.device.raw;
        let room = self.room.max(needs);
        if room.timestamps > self.room.timestamps {
            let pool = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::TIMESTAMP)
                .query_count(room.timestamps);
            // SAFETY: the structure lives until the call returns. The command buffer has been reset, so nothing uses the
            // queries that are destroyed.
            unsafe {
                raw.destroy_query_pool(self.queries, None);
                self.queries = vk::QueryPool::null();
                self.room.timestamps = 0;
                self.queries = raw.create_query_pool(&pool, None).called("vkCreateQueryPool")?;
            }
        }
        if (Needs { timestamps: 0, ..room }) != (Needs { timestamps: 0, ..self.room }) {
            self.pool = Pool::new(self.device, room)?;
        } else {
            // SAFETY: the command buffer has been reset, so nothing uses the sets.
            unsafe { self.pool.reset()? };
        }
        self.room = room;
        if needs.timestamps > 0 {
            // SAFETY: the command buffer is being recorded, and the pool has so many queries.
            unsafe {
                raw.cmd_reset_query_pool(self.commands.raw, self.queries, 0, needs.timestamps);
            }
        }
        Ok(())
    }

    /// Makes a descriptor set of a pipeline's layout; see [`Needs::add_set`]. The buffers of the bindings follow each other.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn set(
        &mut self,
        pipeline: &Pipeline<'d>,
        number: usize,
        bindings: &[protocol::Binding],
        buffers: &[Option<Binding<'d>>],
    ) -> Result<DescriptorSet, VulkanError> {
        for buffer in buffers.iter().flatten() {
            self.keep(buffer)?;
        }
        self.pool.set(pipeline, number, bindings, buffers)
    }

    /// Records that everything waits for everything before it, and sees its stores.
    pub fn barrier(&self) {
        let all = vk::PipelineStageFlags::ALL_COMMANDS | vk::PipelineStageFlags::HOST;
        let access = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let barrier =
            [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
        let (raw, none) = (&self.device.raw, vk::DependencyFlags::empty());
        // SAFETY: the command buffer is being recorded.
        unsafe { raw.cmd_pipeline_barrier(self.commands.raw, all, all, none, &barrier, &[], &[]) };
    }

    /// Records a copy between ranges of one length, which do not overlap.
    ///
    /// # Errors
    /// When there are too many.
    pub fn copy(&mut self, from: &Binding<'d>, to: &Binding<'d>) -> Result<(), VulkanError> {
        self.keep(from)?;
        self.keep(to)?;
        let region = [vk::BufferCopy::default()
            .src_offset(from.offset)
            .dst_offset(to.offset)
            .size(from.length.min(to.length))];
        let (from, to) = (from.memory.buffer, to.memory.buffer);
        // SAFETY: the command buffer is being recorded, and the ranges are in the buffers, which `self` keeps.
        unsafe { self.device.raw.cmd_copy_buffer(self.commands.raw, from, to, &region) };
        Ok(())
    }

    /// Records that a range is filled with a word. Address and length are multiples of 4.
    ///
    /// # Errors
    /// When there are too many.
    pub fn fill(&mut self, to: &Binding<'d>, word: u32) -> Result<(), VulkanError> {
        self.keep(to)?;
        let (buffer, raw) = (to.memory.buffer, &self.device.raw);
        // SAFETY: as in `copy`.
        unsafe { raw.cmd_fill_buffer(self.commands.raw, buffer, to.offset, to.length, word) };
        Ok(())
    }

    /// Records that these bytes are written, at most 65,536. Address and length are multiples of 4.
    ///
    /// # Errors
    /// When there are too many.
    pub fn update(&mut self, to: &Binding<'d>, bytes: &[u8]) -> Result<(), VulkanError> {
        self.keep(to)?;
        let (buffer, raw) = (to.memory.buffer, &self.device.raw);
        // SAFETY: as in `copy`. The bytes are copied before the call returns.
        unsafe { raw.cmd_update_buffer(self.commands.raw, buffer, to.offset, bytes) };
        Ok(())
    }

    /// Records that 8 bytes become the time at which everything before is done. Only so often as `begin` has made room for,
    /// on a device with timestamps.
    ///
    /// # Errors
    /// When there are too many.
    pub fn timestamp(&mut self, to: &Binding<'d>) -> Result<(), VulkanError> {
        assert!(self.timestamps < self.room.timestamps, "more timestamps than announced");
        self.keep(to)?;
        let (raw, commands, queries) = (&self.device.raw, self.commands.raw, self.queries);
        let (number, buffer) = (self.timestamps, to.memory.buffer);
        let (at, size) = (vk::PipelineStageFlags::BOTTOM_OF_PIPE, size_of::<u64>() as u64);
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        self.timestamps += 1;
        // SAFETY: as in `copy`. The query exists, was reset at the beginning, and is written once.
        unsafe {
            raw.cmd_write_timestamp(commands, at, queries, number);
            let offset = to.offset;
            raw.cmd_copy_query_pool_results(
                commands, queries, number, 1, buffer, offset, size, flags,
            );
        }
        Ok(())
    }

    /// Makes a pipeline the one that the next dispatches run, and returns whether it was another before.
    pub fn bind(&mut self, pipeline: &Rc<Pipeline<'d>>) -> bool {
        if self.pipelines.last().is_some_and(|last| Rc::ptr_eq(last, pipeline)) {
            return false;
        }
        let (raw, point) = (&self.device.raw, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the command buffer is being recorded, and `self` keeps the pipeline.
        unsafe { raw.cmd_bind_pipeline(self.commands.raw, point, pipeline.raw) };
        self.pipelines.push(Rc::clone(pipeline));
        true
    }

    /// Gives the bound pipeline a set of its layout.
    pub fn bind_set(&mut self, number: usize, DescriptorSet(set): DescriptorSet) {
        let Some(pipeline) = self.pipelines.last() else { return };
        let (raw, point) = (&self.device.raw, vk::PipelineBindPoint::COMPUTE);
        let (layout, number) = (pipeline.layout, number as u32);
        // SAFETY: as in `bind`. The set is of this recorder's pool, which `begin` alone empties.
        unsafe {
            raw.cmd_bind_descriptor_sets(self.commands.raw, point, layout, number, &[set], &[]);
        }
    }

    /// Records work groups of the bound pipeline, with its first push constants, no more than it has.
    ///
    /// A shader that follows pointers reaches all of this process's memory. The process exists to run such shaders, and
    /// contains the damage.
    ///
    /// # Errors
    /// When there are too many.
    pub fn dispatch(
        &mut self,
        push_constants: &[u8],
        groups: &Groups<'_, 'd>,
    ) -> Result<(), VulkanError> {
        let Some(pipeline) = self.pipelines.last() else { return Ok(()) };
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        if !push_constants.is_empty() {
            let (layout, stage) = (pipeline.layout, vk::ShaderStageFlags::COMPUTE);
            // SAFETY: the command buffer is being recorded. The pipeline's layout has so many push constants.
            unsafe { raw.cmd_push_constants(commands, layout, stage, 0, push_constants) };
        }
        match groups {
            Groups::Are { base: [0, 0, 0], groups: [x, y, z] } => {
                // SAFETY: a pipeline is bound, and `self` keeps it and the memory of its sets.
                unsafe { raw.cmd_dispatch(commands, *x, *y, *z) };
                self.has_base = false;
            }
            Groups::Are { base: [from_x, from_y, from_z], groups: [x, y, z] } => {
                // SAFETY: as above. Every pipeline is made for a base.
                unsafe {
                    raw.cmd_dispatch_base(commands, *from_x, *from_y, *from_z, *x, *y, *z);
                }
                self.has_base = true;
            }
            Groups::In(words) => {
                self.keep(words)?;
                // SAFETY: as above. The words are in the buffer, at a multiple of 4.
                unsafe {
                    if self.has_base {
                        // Lavapipe (25.0) has an indirect dispatch begin at the first work group of the dispatch before
                        // it. One of no work groups begins at 0.
                        raw.cmd_dispatch(commands, 0, 0, 0);
                        self.has_base = false;
                    }
                    raw.cmd_dispatch_indirect(commands, words.memory.buffer, words.offset);
                }
            }
        }
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn end(&mut self) -> Result<(), VulkanError> {
        // The processor sees the stores of commands, and so do the command buffers that follow.
        self.barrier();
        self.commands.end()
    }

    /// Runs what was recorded, and waits until it is done.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    pub fn run(&mut self) -> Result<(), VulkanError> {
        // SAFETY: what the recorded commands use is kept in `self`.
        unsafe { self.commands.run() }
    }

    /// Keeps the memory of a range that the commands use.
    fn keep(&mut self, range: &Binding<'d>) -> Result<(), VulkanError> {
        let Binding { memory, offset, length } = range;
        let end = offset.checked_add(*length);
        assert!(end.is_some_and(|end| end <= memory.length), "outside the memory");
        if self.memory.last().is_some_and(|last| Rc::ptr_eq(last, memory)) {
            return Ok(());
        }
        if self.memory.len() >= MOST {
            return Err(VulkanError::Lacks("room for so many ranges of memory in one stream"));
        }
        self.memory.push(Rc::clone(memory));
        Ok(())
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing is pending: `run` waits. Destroying a null handle does nothing.
        unsafe { self.device.raw.destroy_query_pool(self.queries, None) };
    }
}
