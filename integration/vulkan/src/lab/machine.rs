// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! The loader, an instance, and a device of it.

use super::messages::{Message, Messages};
use super::present::loaded::Surfaces;
use super::{Failure, Outcome};
use ash::ext::{debug_utils, headless_surface};
use ash::khr::{display, surface};
use ash::vk;
use std::ffi::{CStr, CString};
use std::fmt;

/// An instance of the machine's Vulkan, and a device that it lists.
pub struct Lab {
    /// Goes before the instance does.
    pub(super) messages: Option<Messages>,
    pub(super) surfaces: Option<Surfaces>,
    pub(super) physical: vk::PhysicalDevice,
    pub(super) instance: ash::Instance,
    /// Keeps the library loaded: `instance` has pointers into it.
    _entry: ash::Entry,
}

/// What a device says of itself.
#[derive(Default)]
pub(crate) struct Description {
    pub(crate) properties: vk::PhysicalDeviceProperties,
    pub(crate) since_1_1: vk::PhysicalDeviceVulkan11Properties<'static>,
    pub(crate) since_1_2: vk::PhysicalDeviceVulkan12Properties<'static>,
    pub(crate) since_1_3: vk::PhysicalDeviceVulkan13Properties<'static>,
}

/// What a device can.
#[derive(Default)]
pub(crate) struct Features {
    pub(crate) core: vk::PhysicalDeviceFeatures,
    pub(crate) since_1_1: vk::PhysicalDeviceVulkan11Features<'static>,
    pub(crate) since_1_2: vk::PhysicalDeviceVulkan12Features<'static>,
    pub(crate) since_1_3: vk::PhysicalDeviceVulkan13Features<'static>,
}

impl Lab {
    /// Loads the machine's Vulkan, for the device of this number in the list.
    ///
    /// # Errors
    /// When there is no loader or no such device.
    pub fn open(device: usize) -> Outcome<Self> {
        // SAFETY: loading a library runs its code. This one is the machine's Vulkan loader, which is what is tried.
        let entry = unsafe { ash::Entry::load() };
        let entry = entry.map_err(|error| Failure::not_offered(format!("no loader: {error}")))?;
        let application = vk::ApplicationInfo::default()
            .application_name(c"suite")
            .api_version(vk::API_VERSION_1_3);
        // SAFETY: the loader is there.
        let offered = unsafe { entry.enumerate_instance_extension_properties(None) }?;
        let has = |name| offered.iter().any(|one| one.extension_name_as_c_str() == Ok(name));
        let tells = has(debug_utils::NAME);
        let shows = has(surface::NAME) && has(headless_surface::NAME);
        let of_messages = tells.then_some(debug_utils::NAME);
        let of_surfaces = [surface::NAME, headless_surface::NAME].into_iter().filter(|_| shows);
        let has_displays = shows && has(display::NAME);
        let of_displays = has_displays.then_some(display::NAME);
        let of_surfaces = of_surfaces.chain(of_displays);
        let names: Vec<_> = of_messages.into_iter().chain(of_surfaces).map(CStr::as_ptr).collect();
        let information = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_extension_names(&names);
        // SAFETY: the structures live until the call returns, and ask for no layers.
        let instance = match unsafe { entry.create_instance(&information, None) } {
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => {
                return Err(Failure::not_offered("the loader finds no driver"));
            }
            result => result?,
        };
        let messages = if tells { Some(Messages::new(&entry, &instance)?) } else { None };
        let physical = vk::PhysicalDevice::null();
        let surfaces = shows.then(|| Surfaces::new(&entry, &instance, has_displays));
        let mut lab = Self { messages, surfaces, physical, instance, _entry: entry };
        let devices = lab.devices()?;
        lab.physical = *devices
            .get(device)
            .ok_or_else(|| Failure::not_offered("the driver has no such device"))?;
        Ok(lab)
    }

