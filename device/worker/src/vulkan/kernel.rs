// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Compiled kernels and their dispatches.

use super::device::Imported;
use super::{Called, Device, VulkanError};
use ash::vk;
use std::ffi::CStr;

/// Vulkan's value for a wait without a time-out.
const FOREVER: u64 = u64::MAX;

/// What a kernel is compiled from.
pub struct Source<'a> {
    /// The module's words.
    pub spirv: &'a [u32],
    /// The entry point's name.
    pub entry_point: &'a CStr,
    /// Number of storage buffers: bindings from 0 in set 0.
    pub bindings: u32,
    /// Bytes of push constants.
    pub push_constants: u32,
    /// Number and 32-bit value of each specialisation constant.
    pub constants: &'a [[u32; 2]],
}

/// The part of imported memory that a storage buffer covers.
#[derive(Clone, Copy)]
pub struct Binding<'a> {
    /// The memory.
    pub memory: &'a Imported<'a>,
    /// Offset in bytes, a multiple of the device's descriptor alignment.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// A compiled kernel.
pub struct Kernel<'a> {
    device: &'a Device<'a>,
    module: vk::ShaderModule,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    pool: vk::DescriptorPool,
    set: vk::DescriptorSet,
    commands: vk::CommandBuffer,
    done: vk::Fence,
    bindings: u32,
    push_constants: u32,
}

impl<'i> Device<'i> {
    /// Compiles a kernel.
    ///
    /// A driver need not validate the SPIR-V, so a malformed module may do anything in this process.
    ///
    /// # Errors
    /// When a Vulkan call fails.
    pub fn compile(&self, source: &Source<'_>) -> Result<Kernel<'_>, VulkanError> {
        let mut kernel = Kernel {
            device: self,
            module: vk::ShaderModule::null(),
            set_layout: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
            pool: vk::DescriptorPool::null(),
            set: vk::DescriptorSet::null(),
            commands: vk::CommandBuffer::null(),
            done: vk::Fence::null(),
            bindings: source.bindings,
            push_constants: source.push_constants,
        };
        kernel.make_pipeline(source)?;
        kernel.make_set()?;
        kernel.make_commands()?;
        Ok(kernel)
    }
}

impl Kernel<'_> {
    /// Returns the number of bytes of push constants.
    pub fn push_constants(&self) -> usize {
        self.push_constants as usize
    }

