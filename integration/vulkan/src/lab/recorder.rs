// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Command buffers, while they are recorded.

use super::{Buffer, Gpu, Kernel, Outcome, Queue};
use ash::vk;

/// A command buffer that is recorded. Each method appends a command.
pub(crate) struct Recorder<'g> {
    pub(super) gpu: &'g Gpu<'g>,
    pub(super) raw: vk::CommandBuffer,
}

const COMPUTE: vk::PipelineBindPoint = vk::PipelineBindPoint::COMPUTE;
const ALL: vk::PipelineStageFlags = vk::PipelineStageFlags::ALL_COMMANDS;

impl Gpu<'_> {
    /// A pool for command buffers of a queue's family.
    pub(crate) fn command_pool(&self, queue: Queue) -> Outcome<vk::CommandPool> {
        let information = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(queue.family);
        // SAFETY: the device is open, and has the family.
        let pool = unsafe { self.raw.create_command_pool(&information, None) }?;
        // SAFETY: nothing executes when this is called.
        self.later(move |device| unsafe { device.destroy_command_pool(pool, None) });
        Ok(pool)
    }

    /// Resets all command buffers of a pool, once nothing executes.
    pub(crate) fn reset_command_pool(&self, pool: vk::CommandPool) -> Outcome {
        self.wait_idle()?;
        let flags = vk::CommandPoolResetFlags::RELEASE_RESOURCES;
        // SAFETY: the device was waited for.
        Ok(unsafe { self.raw.reset_command_pool(pool, flags) }?)
    }

    /// A command buffer of a pool, not recorded yet.
    pub(crate) fn bare_commands(
        &self,
        pool: vk::CommandPool,
        level: vk::CommandBufferLevel,
    ) -> Outcome<vk::CommandBuffer> {
        let information = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(level)
            .command_buffer_count(1);
        // SAFETY: the pool is the device's, and this thread alone uses it.
        let made = unsafe { self.raw.allocate_command_buffers(&information) }?;
        Ok(made.first().copied().unwrap_or_default())
    }

    /// Records a command buffer that does not execute, from its beginning.
    pub(crate) fn record_into(
        &self,
        raw: vk::CommandBuffer,
        usage: vk::CommandBufferUsageFlags,
        write: impl FnOnce(&Recorder<'_>),
    ) -> Outcome<vk::CommandBuffer> {
        let inherited = vk::CommandBufferInheritanceInfo::default();
        let information =
            vk::CommandBufferBeginInfo::default().flags(usage).inheritance_info(&inherited);
        // SAFETY: the command buffer is the device's, does not execute, and is used by this thread alone.
        unsafe { self.raw.begin_command_buffer(raw, &information) }?;
        write(&Recorder { gpu: self, raw });
        // SAFETY: as above; it is being recorded.
        unsafe { self.raw.end_command_buffer(raw) }?;
        Ok(raw)
    }

    /// A recorded command buffer for a queue, which may be submitted several times at once.
    pub(crate) fn record(
        &self,
        queue: Queue,
        write: impl FnOnce(&Recorder<'_>),
    ) -> Outcome<vk::CommandBuffer> {
        let pool = self.command_pool(queue)?;
        let raw = self.bare_commands(pool, vk::CommandBufferLevel::PRIMARY)?;
        self.record_into(raw, vk::CommandBufferUsageFlags::SIMULTANEOUS_USE, write)
    }

    /// A recorded secondary command buffer.
    pub(crate) fn record_secondary(
        &self,
        queue: Queue,
        write: impl FnOnce(&Recorder<'_>),
    ) -> Outcome<vk::CommandBuffer> {
        let pool = self.command_pool(queue)?;
        let raw = self.bare_commands(pool, vk::CommandBufferLevel::SECONDARY)?;
        self.record_into(raw, vk::CommandBufferUsageFlags::SIMULTANEOUS_USE, write)
    }
}

// Each call appends a command of the device's own objects to a command buffer that is being recorded by this thread.
impl Recorder<'_> {
    /// Binds a pipeline.
    pub(crate) fn bind(&self, kernel: &Kernel) -> &Self {
        // SAFETY: the command buffer is being recorded, and the pipeline is the device's.
        unsafe { self.gpu.raw.cmd_bind_pipeline(self.raw, COMPUTE, kernel.pipeline) };
        self
    }

    /// Binds sets, from set 0 on.
    pub(crate) fn sets(&self, kernel: &Kernel, sets: &[vk::DescriptorSet]) -> &Self {
        self.sets_from(kernel, 0, sets, &[])
    }

    /// Binds sets, from this one on, with dynamic offsets.
    pub(crate) fn sets_from(
        &self,
        kernel: &Kernel,
        first: u32,
        sets: &[vk::DescriptorSet],
        offsets: &[u32],
    ) -> &Self {
        let (raw, layout) = (self.raw, kernel.layout);
        // SAFETY: the command buffer is being recorded, and the sets are the device's.
        unsafe {
            self.gpu.raw.cmd_bind_descriptor_sets(raw, COMPUTE, layout, first, sets, offsets);
        }
        self
    }

    /// Sets push constants, from a byte on.
    pub(crate) fn push_at(&self, kernel: &Kernel, offset: u32, words: &[u32]) -> &Self {
        let bytes: Vec<u8> = words.iter().copied().flat_map(u32::to_le_bytes).collect();
        let (raw, stages) = (self.raw, vk::ShaderStageFlags::COMPUTE);
        // SAFETY: the command buffer is being recorded, and the layout is the device's.
        unsafe { self.gpu.raw.cmd_push_constants(raw, kernel.layout, stages, offset, &bytes) };
        self
    }

    /// Sets push constants, from the first on.
    pub(crate) fn push(&self, kernel: &Kernel, words: &[u32]) -> &Self {
        self.push_at(kernel, 0, words)
    }

    /// Pushes storage buffers, from binding 0 of set 0 on. Nothing, where the device lacks it.
    pub(crate) fn push_buffers(&self, kernel: &Kernel, buffers: &[vk::DescriptorBufferInfo]) {
        let writes: Vec<_> = (0..)
            .zip(buffers)
            .map(|(number, buffer)| {
                vk::WriteDescriptorSet::default()
                    .dst_binding(number)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(std::slice::from_ref(buffer))
            })
            .collect();
        let Some(extension) = &self.gpu.push_descriptors else { return };
        let layout = kernel.layout;
        // SAFETY: the command buffer is being recorded, and the buffers are the device's.
        unsafe { extension.cmd_push_descriptor_set(self.raw, COMPUTE, layout, 0, &writes) };
    }

    /// Pushes what a template reads from an array that it was made for.
    pub(crate) fn push_by<const N: usize>(
        &self,
        kernel: &Kernel,
        template: vk::DescriptorUpdateTemplate,
        buffers: &[vk::DescriptorBufferInfo; N],
    ) {
        let Some(extension) = &self.gpu.push_descriptors else { return };
        let (layout, data) = (kernel.layout, std::ptr::from_ref(buffers).cast());
        // SAFETY: the command buffer is being recorded. The template reads the array, which lives until the call returns.
        unsafe {
            extension.cmd_push_descriptor_set_with_template(self.raw, template, layout, 0, data);
        }
    }

    /// Dispatches work groups.
    pub(crate) fn dispatch(&self, x: u32, y: u32, z: u32) -> &Self {
        // SAFETY: the command buffer is being recorded.
        unsafe { self.gpu.raw.cmd_dispatch(self.raw, x, y, z) };
        self
    }

    /// Dispatches work groups, of which the first has this number.
    pub(crate) fn dispatch_base(&self, base: [u32; 3], [x, y, z]: [u32; 3]) -> &Self {
        let [base_x, base_y, base_z] = base;
        // SAFETY: the command buffer is being recorded.
        unsafe { self.gpu.raw.cmd_dispatch_base(self.raw, base_x, base_y, base_z, x, y, z) };
        self
    }

    /// Dispatches as many work groups as a buffer says.
    pub(crate) fn dispatch_indirect(&self, buffer: &Buffer<'_>, offset: u64) -> &Self {
        // SAFETY: the command buffer is being recorded, and the buffer is the device's.
        unsafe { self.gpu.raw.cmd_dispatch_indirect(self.raw, buffer.raw, offset) };
        self
    }

    /// Has everything before it be done, and seen by everything behind it and by the processor.
    pub(crate) fn barrier(&self) -> &Self {
        let everything = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let memory =
            [vk::MemoryBarrier::default().src_access_mask(everything).dst_access_mask(everything)];
        let (from, to) = (ALL, ALL | vk::PipelineStageFlags::HOST);
        let flags = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded. The structures live until the call returns.
        unsafe { self.gpu.raw.cmd_pipeline_barrier(self.raw, from, to, flags, &memory, &[], &[]) };
        self
    }

    /// The same, of a buffer alone, as Vulkan 1.3 says it.
    pub(crate) fn buffer_barrier(&self, buffer: &Buffer<'_>) -> &Self {
        let stages = vk::PipelineStageFlags2::ALL_COMMANDS;
        let everything = vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE;
        let memory = [vk::BufferMemoryBarrier2::default()
            .src_stage_mask(stages)
            .src_access_mask(everything)
            .dst_stage_mask(stages)
            .dst_access_mask(everything)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .buffer(buffer.raw)
            .size(vk::WHOLE_SIZE)];
        let dependency = vk::DependencyInfo::default().buffer_memory_barriers(&memory);
        // SAFETY: the command buffer is being recorded. The structures live until the call returns.
        unsafe { self.gpu.raw.cmd_pipeline_barrier2(self.raw, &dependency) };
        self
    }

    /// Copies words, each region from a word to a word.
    pub(crate) fn copy(
        &self,
        from: &Buffer<'_>,
        to: &Buffer<'_>,
        regions: &[(u64, u64, u64)],
    ) -> &Self {
        let regions: Vec<_> = regions
            .iter()
            .map(|(from, to, words)| vk::BufferCopy {
                src_offset: from * 4,
                dst_offset: to * 4,
                size: words * 4,
            })
            .collect();
        // SAFETY: the command buffer is being recorded, and the buffers are the device's.
        unsafe { self.gpu.raw.cmd_copy_buffer(self.raw, from.raw, to.raw, &regions) };
        self
    }

    /// Copies bytes, from a byte to a byte, as Vulkan 1.3 says it.
    pub(crate) fn copy_bytes(
        &self,
        (from, from_offset): (&Buffer<'_>, u64),
        (to, to_offset): (&Buffer<'_>, u64),
        size: u64,
    ) -> &Self {
        let regions =
            [vk::BufferCopy2::default().src_offset(from_offset).dst_offset(to_offset).size(size)];
        let information = vk::CopyBufferInfo2::default()
            .src_buffer(from.raw)
            .dst_buffer(to.raw)
            .regions(&regions);
        // SAFETY: the command buffer is being recorded, and the buffers are the device's.
        unsafe { self.gpu.raw.cmd_copy_buffer2(self.raw, &information) };
        self
    }

    /// Fills bytes of a buffer, from an offset on, with a word.
    pub(crate) fn fill(&self, buffer: &Buffer<'_>, offset: u64, size: u64, word: u32) -> &Self {
        // SAFETY: the command buffer is being recorded, and the buffer is the device's.
        unsafe { self.gpu.raw.cmd_fill_buffer(self.raw, buffer.raw, offset, size, word) };
        self
    }

    /// Stores words in a buffer, from a byte on.
    pub(crate) fn update(&self, buffer: &Buffer<'_>, offset: u64, words: &[u32]) -> &Self {
        let bytes: Vec<u8> = words.iter().copied().flat_map(u32::to_le_bytes).collect();
        // SAFETY: the command buffer is being recorded, and the buffer is the device's.
        unsafe { self.gpu.raw.cmd_update_buffer(self.raw, buffer.raw, offset, &bytes) };
        self
    }

    /// Executes secondary command buffers.
    pub(crate) fn execute(&self, buffers: &[vk::CommandBuffer]) -> &Self {
        // SAFETY: the command buffer is being recorded, and the others are recorded.
        unsafe { self.gpu.raw.cmd_execute_commands(self.raw, buffers) };
        self
    }

    /// Sets an event once everything before it is done.
    pub(crate) fn set_event(&self, event: vk::Event) -> &Self {
        // SAFETY: the command buffer is being recorded, and the event is the device's.
        unsafe { self.gpu.raw.cmd_set_event(self.raw, event, ALL) };
        self
    }

    /// Resets an event once everything before it is done.
    pub(crate) fn reset_event(&self, event: vk::Event) -> &Self {
        // SAFETY: the command buffer is being recorded, and the event is the device's.
        unsafe { self.gpu.raw.cmd_reset_event(self.raw, event, ALL) };
        self
    }

    /// Waits for an event that these stages set.
    pub(crate) fn wait_event(&self, event: vk::Event, from: vk::PipelineStageFlags) -> &Self {
        let everything = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let memory =
            [vk::MemoryBarrier::default().src_access_mask(everything).dst_access_mask(everything)];
        // SAFETY: the command buffer is being recorded, and the event is the device's.
        unsafe {
            self.gpu.raw.cmd_wait_events(self.raw, &[event], from, ALL, &memory, &[], &[]);
        }
        self
    }

    /// Resets queries.
    pub(crate) fn reset_queries(&self, pool: vk::QueryPool, first: u32, count: u32) -> &Self {
        // SAFETY: the command buffer is being recorded, and the queries are the device's.
        unsafe { self.gpu.raw.cmd_reset_query_pool(self.raw, pool, first, count) };
        self
    }

    /// Stores a timestamp once everything before it is done.
    pub(crate) fn timestamp(&self, pool: vk::QueryPool, query: u32) -> &Self {
        let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the command buffer is being recorded, and the query is the device's.
        unsafe { self.gpu.raw.cmd_write_timestamp(self.raw, stage, pool, query) };
        self
    }

    /// Copies results of 64 bits, with their availability.
    pub(crate) fn copy_results(&self, pool: vk::QueryPool, count: u32, to: &Buffer<'_>) -> &Self {
        let flags = vk::QueryResultFlags::TYPE_64
            | vk::QueryResultFlags::WAIT
            | vk::QueryResultFlags::WITH_AVAILABILITY;
        let (raw, to) = (self.raw, to.raw);
        // SAFETY: the command buffer is being recorded, and the objects are the device's.
        unsafe { self.gpu.raw.cmd_copy_query_pool_results(raw, pool, 0, count, to, 0, 16, flags) };
        self
    }
}
