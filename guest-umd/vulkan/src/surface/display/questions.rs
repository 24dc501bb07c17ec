// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Which displays, planes and modes there are.

use super::handles::{child, display, mode, numbers};
use crate::list;
use crate::physical_device::PhysicalDevice;
use ash::vk;
use bellhop_guest_umd::display::{Display, TargetMode};
use std::ffi::CStr;
use std::ptr;

/// What displays are called: a program keeps the pointer.
const NAME: &CStr = c"Bellhop monitor";

/// The guest's display, if it has one.
///
/// # Safety
/// The handle is valid.
unsafe fn open(device: vk::PhysicalDevice) -> Option<Display> {
    // SAFETY: the caller says so.
    unsafe { PhysicalDevice::get(device) }.opened.adapter.display().ok()
}

/// A display's modes: none without a monitor.
fn modes(display: &Display, child: u32) -> Vec<TargetMode> {
    let is_connected = display.child_status(child).is_ok_and(|status| status.connected != 0);
    if is_connected { display.monitor_modes(child).unwrap_or_default() } else { Vec::new() }
}

/// The connectors with a monitor, and the mode that it prefers.
fn monitors(of: &Display) -> Vec<(u32, TargetMode)> {
    let children = 0..of.children().len() as u32;
    let preferred = |child| Some((child, *modes(of, child).first()?));
    children.filter_map(preferred).collect()
}

const fn extent(mode: &TargetMode) -> vk::Extent2D {
    vk::Extent2D { width: mode.width, height: mode.height }
}

/// What Vulkan says of a mode: its rate in frames in 1,000 seconds.
fn parameters(mode: &TargetMode) -> vk::DisplayModeParametersKHR {
    let frames = u64::from(mode.refresh_numerator) * 1000;
    let rate = frames / u64::from(mode.refresh_denominator.max(1));
    vk::DisplayModeParametersKHR {
        visible_region: extent(mode),
        refresh_rate: u32::try_from(rate).unwrap_or(u32::MAX),
    }
}

fn properties<'a>((child, preferred): (u32, TargetMode)) -> vk::DisplayPropertiesKHR<'a> {
    vk::DisplayPropertiesKHR {
        display: display(child),
        display_name: NAME.as_ptr(),
        physical_resolution: extent(&preferred),
        supported_transforms: vk::SurfaceTransformFlagsKHR::IDENTITY,
        ..Default::default()
    }
}

unsafe extern "system" fn displays(
    device: vk::PhysicalDevice,
    count: *mut u32,
    places: *mut vk::DisplayPropertiesKHR<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let monitors = open(device).map(|display| monitors(&display)).unwrap_or_default();
        list::copy(monitors.into_iter().map(properties), count, places)
    }
}

unsafe extern "system" fn displays_2(
    device: vk::PhysicalDevice,
    count: *mut u32,
    places: *mut vk::DisplayProperties2KHR<'_>,
) -> vk::Result {
    let put = |place: &mut vk::DisplayProperties2KHR<'_>, one| place.display_properties = one;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let monitors = open(device).map(|display| monitors(&display)).unwrap_or_default();
        list::put(monitors.into_iter().map(properties), count, places, put)
    }
}

/// A plane for each source. Which display one is on is found out when a surface of it is drawn.
fn all_planes(of: Option<Display>) -> impl Iterator<Item = vk::DisplayPlanePropertiesKHR> {
    let sources = of.map_or(0, |display| display.sources());
    let plane = vk::DisplayPlanePropertiesKHR { current_stack_index: 0, ..Default::default() };
    (0..sources).map(move |_| plane)
}

unsafe extern "system" fn planes(
    device: vk::PhysicalDevice,
    count: *mut u32,
    places: *mut vk::DisplayPlanePropertiesKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy(all_planes(open(device)), count, places) }
}

unsafe extern "system" fn planes_2(
    device: vk::PhysicalDevice,
    count: *mut u32,
    places: *mut vk::DisplayPlaneProperties2KHR<'_>,
) -> vk::Result {
    let put = |place: &mut vk::DisplayPlaneProperties2KHR<'_>, plane| {
        place.display_plane_properties = plane;
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::put(all_planes(open(device)), count, places, put) }
}

unsafe extern "system" fn displays_of_plane(
    device: vk::PhysicalDevice,
    plane: u32,
    count: *mut u32,
    places: *mut vk::DisplayKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let opened = open(device);
        let monitors = opened.as_ref().map(monitors).unwrap_or_default();
        // A source is shown on connectors of its own GPU: sources and connectors come in the order of the chain.
        let gpu = |child: u32| {
            let children = opened.as_ref().map(Display::children).unwrap_or_default();
            children.get(child as usize).map(|child| child.gpu())
        };
        let shows = |(child, _): &(u32, TargetMode)| gpu(*child) == gpu(plane);
        list::copy(
            monitors.into_iter().filter(shows).map(|(child, _)| display(child)),
            count,
            places,
        )
    }
}

