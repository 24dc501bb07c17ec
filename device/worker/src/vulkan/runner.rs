// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Dispatches: one command buffer, which may be run again as it was recorded.

use super::command_buffer::CommandBuffer;
use super::{Called, Device, Imported, Kernel, VulkanError};
use ash::vk;
use std::rc::Rc;

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
    commands: CommandBuffer<'d>,
    pool: vk::DescriptorPool,
    /// What the recorded dispatches use.
    kernels: Vec<Rc<Kernel<'d>>>,
    memory: Vec<Rc<Imported<'d>>>,
}

impl<'d> Runner<'d> {
    /// Makes a command buffer for so many dispatches at most.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn new(device: &'d Device<'d>, most: u32) -> Result<Self, VulkanError> {
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(most * MAX_BINDINGS as u32)];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(most).pool_sizes(&sizes);
        let commands = CommandBuffer::new(device)?;
        // SAFETY: the structures live until the call returns.
        let pool = unsafe { device.raw.create_descriptor_pool(&pool, None) };
        let pool = pool.called("vkCreateDescriptorPool")?;
        Ok(Self { device, commands, pool, kernels: Vec::new(), memory: Vec::new() })
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
        let none = vk::DescriptorPoolResetFlags::empty();
        self.commands.begin()?;
        // SAFETY: the command buffer has just been reset, so it no longer uses the sets, kernels and memory.
        unsafe { self.device.raw.reset_descriptor_pool(self.pool, none) }
            .called("vkResetDescriptorPool")?;
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
            (&self.device.raw, self.commands.raw, vk::PipelineBindPoint::COMPUTE);
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
        let (raw, commands) = (&self.device.raw, self.commands.raw);
        // Kernels see the processor's stores without a barrier. The processor needs one to see theirs.
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        let (from, to) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::HOST);
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded.
        unsafe { raw.cmd_pipeline_barrier(commands, from, to, none, &barrier, &[], &[]) };
        self.commands.end()
    }

    /// Runs what was recorded, and waits until it is done.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    pub fn again(&mut self) -> Result<(), VulkanError> {
        // SAFETY: what the recorded commands use is kept in `self`.
        unsafe { self.commands.run() }
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing is pending: `again` waits.
        unsafe { self.device.raw.destroy_descriptor_pool(self.pool, None) };
    }
}
