// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! A device with one queue, and the memory that it uses.

pub(super) mod extensions;

use super::{Bounds, Called, Pages, PhysicalDevice, VulkanError};
use ash::ext::{
    conditional_rendering, external_memory_host, line_rasterization, transform_feedback,
};
use ash::vk;
use extensions::Extensions;
use std::ffi::c_void;
use std::rc::Rc;

/// The handle type of this process's memory.
pub(super) const HOST: vk::ExternalMemoryHandleTypeFlags =
    vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
/// What buffers are used for.
const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::UNIFORM_BUFFER.as_raw()
        | vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER.as_raw()
        | vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER.as_raw()
        | vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw()
        | vk::BufferUsageFlags::VERTEX_BUFFER.as_raw()
        | vk::BufferUsageFlags::INDEX_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

/// An opened device.
pub struct Device<'i> {
    pub(super) raw: ash::Device,
    pub(super) queue: vk::Queue,
    pub(super) commands: vk::CommandPool,
    external: external_memory_host::Device,
    /// Functions of extensions, which the device may not have.
    pub(super) transform: transform_feedback::Device,
    pub(super) conditional: conditional_rendering::Device,
    pub(super) lines: line_rasterization::Device,
    /// What buffers are used for.
    usage: vk::BufferUsageFlags,
    memory_types: Vec<vk::MemoryType>,
    pub(super) physical: PhysicalDevice<'i>,
    pub(super) bounds: Bounds,
}

