// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan is called by pointers, with handles")]

//! Submits and records with the Vulkan driver, so that `cargo xtask cost` can count its instructions: those from an entry point
//! to its return.
//!
//! The driver is the product's, as a part of this program, so that callgrind knows its functions. The daemon and the host's Vulkan
//! are other processes, and are not counted. All work is done before more is submitted.

mod section;

use anyhow::Context as _;
use ash::{Device, Entry, Instance, vk};
use section::{BATCHES, count, end_section};
use vulkan_bellhop::loader::instance_proc_addr;

/// The side that is counted.
const SIDE: &str = "vulkan";
/// Command buffers in a submission beside the first one.
const FURTHER: usize = 16;
/// Dispatches in a command buffer.
const DISPATCHES: usize = 64;
/// Bytes of the buffer that commands use.
const BUFFER: u64 = 4096;

/// `void main() {}`, as SPIR-V.
const SHADER: [u32; 35] = [
    0x0723_0203,
    0x0001_0000,
    0,
    5,
    0, // The header: five names.
    0x0002_0011,
    1, // OpCapability Shader
    0x0003_000E,
    0,
    1, // OpMemoryModel Logical GLSL450
    0x0005_000F,
    5,
    1,
    0x6E69_616D,
    0, // OpEntryPoint GLCompute %1 "main"
    0x0006_0010,
    1,
    17,
    1,
    1,
    1, // OpExecutionMode %1 LocalSize 1 1 1
    0x0002_0013,
    2, // %2 = OpTypeVoid
    0x0003_0021,
    3,
    2, // %3 = OpTypeFunction %2
    0x0005_0036,
    2,
    1,
    0,
    3, // %1 = OpFunction %2 None %3
    0x0002_00F8,
    4,           // %4 = OpLabel
    0x0001_00FD, // OpReturn
    0x0001_0038, // OpFunctionEnd
];

fn main() -> anyhow::Result<()> {
    // SAFETY: the function is the driver's, and is there as long as this program.
    let entry = unsafe {
        Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr: instance_proc_addr })
    };
    // SAFETY: in this program, handles are those that their objects were created with, structures live until calls return, and
    // nothing is destroyed before its end.
    unsafe { Client::new(&entry)?.count_all() }
}

/// A device with all that commands need.
struct Client {
    device: Device,
    queue: vk::Queue,
    /// A timeline, and the value that it had last.
    semaphore: vk::Semaphore,
    value: u64,
    /// Command buffers of one command each.
    small: Vec<vk::CommandBuffer>,
    /// The command buffer for dispatches.
    recorded: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    set: vk::DescriptorSet,
}

impl Client {
    unsafe fn new(entry: &Entry) -> anyhow::Result<Self> {
        // SAFETY: as `main` says, here and below.
        unsafe {
            let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
            let information = vk::InstanceCreateInfo::default().application_info(&application);
            let instance = entry.create_instance(&information, None)?;
            let devices = instance.enumerate_physical_devices()?;
            let physical =
                *devices.first().context("there is no device; see BELLHOP_VULKAN_DEBUG")?;
            let device = device(&instance, physical)?;
            let queue = device.get_device_queue(0, 0);
            let mut timeline =
                vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let information = vk::SemaphoreCreateInfo::default().push_next(&mut timeline);
            let semaphore = device.create_semaphore(&information, None)?;
            let buffer = buffer(&device)?;
            let (layout, pipeline, set) = kernel(&device, buffer)?;
            let pool = vk::CommandPoolCreateInfo::default()
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            let pool = device.create_command_pool(&pool, None)?;
            let allocated = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(FURTHER as u32 + 2);
            let mut small = device.allocate_command_buffers(&allocated)?;
            let recorded = small.pop().context("there is no command buffer")?;
            for commands in &small {
                device.begin_command_buffer(*commands, &vk::CommandBufferBeginInfo::default())?;
                device.cmd_fill_buffer(*commands, buffer, 0, BUFFER, 7);
                device.end_command_buffer(*commands)?;
            }
            Ok(Self { device, queue, semaphore, value: 0, small, recorded, layout, pipeline, set })
        }
    }

    unsafe fn count_all(mut self) -> anyhow::Result<()> {
        // SAFETY: as `main` says.
        unsafe {
            // The first ones connect the doorbell, and make buffers for packets.
            for buffers in [0, 1, FURTHER + 1] {
                self.submit_many(buffers)?;
            }
            end_section(SIDE, "nothing", 0);
            count(|| ());
            end_section(SIDE, "nothing", 0);
            self.submit_many(0)?;
            end_section(SIDE, "submission", 1);
            self.submit_many(1)?;
            end_section(SIDE, "nothing", 0);
            self.submit_many(1 + FURTHER)?;
            end_section(SIDE, "further-command-buffer", FURTHER);
            count(|| ());
            end_section(SIDE, "nothing", 0);
            self.record_many()?;
            end_section(SIDE, "dispatch-with-a-set", DISPATCHES);
        }
        Ok(())
    }

