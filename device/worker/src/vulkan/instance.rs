// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! The Vulkan loader, and the devices that it finds.

use super::{Called, VulkanError};
use crate::report::{Description, Kind, Limits};
use ash::ext::external_memory_host;
use ash::vk;
use std::ffi::{CStr, OsStr};

/// The Vulkan version that kernels need.
const VERSION: u32 = vk::API_VERSION_1_2;
/// The newest version that is used, of a device that has it.
const NEWEST: u32 = vk::API_VERSION_1_3;

/// The variable with the number of threads in which Mesa's lavapipe runs kernels.
pub const THREADS: &str = "LP_NUM_THREADS";
/// The kernels run in the thread to which commands are submitted.
const NONE: &str = "0";

/// A Vulkan instance and its loader.
pub struct Instance {
    pub(super) raw: ash::Instance,
    /// Keeps the library loaded: `raw` has pointers into it.
    _entry: ash::Entry,
}

impl Instance {
    /// Loads the Vulkan loader, which loads the machine's drivers.
    ///
    /// # Errors
    /// When there is no loader or no driver, or a Vulkan call fails.
    pub fn load(library: &OsStr) -> Result<Self, VulkanError> {
        // SAFETY: loading a library runs its code. This one is the system's Vulkan loader, or what the user named
        // instead, and this process exists to contain its faults.
        let entry = unsafe { ash::Entry::load_from(library) }
            .map_err(|error| VulkanError::NoLoader(error.to_string()))?;
        let application =
            vk::ApplicationInfo::default().application_name(c"bellhop-worker").api_version(NEWEST);
        let information = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures live until the call returns, and ask for no layers or extensions.
        let raw = match unsafe { entry.create_instance(&information, None) } {
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => return Err(VulkanError::NoDriver),
            result => result.called("vkCreateInstance")?,
        };
        Ok(Self { raw, _entry: entry })
    }

    /// Loads the loader once more, for devices on the processor that run kernels in the submitting thread alone. Mesa's
    /// lavapipe reads how many threads it is to start when an instance's devices are first listed.
    ///
    /// # Errors
    /// As [`Self::load`] and [`Self::devices`].
    pub fn without_threads(library: &OsStr) -> Result<Self, VulkanError> {
        // SAFETY: nothing else of this process reads or changes the environment meanwhile: its main thread waits for
        // this one, and the driver's threads have nothing to do.
        unsafe { std::env::set_var(THREADS, NONE) };
        let instance = Self::load(library)?;
        instance.devices()?;
        Ok(instance)
    }

    /// Returns whether lavapipe starts no threads anyway.
    pub fn has_no_threads() -> bool {
        std::env::var_os(THREADS).is_some_and(|threads| threads == NONE)
    }

    /// Lists the devices in the loader's order.
    ///
    /// # Errors
    /// When the loader cannot list them, or there are none.
    pub fn devices(&self) -> Result<Vec<PhysicalDevice<'_>>, VulkanError> {
        // SAFETY: the instance is live.
        let handles = unsafe { self.raw.enumerate_physical_devices() };
        let handles = handles.called("vkEnumeratePhysicalDevices")?;
        if handles.is_empty() {
            return Err(VulkanError::NoDriver);
        }
        Ok(handles.into_iter().map(|handle| PhysicalDevice { instance: self, handle }).collect())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: everything made from the instance borrowed it, and is gone.
        unsafe { self.raw.destroy_instance(None) };
    }
}

/// A device that is not open.
#[derive(Clone, Copy)]
pub struct PhysicalDevice<'i> {
    pub(super) instance: &'i Instance,
    pub(super) handle: vk::PhysicalDevice,
}

