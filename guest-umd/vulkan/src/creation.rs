// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Creates devices with their queues, and destroys them.

use crate::device::{Device, Families, Gpus, code};
use crate::pages::out_of;
use crate::physical_device::features::Features;
use crate::physical_device::queues::{FAMILIES, QUEUES};
use crate::physical_device::{Caps, Frames, Gpu, PhysicalDevice, all, extensions};
use crate::queue::Queue;
use crate::{handle, raw};
use ash::khr::swapchain;
use ash::vk::{self, Handle as _};
use std::ffi::CStr;
use std::sync::Arc;

/// The names of the extensions that a program enables.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn enabled<'a>(information: &vk::DeviceCreateInfo<'a>) -> impl Iterator<Item = &'a CStr> {
    // SAFETY: a valid structure's pointers are.
    let names = unsafe {
        let names = information.pp_enabled_extension_names;
        raw::slice(names, information.enabled_extension_count)
    };
    // SAFETY: as above.
    names.iter().map(|name| unsafe { CStr::from_ptr(*name) })
}

/// Whether there is what a program asks for.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn check(caps: &Caps, information: &vk::DeviceCreateInfo<'_>) -> Result<(), vk::Result> {
    // SAFETY: a valid structure's pointers are.
    let (mut extensions, core) = unsafe {
        let core = information.p_enabled_features.cast::<u32>();
        let core = raw::slice(core, (size_of::<vk::PhysicalDeviceFeatures>() / 4) as u32);
        (enabled(information), core)
    };
    if !extensions.all(|name| extensions::has(caps, name)) {
        return Err(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
    }
    let are_there = |kind, asked: &[u32]| caps.features.have_all(kind, asked);
    // SAFETY: as above. Structures of features have as many words as features.
    let are_all_there = unsafe { all(information.p_next, Features::count, are_there) };
    if !are_all_there || !are_there(vk::StructureType::PHYSICAL_DEVICE_FEATURES_2, core) {
        return Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
    }
    Ok(())
}

/// How many queues of each family a program asks for, of the first `families`.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn count_queues(
    information: &vk::DeviceCreateInfo<'_>,
    families: usize,
) -> Result<[u32; FAMILIES.len()], vk::Result> {
    // SAFETY: a valid structure's pointers are.
    let asked = unsafe {
        raw::slice(information.p_queue_create_infos, information.queue_create_info_count)
    };
    let failed = vk::Result::ERROR_INITIALIZATION_FAILED;
    let mut counts = [0u32; FAMILIES.len()];
    for asked in asked {
        let family = asked.queue_family_index as usize;
        let count = counts.get_mut(..families).and_then(|counts| counts.get_mut(family));
        let count = count.filter(|_| asked.flags.is_empty()).ok_or(failed)?;
        *count = count.saturating_add(asked.queue_count);
    }
    if counts.iter().any(|count| *count > QUEUES) { Err(failed) } else { Ok(counts) }
}

/// Those that draw frames in turns with a GPU: the others of its group, if the program shows frames and its profile allows that.
fn alternates(physical: &PhysicalDevice, first: &Gpu, shows_frames: bool) -> Vec<Gpu> {
    let gpus = &physical.opened.gpus;
    let is_beside = |gpu: &&Gpu| gpu.ordinal != first.ordinal && gpu.is_of_group(first);
    let others: Vec<_> = gpus.iter().filter(is_beside).cloned().collect();
    // A GPU that sleeps until it is needed is not woken for what another can do.
    let sleeps = |gpu: &Gpu| physical.opened.has_power_when_needed(gpu.ordinal);
    let do_draw = match physical.profile.frames {
        _ if !shows_frames || others.is_empty() => false,
        Frames::Automatic => !others.iter().chain([first]).any(sleeps),
        Frames::Alternate => true,
        Frames::One => false,
    };
    if do_draw { others } else { Vec::new() }
}

/// The GPUs that a program asks for, by device index: those of a group, or the physical device's own, which others draw frames
/// with in turns.
///
/// # Safety
/// The structure is valid, as Vulkan demands it.
unsafe fn gpus(physical: &PhysicalDevice, information: &vk::DeviceCreateInfo<'_>) -> Gpus {
    // SAFETY: a valid structure's chain, pointers and handles are.
    let devices = unsafe {
        let group = raw::find::<vk::DeviceGroupDeviceCreateInfo<'_>>(information.p_next);
        group.map_or(&[][..], |group| {
            raw::slice(group.p_physical_devices, group.physical_device_count)
        })
    };
    // SAFETY: as above.
    let mut gpus = devices.iter().map(|device| unsafe { PhysicalDevice::get(*device) }.gpu.clone());
    let first = gpus.next().unwrap_or_else(|| physical.gpu.clone());
    let others: Vec<_> = gpus.collect();
    if devices.is_empty() {
        // SAFETY: as above.
        let shows_frames = unsafe { enabled(information) }.any(|name| name == swapchain::NAME);
        let alternates = alternates(physical, &first, shows_frames);
        return Gpus::in_turns(first, alternates);
    }
    Gpus::new(first, others)
}

/// Ends a device with its queues.
///
/// # Safety
/// The program uses it no more.
unsafe fn end(device: u64) {
    // SAFETY: the caller says that this is the last use. Queues end before the device that they are on.
    unsafe {
        for queue in handle::get_dispatchable::<Device>(device).queues() {
            handle::destroy_dispatchable::<Queue>(queue);
        }
        handle::destroy_dispatchable::<Device>(device);
    }
}