    /// Submits this many command buffers with a signal of a timeline, one submission after another is done.
    unsafe fn submit_many(&mut self, buffers: usize) -> anyhow::Result<()> {
        for _ in 0..BATCHES {
            self.value += 1;
            let signal = [vk::SemaphoreSubmitInfo::default()
                .semaphore(self.semaphore)
                .value(self.value)
                .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
            let buffers: Vec<_> = self.small.iter().take(buffers).copied().collect();
            let buffers: Vec<_> = buffers
                .iter()
                .map(|buffer| vk::CommandBufferSubmitInfo::default().command_buffer(*buffer))
                .collect();
            let batch = [vk::SubmitInfo2::default()
                .signal_semaphore_infos(&signal)
                .command_buffer_infos(&buffers)];
            // SAFETY: as `main` says.
            unsafe {
                count(|| self.device.queue_submit2(self.queue, &batch, vk::Fence::null()))?;
                self.device.queue_wait_idle(self.queue)?;
            }
        }
        Ok(())
    }

    /// Records command buffers of dispatches, each of which has a set of its own bound.
    unsafe fn record_many(&self) -> anyhow::Result<()> {
        let Self { device, recorded, layout, .. } = self;
        let (point, sets) = (vk::PipelineBindPoint::COMPUTE, [self.set]);
        for _ in 0..BATCHES {
            // SAFETY: as `main` says.
            unsafe {
                device.begin_command_buffer(*recorded, &vk::CommandBufferBeginInfo::default())?;
                device.cmd_bind_pipeline(*recorded, point, self.pipeline);
                count(|| {
                    for _ in 0..DISPATCHES {
                        device.cmd_bind_descriptor_sets(*recorded, point, *layout, 0, &sets, &[]);
                        device.cmd_dispatch(*recorded, 1, 1, 1);
                    }
                });
                device.end_command_buffer(*recorded)?;
            }
        }
        Ok(())
    }
}

/// # Safety
/// The physical device is the instance's.
unsafe fn device(instance: &Instance, physical: vk::PhysicalDevice) -> Result<Device, vk::Result> {
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let mut timelines =
        vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
    let mut submissions =
        vk::PhysicalDeviceSynchronization2Features::default().synchronization2(true);
    let information = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .push_next(&mut timelines)
        .push_next(&mut submissions);
    // SAFETY: the caller says so.
    unsafe { instance.create_device(physical, &information, None) }
}

/// A buffer with memory.
///
/// # Safety
/// The device lives.
unsafe fn buffer(device: &Device) -> Result<vk::Buffer, vk::Result> {
    let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_DST;
    // SAFETY: the handles are those that were just made.
    unsafe {
        let information = vk::BufferCreateInfo::default().size(BUFFER).usage(usage);
        let buffer = device.create_buffer(&information, None)?;
        let size = device.get_buffer_memory_requirements(buffer).size;
        let information = vk::MemoryAllocateInfo::default().allocation_size(size);
        let memory = device.allocate_memory(&information, None)?;
        device.bind_buffer_memory(buffer, memory, 0)?;
        Ok(buffer)
    }
}

/// A pipeline that does nothing, its layout with one set, and such a set with a buffer.
///
/// # Safety
/// The buffer is the device's.
unsafe fn kernel(
    device: &Device,
    buffer: vk::Buffer,
) -> anyhow::Result<(vk::PipelineLayout, vk::Pipeline, vk::DescriptorSet)> {
    const KIND: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;
    // SAFETY: the handles are those that were just made, and the caller's.
    unsafe {
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(KIND)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let information = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let of_set = [device.create_descriptor_set_layout(&information, None)?];
        let information = vk::PipelineLayoutCreateInfo::default().set_layouts(&of_set);
        let layout = device.create_pipeline_layout(&information, None)?;
        let information = vk::ShaderModuleCreateInfo::default().code(&SHADER);
        let module = device.create_shader_module(&information, None)?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let information = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        let pipelines =
            device.create_compute_pipelines(vk::PipelineCache::null(), &information, None);
        let pipelines = pipelines.map_err(|(_, error)| error)?;

        let sizes = [vk::DescriptorPoolSize::default().ty(KIND).descriptor_count(1)];
        let information = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        let pool = device.create_descriptor_pool(&information, None)?;
        let information =
            vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&of_set);
        let sets = device.allocate_descriptor_sets(&information)?;
        let set = *sets.first().context("there is no descriptor set")?;
        let buffers = [vk::DescriptorBufferInfo::default().buffer(buffer).range(BUFFER)];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(KIND)
            .buffer_info(&buffers);
        device.update_descriptor_sets(&[write], &[]);
        let pipeline = *pipelines.first().context("there is no pipeline")?;
        Ok((layout, pipeline, set))
    }
}
