// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Dispatches: one command buffer, which may be run again as it was recorded.

use super::{Called, Device, Imported, Kernel, VulkanError};
use ash::vk;
use std::rc::Rc;

/// Vulkan's value for a wait without a time-out.
const FOREVER: u64 = u64::MAX;
/// Most storage buffers of a kernel.
const MAX_BINDINGS: usize = crate::messages::MAX_DESCRIPTORS;

/// The part of imported memory that a storage buffer covers.
#[derive(Clone)]
pub struct Binding<'d> {
    /// The memory.
    pub memory: Rc<Imported<'d>>,
    /// Offset in bytes, a multiple of the device's descriptor alignment.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// A dispatch of a kernel.
pub struct Dispatch<'a, 'd> {
    /// The kernel.
    pub kernel: &'a Rc<Kernel<'d>>,
    /// Its storage buffers, as many as it has.
    pub bindings: &'a [Binding<'d>],
    /// Its push constants, as many bytes as it has.
    pub push_constants: &'a [u8],
    /// Number of work groups, by dimension.
    pub groups: [u32; 3],
    /// Whether it waits for the dispatches before it, and sees their stores.
    pub barrier: bool,
}

/// A command buffer with dispatches, and what they use.
pub struct Runner<'d> {
    device: &'d Device<'d>,
    commands: vk::CommandBuffer,
    pool: vk::DescriptorPool,
    done: vk::Fence,
    /// What the recorded dispatches use.
    kernels: Vec<Rc<Kernel<'d>>>,
    memory: Vec<Rc<Imported<'d>>>,
    /// Whether the command buffer is recorded to its end.
    recorded: bool,
}