impl<'i> Device<'i> {
    /// Opens a device for which `PhysicalDevice::lacks` returned `None`.
    ///
    /// # Errors
    /// When a Vulkan call fails, or the device has no queue for compute.
    pub fn open(physical: PhysicalDevice<'i>) -> Result<Self, VulkanError> {
        let instance = &physical.instance.raw;
        let family = physical.compute_family().ok_or(VulkanError::Lacks("queue for compute"))?;
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        let bounds = physical.bounds();
        let mut extensions = Extensions::of(&physical);
        let mut names = vec![external_memory_host::NAME.as_ptr()];
        names.extend(extensions.names().iter().map(|name| name.as_ptr()));
        let usage = USAGE | extensions.usage();
        if bounds.graphics.is_none() {
            extensions.leave_out_robust_access();
        }
        // Whatever kernels may use: the device enables everything that it has.
        let mut since_1_1 = vk::PhysicalDeviceVulkan11Features::default();
        let mut since_1_2 = vk::PhysicalDeviceVulkan12Features::default();
        let mut since_1_3 = vk::PhysicalDeviceVulkan13Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut since_1_1)
            .push_next(&mut since_1_2);
        // With the values that they were found with.
        features = extensions.chain(features);
        if physical.is_since_1_3() {
            features = features.push_next(&mut since_1_3);
        }
        // SAFETY: the structures are of Vulkan 1.2, which `lacks` checks first, and of 1.3 if the device has it.
        unsafe { instance.get_physical_device_features2(physical.handle, &mut features) };
        let information = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&names)
            .push_next(&mut features);
        // SAFETY: the structures live until the call returns. The handle belongs to this instance, which the lifetime
        // keeps alive longer than the device.
        let raw = unsafe { instance.create_device(physical.handle, &information, None) };
        let raw = raw.called("vkCreateDevice")?;
        let pool = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(family);
        // SAFETY: the device was made with this family.
        let commands = match unsafe { raw.create_command_pool(&pool, None) } {
            Ok(commands) => commands,
            Err(result) => {
                // SAFETY: nothing was made from it.
                unsafe { raw.destroy_device(None) };
                return Err(VulkanError::Call { call: "vkCreateCommandPool", result });
            }
        };
        // SAFETY: the device was made with one queue of this family.
        let queue = unsafe { raw.get_device_queue(family, 0) };
        // SAFETY: the handle belongs to this instance.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical.handle) };
        Ok(Self {
            queue,
            commands,
            external: external_memory_host::Device::new(instance, &raw),
            transform: transform_feedback::Device::new(instance, &raw),
            conditional: conditional_rendering::Device::new(instance, &raw),
            lines: line_rasterization::Device::new(instance, &raw),
            usage,
            memory_types: memory.memory_types_as_slice().to_vec(),
            raw,
            physical,
            bounds,
        })
    }

    /// Returns what the device takes.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Makes a buffer of this process's pages without a copy.
    ///
    /// # Errors
    /// When a Vulkan call fails, or no suitable memory type can import the pages.
    pub fn import<'a>(&'a self, pages: &'a Pages) -> Result<Imported<'a>, VulkanError> {
        // SAFETY: the lifetime keeps the pages alive longer than the import. They are accessed as atomics.
        unsafe { self.import_range(pages.start().as_ptr().cast(), pages.length() as u64) }
    }

    /// Makes a buffer of a range of this process's addresses without a copy. Address and length must be multiples of
    /// the device's import alignment.
    ///
    /// # Errors
    /// As [`Self::import`].
    ///
    /// # Safety
    /// The range belongs to this process's mappings, and nothing else is put there, while the import lives. No Rust
    /// reference points there, except to atomics.
    pub unsafe fn import_range(
        &self,
        start: *mut c_void,
        length: u64,
    ) -> Result<Imported<'_>, VulkanError> {
        let mut host = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the range belongs to this process, as the caller says.
        let asked = unsafe {
            let ask = self.external.fp().get_memory_host_pointer_properties_ext;
            ask(self.raw.handle(), HOST, start, &raw mut host)
        };
        asked.result().called("vkGetMemoryHostPointerPropertiesEXT")?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HOST);
        let information =
            vk::BufferCreateInfo::default().size(length).usage(self.usage).push_next(&mut external);
        // SAFETY: the structures live until the call returns.
        let buffer = unsafe { self.raw.create_buffer(&information, None) };
        let buffer = buffer.called("vkCreateBuffer")?;
        // From here on, dropping this destroys the buffer if a step fails.
        let memory = vk::DeviceMemory::null();
        let mut imported = Imported { device: self, buffer, memory, memory_type: 0, length };
        // SAFETY: the buffer is live.
        let needs = unsafe { self.raw.get_buffer_memory_requirements(buffer) };
        let kind = self.memory_type(needs.memory_type_bits & host.memory_type_bits);
        let kind = kind.ok_or(VulkanError::Lacks("memory type for imported memory"))?;
        let mut import =
            vk::ImportMemoryHostPointerInfoEXT::default().handle_type(HOST).host_pointer(start);
        let information = vk::MemoryAllocateInfo::default()
            .allocation_size(length)
            .memory_type_index(kind)
            .push_next(&mut import);
        // SAFETY: the range has the device's alignment, and stays longer than the import, as the caller says.
        let memory = unsafe { self.raw.allocate_memory(&information, None) };
        imported.memory = memory.called("vkAllocateMemory")?;
        imported.memory_type = kind;
        // SAFETY: buffer and memory are new, and have one length.
        unsafe { self.raw.bind_buffer_memory(buffer, imported.memory, 0) }
            .called("vkBindBufferMemory")?;
        Ok(imported)
    }

    /// Finds a memory type in the mask `among` that is coherent between processor and device.
    fn memory_type(&self, among: u32) -> Option<u32> {
        let wanted = vk::MemoryPropertyFlags::HOST_COHERENT;
        let is = |(index, kind): &(usize, &vk::MemoryType)| {
            among & (1 << index) != 0 && kind.property_flags.contains(wanted)
        };
        self.memory_types.iter().enumerate().find(is).map(|(index, _)| index as u32)
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        // SAFETY: everything made from the device borrowed it, and is gone. No dispatch is in flight: each call waits.
        unsafe {
            self.raw.destroy_command_pool(self.commands, None);
            self.raw.destroy_device(None);
        }
    }
}

/// Pages that a device uses as a buffer.
pub struct Imported<'a> {
    device: &'a Device<'a>,
    pub(super) buffer: vk::Buffer,
    pub(super) memory: vk::DeviceMemory,
    /// The index of the memory's type.
    pub(super) memory_type: u32,
    pub(super) length: u64,
}

impl Drop for Imported<'_> {
    fn drop(&mut self) {
        // SAFETY: no dispatch uses them: each borrows them until it is done. Freeing null memory does nothing.
        unsafe {
            self.device.raw.destroy_buffer(self.buffer, None);
            self.device.raw.free_memory(self.memory, None);
        }
    }
}

/// The part of imported memory that commands use.
#[derive(Clone)]
pub struct Binding<'d> {
    /// The memory.
    pub memory: Rc<Imported<'d>>,
    /// Offset in bytes; of a storage buffer, a multiple of the device's descriptor alignment.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}
