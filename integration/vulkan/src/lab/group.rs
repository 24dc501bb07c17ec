// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Devices that consist of several, and what is for some of those.

use super::machine::{Description, Features};
use super::{At, Failure, Gpu, Image, Lab, Outcome, Queue, Recorder};
use ash::vk;

/// What is submitted at once: with device indices, and masks of those.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Batch<'a> {
    pub(crate) wait: &'a [(At, u32)],
    pub(crate) commands: &'a [(vk::CommandBuffer, u32)],
    pub(crate) signal: &'a [(At, u32)],
}

impl Lab {
    /// The groups of the instance.
    pub(crate) fn groups(&self) -> Outcome<Vec<Vec<vk::PhysicalDevice>>> {
        // SAFETY: the instance is there, and the structures live until the calls return.
        let groups = unsafe {
            let count = self.instance.enumerate_physical_device_groups_len()?;
            let mut groups = vec![vk::PhysicalDeviceGroupProperties::default(); count];
            self.instance.enumerate_physical_device_groups(&mut groups)?;
            groups
        };
        Ok(groups.iter().map(|group| group.physical_devices_as_slice().to_vec()).collect())
    }

    /// The devices of the group that this one is of, if they are several.
    pub(crate) fn members(&self) -> Outcome<Vec<vk::PhysicalDevice>> {
        let groups = self.groups()?;
        let own = groups.into_iter().find(|group| group.contains(&self.physical));
        let several = own.filter(|group| group.len() > 1);
        several.ok_or_else(|| Failure::not_offered("the device is alone in its group"))
    }

    /// What a member of the group says of itself, and what it can.
    pub(crate) fn member(&self, member: vk::PhysicalDevice) -> (Description, Features) {
        (self.description_of(member), self.features_of(member))
    }

    /// A device that is one of the group alone.
    pub(crate) fn alone(&self, member: vk::PhysicalDevice) -> Outcome<Gpu<'_>> {
        Gpu::open(self, &[member])
    }

    /// A device that consists of all of the group, and how many those are.
    pub(crate) fn group(&self) -> Outcome<(Gpu<'_>, u32)> {
        let members = self.members()?;
        self.group_of(&members)
    }

    /// The same, with queues that draw.
    pub(crate) fn drawing_group(&self) -> Outcome<(Gpu<'_>, u32)> {
        let work = self.graphics()?.work;
        let (mut gpu, count) = self.group()?;
        gpu.work = work;
        Ok((gpu, count))
    }

    /// A device that consists of these, in this order, and how many those are.
    pub(crate) fn group_of(&self, members: &[vk::PhysicalDevice]) -> Outcome<(Gpu<'_>, u32)> {
        if self.features().since_1_2.buffer_device_address_multi_device == vk::FALSE {
            return Err(Failure::not_offered("buffers of a group have no addresses"));
        }
        let mut gpu = Gpu::open(self, members)?;
        // Behaviours see into memory, which has to be there once.
        let memory = self.memory();
        for kind in &mut gpu.memory_types {
            let heap = memory.memory_heaps_as_slice().get(kind.heap_index as usize);
            let flags = heap.map(|heap| heap.flags).unwrap_or_default();
            if flags.contains(vk::MemoryHeapFlags::MULTI_INSTANCE) {
                kind.property_flags = vk::MemoryPropertyFlags::empty();
            }
        }
        Ok((gpu, members.len() as u32))
    }
}

