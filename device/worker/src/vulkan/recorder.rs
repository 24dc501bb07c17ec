// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Records commands into one command buffer, which may be run again as it was recorded.

use super::command_buffer::CommandBuffer;
use super::descriptor_sets::Pool;
use super::queries::Queries;
use super::{
    Binding, Counts, DescriptorSet, Device, Image, Imported, Needs, Pipeline, Point, Resource,
    VulkanError,
};
use ash::vk;
use bellhop_protocol::vulkan as protocol;
use std::rc::Rc;

/// Most imports that a command buffer uses: a bound on this process's memory, far beyond what drivers ask for.
const MOST: usize = 1 << 20;

/// The layout of all images.
pub(super) const LAYOUT: vk::ImageLayout = vk::ImageLayout::GENERAL;

/// A command buffer, and what it uses.
pub struct Recorder<'d> {
    pub(super) device: &'d Device<'d>,
    pub(super) commands: CommandBuffer<'d>,
    /// What the pool has room for.
    pub(super) room: Needs,
    pool: Pool<'d>,
    pub(super) queries: Queries<'d>,
    /// What the recorded commands use.
    pipelines: Vec<Rc<Pipeline<'d>>>,
    memory: Vec<Rc<Imported<'d>>>,
    images: Vec<Rc<Image<'d>>>,
    /// What descriptors are of beside memory.
    pub(super) resources: Vec<Resource<'d>>,
    /// What is bound, for each point.
    bound: [Option<Rc<Pipeline<'d>>>; 2],
    /// Whether the last dispatch had a first work group.
    pub(super) has_base: bool,
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
            queries: Queries::new(device),
            pipelines: Vec::new(),
            memory: Vec::new(),
            images: Vec::new(),
            resources: Vec::new(),
            bound: [None, None],
            has_base: false,
        })
    }

    /// Forgets what was recorded, and begins anew, with room for these needs and counts, and with these images.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn begin(
        &mut self,
        needs: Needs,
        counts: &Counts,
        images: &[Rc<Image<'d>>],
    ) -> Result<(), VulkanError> {
        self.commands.begin()?;
        self.pipelines.clear();
        self.memory.clear();
        self.resources.clear();
        self.images.clear();
        self.images.extend_from_slice(images);
        self.bound = [None, None];
        self.has_base = false;
        let room = self.room.max(needs);
        if room != self.room {
            self.pool = Pool::new(self.device, room)?;
        } else {
            // SAFETY: the command buffer has been reset, so nothing uses the sets.
            unsafe { self.pool.reset()? };
        }
        self.room = room;
        // SAFETY: the command buffer was reset, so nothing uses the queries, and it is being recorded.
        unsafe { self.queries.begin(self.commands.raw, counts)? };
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
                .subresource_range(whole.aspect_mask(image.aspects()))
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

    /// Makes a pipeline the one that what follows runs, and returns whether it was another before.
    pub fn bind(&mut self, pipeline: &Rc<Pipeline<'d>>) -> bool {
        let point = pipeline.point;
        if self.bound(point).is_some_and(|bound| Rc::ptr_eq(bound, pipeline)) {
            return false;
        }
        // SAFETY: the command buffer is being recorded, and `self` keeps the pipeline, which is for this point.
        unsafe { self.device.raw.cmd_bind_pipeline(self.commands.raw, point.raw(), pipeline.raw) };
        self.pipelines.push(Rc::clone(pipeline));
        self.bound[point as usize] = Some(Rc::clone(pipeline));
        true
    }

    /// The pipeline that is bound for this.
    pub(super) fn bound(&self, point: Point) -> Option<&Rc<Pipeline<'d>>> {
        self.bound[point as usize].as_ref()
    }

    /// Gives the bound pipeline a set of its layout.
    pub fn bind_set(&mut self, point: Point, number: usize, DescriptorSet(set): DescriptorSet) {
        let Some(pipeline) = self.bound(point) else { return };
        let (raw, commands, number) = (&self.device.raw, self.commands.raw, number as u32);
        let (layout, sets) = (pipeline.layout, [set]);
        // SAFETY: as in `bind`. The set is of this recorder's pool, which `begin` alone empties.
        unsafe { raw.cmd_bind_descriptor_sets(commands, point.raw(), layout, number, &sets, &[]) };
    }

    /// Gives the bound pipeline its first push constants, no more than it has.
    pub fn push_constants(&self, point: Point, bytes: &[u8]) {
        let Some(pipeline) = self.bound(point) else { return };
        if !bytes.is_empty() {
            let (layout, stages) = (pipeline.layout, point.stages());
            // SAFETY: the command buffer is being recorded. The pipeline's layout has so many push constants.
            unsafe {
                self.device.raw.cmd_push_constants(self.commands.raw, layout, stages, 0, bytes);
            }
        }
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