unsafe extern "system" fn modes_of(
    device: vk::PhysicalDevice,
    of: vk::DisplayKHR,
    count: *mut u32,
    places: *mut vk::DisplayModePropertiesKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy(all_modes(open(device), of), count, places) }
}

fn all_modes(
    opened: Option<Display>,
    of: vk::DisplayKHR,
) -> impl Iterator<Item = vk::DisplayModePropertiesKHR> {
    let child = child(of);
    let modes = opened.map(|display| modes(&display, child)).unwrap_or_default();
    (0..).zip(modes).map(move |(number, one)| vk::DisplayModePropertiesKHR {
        display_mode: mode(child, number),
        parameters: parameters(&one),
    })
}

unsafe extern "system" fn modes_of_2(
    device: vk::PhysicalDevice,
    of: vk::DisplayKHR,
    count: *mut u32,
    places: *mut vk::DisplayModeProperties2KHR<'_>,
) -> vk::Result {
    let put = |place: &mut vk::DisplayModeProperties2KHR<'_>, mode| {
        place.display_mode_properties = mode;
    };
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::put(all_modes(open(device), of), count, places, put) }
}

unsafe extern "system" fn create_mode(
    device: vk::PhysicalDevice,
    of: vk::DisplayKHR,
    information: *const vk::DisplayModeCreateInfoKHR<'_>,
    _allocator: *const vk::AllocationCallbacks<'_>,
    place: *mut vk::DisplayModeKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let wanted = (*information).parameters;
        let is_it = |mode: &vk::DisplayModePropertiesKHR| {
            let vk::DisplayModeParametersKHR { visible_region, refresh_rate } = mode.parameters;
            visible_region == wanted.visible_region && refresh_rate == wanted.refresh_rate
        };
        // A monitor has its own modes and no others.
        match all_modes(open(device), of).find(is_it) {
            Some(mode) => *place = mode.display_mode,
            None => return vk::Result::ERROR_INITIALIZATION_FAILED,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn capabilities(
    device: vk::PhysicalDevice,
    of: vk::DisplayModeKHR,
    _plane: u32,
    place: *mut vk::DisplayPlaneCapabilitiesKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let (child, number) = numbers(of);
        let modes = open(device).map(|display| modes(&display, child)).unwrap_or_default();
        let Some(extent) = modes.get(number as usize).map(extent) else {
            return vk::Result::ERROR_SURFACE_LOST_KHR;
        };
        *place = vk::DisplayPlaneCapabilitiesKHR {
            supported_alpha: vk::DisplayPlaneAlphaFlagsKHR::OPAQUE,
            min_src_extent: extent,
            max_src_extent: extent,
            min_dst_extent: extent,
            max_dst_extent: extent,
            ..Default::default()
        };
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn capabilities_2(
    device: vk::PhysicalDevice,
    information: *const vk::DisplayPlaneInfo2KHR<'_>,
    place: *mut vk::DisplayPlaneCapabilities2KHR<'_>,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let vk::DisplayPlaneInfo2KHR { mode, plane_index, .. } = *information;
        capabilities(device, mode, plane_index, ptr::addr_of_mut!((*place).capabilities))
    }
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceDisplayPropertiesKHR = displays,
    vkGetPhysicalDeviceDisplayProperties2KHR = displays_2,
    vkGetPhysicalDeviceDisplayPlanePropertiesKHR = planes,
    vkGetPhysicalDeviceDisplayPlaneProperties2KHR = planes_2,
    vkGetDisplayPlaneSupportedDisplaysKHR = displays_of_plane,
    vkGetDisplayModePropertiesKHR = modes_of,
    vkGetDisplayModeProperties2KHR = modes_of_2,
    vkCreateDisplayModeKHR = create_mode,
    vkGetDisplayPlaneCapabilitiesKHR = capabilities,
    vkGetDisplayPlaneCapabilities2KHR = capabilities_2,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellhop_protocol::control::display::TargetMode;
    use zerocopy::FromZeros;

    #[test]
    fn a_mode_s_rate_is_in_frames_in_1_000_seconds() {
        let mode = TargetMode {
            width: 1920,
            height: 1080,
            refresh_numerator: 60_000,
            refresh_denominator: 1001,
            ..TargetMode::new_zeroed()
        };
        let parameters = parameters(&mode);
        assert_eq!(parameters.refresh_rate, 59_940);
        let region = parameters.visible_region;
        assert_eq!((region.width, region.height), (1920, 1080));
    }
}