impl Gpu<'_> {
    /// Submits, as Vulkan 1.1 does it.
    pub(crate) fn submit_to(
        &self,
        queue: Queue,
        Batch { wait, commands, signal }: Batch<'_>,
        fence: vk::Fence,
    ) -> Result<(), vk::Result> {
        let semaphores = |all: &[(At, u32)]| all.iter().map(|(at, _)| at.0).collect::<Vec<_>>();
        let values = |all: &[(At, u32)]| all.iter().map(|(at, _)| at.1).collect::<Vec<_>>();
        let indices = |all: &[(At, u32)]| all.iter().map(|(_, index)| *index).collect::<Vec<_>>();
        let (buffers, masks): (Vec<_>, Vec<_>) = commands.iter().copied().unzip();
        let (waits, signals) = (indices(wait), indices(signal));
        let mut group = vk::DeviceGroupSubmitInfo::default()
            .wait_semaphore_device_indices(&waits)
            .command_buffer_device_masks(&masks)
            .signal_semaphore_device_indices(&signals);
        let (wait_values, signal_values) = (values(wait), values(signal));
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let (waits, signals) = (semaphores(wait), semaphores(signal));
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; wait.len()];
        let batch = [vk::SubmitInfo::default()
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages)
            .command_buffers(&buffers)
            .signal_semaphores(&signals)
            .push_next(&mut timeline)
            .push_next(&mut group)];
        // SAFETY: the objects are the device's, and live as long as it. This thread alone uses the queue.
        unsafe { self.raw.queue_submit(queue.raw, &batch, fence) }
    }

    /// Submits batches at once, as Vulkan 1.3 does it.
    pub(crate) fn submit_2_to(
        &self,
        queue: Queue,
        batches: &[Batch<'_>],
        fence: vk::Fence,
    ) -> Result<(), vk::Result> {
        let semaphores = |all: &[(At, u32)]| {
            let each = all.iter().map(|(at, index)| {
                vk::SemaphoreSubmitInfo::default()
                    .semaphore(at.0)
                    .value(at.1)
                    .device_index(*index)
                    .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
            });
            each.collect::<Vec<_>>()
        };
        let buffers = |all: &[(vk::CommandBuffer, u32)]| {
            let each = all.iter().map(|(raw, mask)| {
                vk::CommandBufferSubmitInfo::default().command_buffer(*raw).device_mask(*mask)
            });
            each.collect::<Vec<_>>()
        };
        let part = |batch: &Batch<'_>| {
            (semaphores(batch.wait), buffers(batch.commands), semaphores(batch.signal))
        };
        let parts: Vec<_> = batches.iter().map(part).collect();
        let batch = |(wait, commands, signal)| {
            vk::SubmitInfo2::default()
                .wait_semaphore_infos(wait)
                .command_buffer_infos(commands)
                .signal_semaphore_infos(signal)
        };
        let batches: Vec<_> =
            parts.iter().map(|(a, b, c)| batch((&a[..], &b[..], &c[..]))).collect();
        // SAFETY: as above.
        unsafe { self.raw.queue_submit2(queue.raw, &batches, fence) }
    }

    /// Submits a command buffer to these devices, and waits until it is done.
    pub(crate) fn finish_on(
        &self,
        queue: Queue,
        commands: vk::CommandBuffer,
        mask: u32,
    ) -> Result<(), vk::Result> {
        let fence = self.fence(false)?;
        self.submit_to(queue, Batch { commands: &[(commands, mask)], ..Batch::default() }, fence)?;
        self.wait_fences(&[fence], true, super::PATIENCE)
    }

    /// A recorded command buffer that is for these devices at its beginning.
    pub(crate) fn record_for(
        &self,
        queue: Queue,
        mask: u32,
        write: impl FnOnce(&Recorder<'_>),
    ) -> Outcome<vk::CommandBuffer> {
        let pool = self.command_pool(queue)?;
        let raw = self.bare_commands(pool, vk::CommandBufferLevel::PRIMARY)?;
        let mut group = vk::DeviceGroupCommandBufferBeginInfo::default().device_mask(mask);
        let information = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)
            .push_next(&mut group);
        // SAFETY: the command buffer is the device's, does not execute, and is used by this thread alone.
        unsafe { self.raw.begin_command_buffer(raw, &information) }?;
        write(&Recorder { gpu: self, raw });
        // SAFETY: as above; it is being recorded.
        unsafe { self.raw.end_command_buffer(raw) }?;
        Ok(raw)
    }

    /// What a device of the group may do with memory of another.
    pub(crate) fn peer_features(
        &self,
        heap: u32,
        local: u32,
        remote: u32,
    ) -> vk::PeerMemoryFeatureFlags {
        // SAFETY: the device is open, and has the heap and the indices.
        unsafe { self.raw.get_device_group_peer_memory_features(heap, local, remote) }
    }

    /// Memory of its own, for the devices of this mask.
    pub(crate) fn allocate_on(
        &self,
        size: u64,
        index: u32,
        mask: u32,
    ) -> Result<vk::DeviceMemory, vk::Result> {
        let flags = vk::MemoryAllocateFlags::DEVICE_MASK;
        let flags = vk::MemoryAllocateFlagsInfo::default().flags(flags).device_mask(mask);
        self.allocate_as(size, index, flags)
    }

    /// Binds memory to a buffer, and says whose it is for each device.
    pub(crate) fn bind_buffer_for(
        &self,
        buffer: vk::Buffer,
        memory: vk::DeviceMemory,
        indices: &[u32],
    ) -> Outcome {
        let mut group = vk::BindBufferMemoryDeviceGroupInfo::default().device_indices(indices);
        let information = vk::BindBufferMemoryInfo::default().buffer(buffer).memory(memory);
        let information = [information.push_next(&mut group)];
        // SAFETY: the caller names a buffer and a memory of the device's, and the buffer has none yet.
        Ok(unsafe { self.raw.bind_buffer_memory2(&information) }?)
    }

    /// Binds memory to an image, and says whose it is for each device.
    pub(crate) fn bind_image_for(
        &self,
        image: Image,
        memory: vk::DeviceMemory,
        indices: &[u32],
    ) -> Outcome {
        let mut group = vk::BindImageMemoryDeviceGroupInfo::default().device_indices(indices);
        let information = vk::BindImageMemoryInfo::default().image(image.raw).memory(memory);
        let information = [information.push_next(&mut group)];
        // SAFETY: the caller names an image and a memory of the device's, and the image has none yet.
        Ok(unsafe { self.raw.bind_image_memory2(&information) }?)
    }
}

impl Recorder<'_> {
    /// Has these devices execute what follows, and no others.
    pub(crate) fn only(&self, mask: u32) -> &Self {
        // SAFETY: the command buffer is being recorded, and is for these devices.
        unsafe { self.gpu.raw.cmd_set_device_mask(self.raw, mask) };
        self
    }

    /// Has everything before it on all devices be done, and seen by everything behind it on all of them.
    pub(crate) fn barrier_of_group(&self) -> &Self {
        let everything = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let memory =
            [vk::MemoryBarrier::default().src_access_mask(everything).dst_access_mask(everything)];
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let flags = vk::DependencyFlags::DEVICE_GROUP;
        // SAFETY: the command buffer is being recorded. The structures live until the call returns.
        unsafe { self.gpu.raw.cmd_pipeline_barrier(self.raw, all, all, flags, &memory, &[], &[]) };
        self
    }
}
