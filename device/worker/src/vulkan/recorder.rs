// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records commands into one command buffer, which may be run again as it was recorded.

use super::command_buffer::CommandBuffer;
use super::descriptor_sets::Pool;
use super::{
    Binding, Called, DescriptorSet, Device, Image, Imported, Needs, Pipeline, Resource, VulkanError,
};
use ash::vk;
use bellhop_protocol::vulkan as protocol;
use std::rc::Rc;

/// Most imports that a command buffer uses: a bound on this process's memory, far beyond what drivers ask for.
const MOST: usize = 1 << 20;

/// The layout of all images.
pub(super) const LAYOUT: vk::ImageLayout = vk::ImageLayout::GENERAL;

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
    pub(super) device: &'d Device<'d>,
    pub(super) commands: CommandBuffer<'d>,
    /// What pool and queries have room for.
    pub(super) room: Needs,
    pool: Pool<'d>,
    pub(super) queries: vk::QueryPool,
    /// Timestamps so far.
    pub(super) timestamps: u32,
    /// What the recorded commands use. The last pipeline is bound.
    pipelines: Vec<Rc<Pipeline<'d>>>,
    memory: Vec<Rc<Imported<'d>>>,
    images: Vec<Rc<Image<'d>>>,
    /// What descriptors are of beside memory.
    resources: Vec<Resource<'d>>,
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
            images: Vec::new(),
            resources: Vec::new(),
            has_base: false,
        })
    }

    /// Forgets what was recorded, and begins anew, with room for these needs, and with these images.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn begin(&mut self, needs: Needs, images: &[Rc<Image<'d>>]) -> Result<(), VulkanError> {
        self.commands.begin()?;
        self.pipelines.clear();
        self.memory.clear();
        self.resources.clear();
        self.images.clear();
        self.images.extend_from_slice(images);
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
        self.admit_images();
        Ok(())
    }

    /// Has the images of this recording in their layout.
    ///
    /// Vulkan lets a transition from no layout discard what is in an image. Devices that make images do not; see
    /// [`Formats`](super::Formats). It may come again as often as the command buffer is run, whatever the layout was.
    fn admit_images(&self) {
        if self.images.is_empty() {
            return;
        }
        let whole = vk::ImageSubresourceRange::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .level_count(vk::REMAINING_MIP_LEVELS)
            .layer_count(vk::REMAINING_ARRAY_LAYERS);
        let into_layout = |image: &Rc<Image<'d>>| {
            vk::ImageMemoryBarrier::default()
                .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
                .old_layout(vk::ImageLayout::UNDEFINED)
                .new_layout(LAYOUT)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .image(image.raw())
                .subresource_range(whole)
        };
        let barriers: Vec<_> = self.images.iter().map(into_layout).collect();
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let (raw, none) = (&self.device.raw, vk::DependencyFlags::empty());
        // SAFETY: the command buffer is being recorded, and `self` keeps the images.
        unsafe {
            raw.cmd_pipeline_barrier(self.commands.raw, all, all, none, &[], &[], &barriers);
        }
    }

    /// Makes a descriptor set of a pipeline's layout; see [`Needs::add_set`]. The resources of the bindings follow each
    /// other. The images of views are among those with which the recording began.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn set(
        &mut self,
        pipeline: &Pipeline<'d>,
        number: usize,
        bindings: &[protocol::Binding],
        resources: &[Resource<'d>],
    ) -> Result<DescriptorSet, VulkanError> {
        for resource in resources {
            match resource {
                Resource::Nothing => {}
                Resource::Buffer(buffer) => self.keep(buffer)?,
                Resource::Texels(_) | Resource::Image { .. } => {
                    self.resources.push(resource.clone());
                }
            }
        }
        self.pool.set(pipeline, number, bindings, resources)
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
    pub(super) fn keep(&mut self, range: &Binding<'d>) -> Result<(), VulkanError> {
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