impl<'d> Runner<'d> {
    /// Makes a command buffer for so many dispatches at most.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn new(device: &'d Device<'d>, most: u32) -> Result<Self, VulkanError> {
        let mut runner = Self {
            device,
            commands: vk::CommandBuffer::null(),
            pool: vk::DescriptorPool::null(),
            done: vk::Fence::null(),
            kernels: Vec::new(),
            memory: Vec::new(),
            recorded: false,
        };
        let raw = &device.raw;
        let commands = vk::CommandBufferAllocateInfo::default()
            .command_pool(device.commands)
            .command_buffer_count(1);
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(most * MAX_BINDINGS as u32)];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(most).pool_sizes(&sizes);
        // SAFETY: the structures live until each call returns, and name live objects of this device. If a step fails,
        // dropping the runner destroys what the steps before it made.
        unsafe {
            runner.commands =
                raw.allocate_command_buffers(&commands).called("vkAllocateCommandBuffers")?[0];
            runner.pool =
                raw.create_descriptor_pool(&pool, None).called("vkCreateDescriptorPool")?;
            let done = vk::FenceCreateInfo::default();
            runner.done = raw.create_fence(&done, None).called("vkCreateFence")?;
        }
        Ok(runner)
    }

    /// Runs dispatches, and waits until they are done.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    pub fn run(&mut self, dispatches: &[Dispatch<'_, 'd>]) -> Result<(), VulkanError> {
        self.begin()?;
        for dispatch in dispatches {
            self.add(dispatch)?;
        }
        self.end()?;
        self.again()
    }

    /// Forgets what was recorded, and begins anew.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn begin(&mut self) -> Result<(), VulkanError> {
        self.recorded = false;
        let (raw, none) = (&self.device.raw, vk::DescriptorPoolResetFlags::empty());
        let begin = vk::CommandBufferBeginInfo::default();
        // SAFETY: the commands are not pending: each submission is waited for. Beginning resets the command buffer, so
        // it no longer uses the sets, kernels and memory.
        unsafe {
            raw.begin_command_buffer(self.commands, &begin).called("vkBeginCommandBuffer")?;
            raw.reset_descriptor_pool(self.pool, none).called("vkResetDescriptorPool")?;
        }
        self.kernels.clear();
        self.memory.clear();
        Ok(())
    }

    /// Records a dispatch.
    ///
    /// A kernel that follows pointers reaches all of this process's memory. The process exists to run such kernels,
    /// and contains the damage.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn add(&mut self, dispatch: &Dispatch<'_, 'd>) -> Result<(), VulkanError> {
        let Dispatch { kernel, bindings, push_constants, groups: [x, y, z], barrier } = *dispatch;
        assert_eq!(bindings.len(), kernel.bindings());
        assert_eq!(push_constants.len(), kernel.push_constants());
        let (raw, commands, point) =
            (&self.device.raw, self.commands, vk::PipelineBindPoint::COMPUTE);
        // SAFETY: the command buffer is being recorded, and names live objects of this device, which `self` keeps.
        unsafe {
            if barrier {
                let stage = vk::PipelineStageFlags::COMPUTE_SHADER;
                let (read, write) = (vk::AccessFlags::SHADER_READ, vk::AccessFlags::SHADER_WRITE);
                let barrier = [vk::MemoryBarrier::default()
                    .src_access_mask(write)
                    .dst_access_mask(read | write)];
                let none = vk::DependencyFlags::empty();
                raw.cmd_pipeline_barrier(commands, stage, stage, none, &barrier, &[], &[]);
            }
            // The kernel of the dispatch before is still bound.
            if self.kernels.last().is_none_or(|last| !Rc::ptr_eq(last, kernel)) {
                raw.cmd_bind_pipeline(commands, point, kernel.pipeline);
                self.kernels.push(Rc::clone(kernel));
            }
            if !bindings.is_empty() {
                let set = self.set(kernel, bindings)?;
                let layout = kernel.layout;
                raw.cmd_bind_descriptor_sets(commands, point, layout, 0, &[set], &[]);
            }
            if !push_constants.is_empty() {
                let stage = vk::ShaderStageFlags::COMPUTE;
                raw.cmd_push_constants(commands, kernel.layout, stage, 0, push_constants);
            }
            raw.cmd_dispatch(commands, x, y, z);
        }
        Ok(())
    }

    fn set(
        &mut self,
        kernel: &Kernel<'d>,
        bindings: &[Binding<'d>],
    ) -> Result<vk::DescriptorSet, VulkanError> {
        let raw = &self.device.raw;
        let layouts = [kernel.set_layout];
        let set = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.pool)
            .set_layouts(&layouts);
        let mut buffers = [vk::DescriptorBufferInfo::default(); MAX_BINDINGS];
        for (buffer, binding) in buffers.iter_mut().zip(bindings) {
            let Binding { memory, offset, length } = binding;
            let end = offset.checked_add(*length);
            assert!(end.is_some_and(|end| end <= memory.length), "outside the memory");
            *buffer = buffer.buffer(memory.buffer).offset(*offset).range(*length);
            self.memory.push(Rc::clone(memory));
        }
        // SAFETY: the structures live until each call returns. The set is new, so no command buffer uses it.
        unsafe {
            let set = raw.allocate_descriptor_sets(&set).called("vkAllocateDescriptorSets")?[0];
            // Storage buffers with consecutive bindings are one write.
            let write = vk::WriteDescriptorSet::default()
                .dst_set(set)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(&buffers[..bindings.len()]);
            raw.update_descriptor_sets(&[write], &[]);
            Ok(set)
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn end(&mut self) -> Result<(), VulkanError> {
        let (raw, commands) = (&self.device.raw, self.commands);
        // Kernels see the processor's stores without a barrier. The processor needs one to see theirs.
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        let (from, to) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::HOST);
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded.
        unsafe {
            raw.cmd_pipeline_barrier(commands, from, to, none, &barrier, &[], &[]);
            raw.end_command_buffer(commands).called("vkEndCommandBuffer")?;
        }
        self.recorded = true;
        Ok(())
    }

    /// Runs what was recorded, and waits until it is done.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    pub fn again(&mut self) -> Result<(), VulkanError> {
        assert!(self.recorded, "nothing is recorded to its end");
        let (raw, buffers, fences) = (&self.device.raw, [self.commands], [self.done]);
        let submit = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: the commands are recorded, and what they use is kept in `self`. They are not pending: each earlier
        // submission was waited for below. Only this thread uses device and queue.
        unsafe {
            raw.queue_submit(self.device.queue, &submit, self.done).called("vkQueueSubmit")?;
            raw.wait_for_fences(&fences, true, FOREVER).called("vkWaitForFences")?;
            raw.reset_fences(&fences).called("vkResetFences")
        }
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        let raw = &self.device.raw;
        // SAFETY: nothing is pending: `again` waits. Destroying a null handle does nothing.
        unsafe {
            raw.destroy_fence(self.done, None);
            if self.commands != vk::CommandBuffer::null() {
                raw.free_command_buffers(self.device.commands, &[self.commands]);
            }
            raw.destroy_descriptor_pool(self.pool, None);
        }
    }
}