unsafe extern "system" fn create(
    physical: vk::PhysicalDevice,
    information: *const vk::DeviceCreateInfo<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let (physical, information) = unsafe { (PhysicalDevice::get(physical), &*information) };
    // SAFETY: as above.
    let asked = unsafe {
        let families = physical.gpu.families().len();
        check(physical.caps(), information).and_then(|()| count_queues(information, families))
    };
    let counts = match asked {
        Ok(counts) => counts,
        Err(error) => return error,
    };
    // SAFETY: as above.
    let gpus = unsafe { gpus(physical, information) };
    let made = match Device::new(&physical.opened, gpus, &physical.messengers) {
        Ok(made) => vk::Device::from_raw(handle::create_dispatchable(made)),
        Err(error) => return out_of(&error),
    };
    // SAFETY: it was made just now, and ends when the program destroys it.
    let object = unsafe { Device::get(made) };
    let (mut queues, mut fences) = (Families::default(), Vec::new());
    let mut all = queues.iter_mut().zip(FAMILIES).zip(counts);
    let created = all.try_for_each(|((queues, engine_type), count)| {
        (0..count).try_for_each(|_| {
            let queue = Queue::new(object, engine_type)?;
            fences.extend(queue.progress().map(Arc::clone));
            queues.push(handle::create_dispatchable(queue));
            Ok(())
        })
    });
    object.set_handles(made.as_raw(), queues, fences);
    if let Err(error) = created {
        // SAFETY: nobody else has its handle.
        unsafe { end(made.as_raw()) };
        return out_of(&error);
    }
    // SAFETY: as above.
    unsafe { *device = made };
    vk::Result::SUCCESS
}

unsafe extern "system" fn destroy(
    device: vk::Device,
    _allocator: *const vk::AllocationCallbacks<'_>,
) {
    if !device.is_null() {
        // SAFETY: the program destroys it once.
        unsafe { end(device.as_raw()) };
    }
}

unsafe extern "system" fn queue(
    device: vk::Device,
    family: u32,
    index: u32,
    queue: *mut vk::Queue,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let found = Device::get(device).queue(family, index);
        *queue = found.map_or_else(vk::Queue::null, vk::Queue::from_raw);
    }
}

unsafe extern "system" fn queue_2(
    device: vk::Device,
    information: *const vk::DeviceQueueInfo2<'_>,
    place: *mut vk::Queue,
) {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::DeviceQueueInfo2 { flags, queue_family_index, queue_index, .. } = *information;
        if flags.is_empty() {
            queue(device, queue_family_index, queue_index, place);
        } else {
            // There is no queue with flags.
            *place = vk::Queue::null();
        }
    }
}

unsafe extern "system" fn wait_idle(device: vk::Device) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let device = unsafe { Device::get(device) };
    for queue in device.queues() {
        // SAFETY: the device's queues live as long as it does.
        let queue = unsafe { handle::get_dispatchable::<Queue>(queue) };
        if let Err(error) = queue.wait_idle() {
            return error;
        }
    }
    code(device.check())
}

crate::entry::entry_points! {
    vkDestroyDevice = destroy,
    vkDeviceWaitIdle = wait_idle,
    vkGetDeviceQueue = queue,
    vkGetDeviceQueue2 = queue_2,
}

/// What makes a device of a physical one.
mod of_physical_device {
    crate::entry::entry_points! {
        vkCreateDevice = super::create,
    }
}

pub use of_physical_device::lookup as lookup_creation;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical_device::caps::tests::{caps, poor_caps};
    use ash::khr;

    #[test]
    fn a_device_has_what_is_there() {
        let names = [khr::push_descriptor::NAME.as_ptr(), khr::video_queue::NAME.as_ptr()];
        let mut addresses =
            vk::PhysicalDeviceBufferDeviceAddressFeatures::default().buffer_device_address(true);
        let core = vk::PhysicalDeviceFeatures::default().shader_int64(true);
        let drawn = vk::PhysicalDeviceFeatures::default().geometry_shader(true);
        let wrong = vk::PhysicalDeviceFeatures::default().sparse_binding(true);
        // SAFETY: the structures are valid.
        unsafe {
            let fine = vk::DeviceCreateInfo::default().enabled_extension_names(&names[..1]);
            assert_eq!(check(&poor_caps(), &fine), Ok(()));
            let surface = fine.enabled_extension_names(&names);
            let absent = Err(vk::Result::ERROR_EXTENSION_NOT_PRESENT);
            assert_eq!(check(&caps(), &surface), absent);
            let pointers =
                vk::DeviceCreateInfo::default().push_next(&mut addresses).enabled_features(&core);
            assert_eq!(check(&caps(), &pointers), Ok(()));
            let absent = Err(vk::Result::ERROR_FEATURE_NOT_PRESENT);
            assert_eq!(check(&poor_caps(), &pointers), absent);
            let graphics = vk::DeviceCreateInfo::default().enabled_features(&drawn);
            assert_eq!(check(&caps(), &graphics), Ok(()));
            assert_eq!(check(&poor_caps(), &graphics), absent);
            let sparse = vk::DeviceCreateInfo::default().enabled_features(&wrong);
            assert_eq!(check(&caps(), &sparse), absent);
        }
    }

    #[test]
    fn queues_are_of_families_that_are_there() {
        let priorities = [1.0; 9];
        let asked = |count: usize, family, families| {
            let queues = [vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&priorities[..count])];
            let all = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
            // SAFETY: the structures are valid.
            unsafe { count_queues(&all, families) }
        };
        assert_eq!(asked(3, 0, 1), Ok([3, 0]));
        assert_eq!(asked(8, 0, 2), Ok([8, 0]));
        assert_eq!(asked(8, 1, 2), Ok([0, 8]));
        for (count, family, families) in [(9, 0, 2), (9, 1, 2), (1, 1, 1), (1, 2, 2)] {
            assert!(asked(count, family, families).is_err());
        }
    }
}