    /// The devices of the instance.
    pub(crate) fn devices(&self) -> Outcome<Vec<vk::PhysicalDevice>> {
        // SAFETY: the instance is there.
        Ok(unsafe { self.instance.enumerate_physical_devices() }?)
    }

    /// The name of the device, and of its driver.
    #[must_use]
    pub fn name(&self) -> String {
        let Description { properties, since_1_2, .. } = self.description();
        let name = |bytes: Result<&CStr, _>| {
            bytes.map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
        };
        let device = name(properties.device_name_as_c_str());
        let driver = name(since_1_2.driver_name_as_c_str());
        let version = name(since_1_2.driver_info_as_c_str());
        format!("{device}, driver {driver} {version}")
    }

    /// What drivers have told about this so far.
    pub(crate) fn heard(&self, id: &str) -> Vec<Message> {
        self.messages.as_ref().map(|messages| messages.heard(id)).unwrap_or_default()
    }

    /// Whether the driver is Bellhop's, with which a program may do what loses its device.
    pub(crate) fn is_bellhop(&self) -> bool {
        self.name().to_lowercase().contains("bellhop")
    }

    /// Says that a behaviour is about Bellhop's driver, unless it is.
    pub(crate) fn bellhop_alone(&self) -> Outcome {
        if self.is_bellhop() {
            return Ok(());
        }
        Err(Failure::not_offered("another driver than Bellhop's might lose more than the device"))
    }

    /// What the device says of itself.
    pub(crate) fn description(&self) -> Description {
        self.description_of(self.physical)
    }

    /// What a device of the instance says of itself.
    pub(super) fn description_of(&self, physical: vk::PhysicalDevice) -> Description {
        let mut said = Description::default();
        let mut properties = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut said.since_1_1)
            .push_next(&mut said.since_1_2)
            .push_next(&mut said.since_1_3);
        // SAFETY: the device is this instance's. The structures live until the call returns.
        unsafe { self.instance.get_physical_device_properties2(physical, &mut properties) };
        said.properties = properties.properties;
        said
    }

    /// What the device can.
    pub(crate) fn features(&self) -> Features {
        self.features_of(self.physical)
    }

    /// What a device of the instance can.
    pub(super) fn features_of(&self, physical: vk::PhysicalDevice) -> Features {
        let mut can = Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut can.since_1_1)
            .push_next(&mut can.since_1_2)
            .push_next(&mut can.since_1_3);
        // SAFETY: as `description`.
        unsafe { self.instance.get_physical_device_features2(physical, &mut features) };
        can.core = features.features;
        can
    }

    /// The families of queues.
    pub(crate) fn families(&self) -> Vec<vk::QueueFamilyProperties> {
        self.families_of(self.physical)
    }

    /// The families of queues of a device of the instance.
    pub(super) fn families_of(
        &self,
        physical: vk::PhysicalDevice,
    ) -> Vec<vk::QueueFamilyProperties> {
        // SAFETY: the device is this instance's.
        unsafe { self.instance.get_physical_device_queue_family_properties(physical) }
    }

    /// The types of memory, and the heaps.
    pub(crate) fn memory(&self) -> vk::PhysicalDeviceMemoryProperties {
        // SAFETY: the device is this instance's.
        unsafe { self.instance.get_physical_device_memory_properties(self.physical) }
    }

    /// The names of the device's extensions.
    pub(crate) fn extensions(&self) -> Outcome<Vec<CString>> {
        // SAFETY: the device is this instance's.
        let all = unsafe { self.instance.enumerate_device_extension_properties(self.physical) }?;
        let names = all.iter().filter_map(|each| each.extension_name_as_c_str().ok());
        Ok(names.map(CStr::to_owned).collect())
    }

    /// Whether the device has an extension.
    pub(crate) fn has(&self, extension: &CStr) -> Outcome<bool> {
        Ok(self.extensions()?.iter().any(|name| name.as_c_str() == extension))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.messages = None;
        // SAFETY: a `Gpu` borrows this, so there is none.
        unsafe { self.instance.destroy_instance(None) };
    }
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