impl PhysicalDevice<'_> {
    /// Returns the device's description of itself.
    pub fn description(&self) -> Description {
        let raw = &self.instance.raw;
        // SAFETY: the handle belongs to this instance.
        let properties = unsafe { raw.get_physical_device_properties(self.handle) };
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let imports = self.imports();
        if properties.api_version >= VERSION {
            let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
            if imports {
                all = all.push_next(&mut import);
            }
            // SAFETY: the device has the version and the extension that the chained structures need.
            unsafe { raw.get_physical_device_properties2(self.handle, &mut all) };
        }
        let limits = properties.limits;
        Description {
            name: text(properties.device_name_as_c_str()),
            kind: match properties.device_type {
                vk::PhysicalDeviceType::CPU => Kind::Cpu,
                vk::PhysicalDeviceType::INTEGRATED_GPU => Kind::IntegratedGpu,
                vk::PhysicalDeviceType::DISCRETE_GPU => Kind::DiscreteGpu,
                vk::PhysicalDeviceType::VIRTUAL_GPU => Kind::VirtualGpu,
                _ => Kind::Other,
            },
            api: version(properties.api_version),
            driver: format!(
                "{} {}",
                text(driver.driver_name_as_c_str()),
                text(driver.driver_info_as_c_str())
            ),
            limits: Limits {
                work_group_size: limits.max_compute_work_group_size,
                work_group_invocations: limits.max_compute_work_group_invocations,
                work_groups: limits.max_compute_work_group_count,
                shared_memory: limits.max_compute_shared_memory_size,
                push_constants: limits.max_push_constants_size,
                descriptor_alignment: limits.min_storage_buffer_offset_alignment,
                descriptor_range: limits.max_storage_buffer_range,
                import_alignment: imports.then_some(import.min_imported_host_pointer_alignment),
            },
        }
    }

    /// Returns the first thing that kernels need and this device lacks.
    pub fn lacks(&self) -> Option<&'static str> {
        // SAFETY: the handle belongs to this instance.
        let properties = unsafe { self.instance.raw.get_physical_device_properties(self.handle) };
        // SAFETY: as above.
        let features = unsafe { self.instance.raw.get_physical_device_features(self.handle) };
        if properties.api_version < VERSION {
            Some("Vulkan 1.2")
        } else if features.shader_int64 == vk::FALSE {
            Some("integers of 64 bits (shaderInt64)")
        } else if !self.imports() {
            Some("import of memory without a copy (VK_EXT_external_memory_host)")
        } else if self.compute_family().is_none() {
            Some("queue for compute")
        } else {
            None
        }
    }

    /// Returns whether kernels may follow pointers into buffers: the least that `KERNEL_POINTERS` needs.
    pub fn has_buffer_addresses(&self) -> bool {
        let mut addresses = vk::PhysicalDeviceBufferDeviceAddressFeatures::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut addresses);
        // SAFETY: the structure is of Vulkan 1.2, which `lacks` checks first.
        unsafe { self.instance.raw.get_physical_device_features2(self.handle, &mut features) };
        addresses.buffer_device_address == vk::TRUE
    }

    /// Returns whether the device can import this process's memory.
    fn imports(&self) -> bool {
        self.has_extension(external_memory_host::NAME)
    }

    /// Returns whether the device has an extension.
    pub(super) fn has_extension(&self, name: &CStr) -> bool {
        // SAFETY: the handle belongs to this instance.
        let extensions =
            unsafe { self.instance.raw.enumerate_device_extension_properties(self.handle) };
        extensions.is_ok_and(|all| all.iter().any(|e| e.extension_name_as_c_str() == Ok(name)))
    }

    /// Returns whether the device has Vulkan 1.3, and its structures with it.
    pub(super) fn is_since_1_3(&self) -> bool {
        // SAFETY: the handle belongs to this instance.
        let properties = unsafe { self.instance.raw.get_physical_device_properties(self.handle) };
        properties.api_version >= vk::API_VERSION_1_3
    }

    pub(super) fn compute_family(&self) -> Option<u32> {
        self.first_for_compute().map(|(index, _)| index)
    }

    /// Returns the first family of queues for compute.
    pub(super) fn first_for_compute(&self) -> Option<(u32, vk::QueueFamilyProperties)> {
        // SAFETY: the handle belongs to this instance.
        let families =
            unsafe { self.instance.raw.get_physical_device_queue_family_properties(self.handle) };
        (0..).zip(families).find(|(_, f)| f.queue_flags.contains(vk::QueueFlags::COMPUTE))
    }
}

fn version(number: u32) -> String {
    let (major, minor) = (vk::api_version_major(number), vk::api_version_minor(number));
    format!("{major}.{minor}.{}", vk::api_version_patch(number))
}

fn text<E>(name: Result<&CStr, E>) -> String {
    name.map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned())
}