    fn make_pipeline(&mut self, source: &Source<'_>) -> Result<(), VulkanError> {
        let raw = &self.device.raw;
        let module = vk::ShaderModuleCreateInfo::default().code(source.spirv);
        let values: Vec<_> =
            source.constants.iter().flat_map(|[_, value]| value.to_ne_bytes()).collect();
        let entries = (0..).step_by(size_of::<u32>()).zip(source.constants);
        let entries: Vec<_> = entries.map(constant).collect();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&values);
        // SAFETY: the structures live until each call returns, and name live objects of this device.
        unsafe {
            self.module = raw.create_shader_module(&module, None).called("vkCreateShaderModule")?;
            let bindings: Vec<_> = (0..source.bindings).map(storage_buffer).collect();
            let set_layout = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            self.set_layout = raw
                .create_descriptor_set_layout(&set_layout, None)
                .called("vkCreateDescriptorSetLayout")?;
            let set_layouts = [self.set_layout];
            let ranges = [vk::PushConstantRange::default()
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
                .size(source.push_constants)];
            // A range may not be empty.
            let ranges = if source.push_constants > 0 { &ranges[..] } else { &[] };
            let layout = vk::PipelineLayoutCreateInfo::default()
                .set_layouts(&set_layouts)
                .push_constant_ranges(ranges);
            self.layout =
                raw.create_pipeline_layout(&layout, None).called("vkCreatePipelineLayout")?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(self.module)
                .name(source.entry_point)
                .specialization_info(&constants);
            let pipeline =
                vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.layout);
            let made = raw.create_compute_pipelines(vk::PipelineCache::null(), &[pipeline], None);
            let made = made.map_err(|(_, result)| result).called("vkCreateComputePipelines")?;
            self.pipeline = made[0];
        }
        Ok(())
    }

    fn make_set(&mut self) -> Result<(), VulkanError> {
        if self.bindings == 0 {
            return Ok(());
        }
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(self.bindings)];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        // SAFETY: as in `make_pipeline`.
        unsafe {
            let raw = &self.device.raw;
            self.pool = raw.create_descriptor_pool(&pool, None).called("vkCreateDescriptorPool")?;
            let set_layouts = [self.set_layout];
            let set = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(self.pool)
                .set_layouts(&set_layouts);
            self.set = raw.allocate_descriptor_sets(&set).called("vkAllocateDescriptorSets")?[0];
        }
        Ok(())
    }

    fn make_commands(&mut self) -> Result<(), VulkanError> {
        let commands = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.device.commands)
            .command_buffer_count(1);
        // SAFETY: as in `make_pipeline`.
        unsafe {
            let raw = &self.device.raw;
            self.commands =
                raw.allocate_command_buffers(&commands).called("vkAllocateCommandBuffers")?[0];
            let done = vk::FenceCreateInfo::default();
            self.done = raw.create_fence(&done, None).called("vkCreateFence")?;
        }
        Ok(())
    }

    /// Runs the work groups, and waits until they are done.
    ///
    /// A kernel that follows pointers reaches all of this process's memory. The process exists to run such kernels,
    /// and contains the damage.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device is lost.
    pub fn run(
        &mut self,
        bindings: &[Binding<'_>],
        push_constants: &[u8],
        groups: [u32; 3],
    ) -> Result<(), VulkanError> {
        assert_eq!(bindings.len(), self.bindings as usize);
        assert_eq!(push_constants.len(), self.push_constants as usize);
        for binding in bindings {
            let end = binding.offset.checked_add(binding.length);
            assert!(end.is_some_and(|end| end <= binding.memory.length), "outside the memory");
        }
        self.bind(bindings);
        self.record(push_constants, groups)?;
        let raw = &self.device.raw;
        let buffers = [self.commands];
        let submit = vk::SubmitInfo::default().command_buffers(&buffers);
        // SAFETY: the commands are recorded and not pending: each earlier submission was waited for below. Only this
        // thread uses device and queue.
        unsafe {
            raw.queue_submit(self.device.queue, &[submit], self.done).called("vkQueueSubmit")?;
            raw.wait_for_fences(&[self.done], true, FOREVER).called("vkWaitForFences")?;
            raw.reset_fences(&[self.done]).called("vkResetFences")
        }
    }

    fn bind(&self, bindings: &[Binding<'_>]) {
        let buffers: Vec<_> = bindings.iter().map(|b| [b.information()]).collect();
        let writes: Vec<_> = (0..).zip(&buffers).map(|(at, b)| self.write(at, b)).collect();
        // SAFETY: no dispatch in flight uses the set: `run` waits for each.
        unsafe { self.device.raw.update_descriptor_sets(&writes, &[]) };
    }

    fn write<'b>(
        &self,
        binding: u32,
        buffer: &'b [vk::DescriptorBufferInfo],
    ) -> vk::WriteDescriptorSet<'b> {
        vk::WriteDescriptorSet::default()
            .dst_set(self.set)
            .dst_binding(binding)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(buffer)
    }

    fn record(&self, push_constants: &[u8], [x, y, z]: [u32; 3]) -> Result<(), VulkanError> {
        let (raw, commands) = (&self.device.raw, self.commands);
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // Kernels see the processor's stores without a barrier. The processor needs one to see theirs.
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        // SAFETY: the command buffer is not pending, and names live objects of this device.
        unsafe {
            raw.begin_command_buffer(commands, &begin).called("vkBeginCommandBuffer")?;
            raw.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, self.pipeline);
            if self.bindings > 0 {
                let (point, sets) = (vk::PipelineBindPoint::COMPUTE, [self.set]);
                raw.cmd_bind_descriptor_sets(commands, point, self.layout, 0, &sets, &[]);
            }
            if !push_constants.is_empty() {
                let stage = vk::ShaderStageFlags::COMPUTE;
                raw.cmd_push_constants(commands, self.layout, stage, 0, push_constants);
            }
            raw.cmd_dispatch(commands, x, y, z);
            let (from, to) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::HOST);
            let none = vk::DependencyFlags::empty();
            raw.cmd_pipeline_barrier(commands, from, to, none, &barrier, &[], &[]);
            raw.end_command_buffer(commands).called("vkEndCommandBuffer")
        }
    }
}

impl Binding<'_> {
    fn information(&self) -> vk::DescriptorBufferInfo {
        vk::DescriptorBufferInfo::default()
            .buffer(self.memory.buffer)
            .offset(self.offset)
            .range(self.length)
    }
}

fn constant((offset, [number, _]): (u32, &[u32; 2])) -> vk::SpecializationMapEntry {
    vk::SpecializationMapEntry::default().constant_id(*number).offset(offset).size(size_of::<u32>())
}

fn storage_buffer(binding: u32) -> vk::DescriptorSetLayoutBinding<'static> {
    vk::DescriptorSetLayoutBinding::default()
        .binding(binding)
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(1)
        .stage_flags(vk::ShaderStageFlags::COMPUTE)
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        let raw = &self.device.raw;
        // SAFETY: no dispatch is in flight: `run` waits for each. Destroying a null handle does nothing.
        unsafe {
            raw.destroy_fence(self.done, None);
            if self.commands != vk::CommandBuffer::null() {
                raw.free_command_buffers(self.device.commands, &[self.commands]);
            }
            raw.destroy_descriptor_pool(self.pool, None);
            raw.destroy_pipeline(self.pipeline, None);
            raw.destroy_pipeline_layout(self.layout, None);
            raw.destroy_descriptor_set_layout(self.set_layout, None);
            raw.destroy_shader_module(self.module, None);
        }
    }
}
