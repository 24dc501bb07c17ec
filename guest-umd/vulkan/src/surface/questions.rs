// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! What physical devices can show on surfaces.

use super::object::Surface;
use crate::physical_device::{Caps, PhysicalDevice};
use crate::{list, raw};
use ash::vk;
use bellhop_protocol::vulkan::{Image, ImageKind, Tiling};

/// Least images of a swap chain: one is shown while another is drawn.
const LEAST_IMAGES: u32 = 2;
/// Most images of a swap chain.
pub(super) const MOST_IMAGES: u32 = 16;
/// A size that the images decide on (Vulkan, `currentExtent`).
const ANY: vk::Extent2D = vk::Extent2D { width: u32::MAX, height: u32::MAX };
/// The modes in which images are presented.
const MODES: [vk::PresentModeKHR; 4] = [
    vk::PresentModeKHR::FIFO,
    vk::PresentModeKHR::FIFO_RELAXED,
    vk::PresentModeKHR::MAILBOX,
    vk::PresentModeKHR::IMMEDIATE,
];
/// What images of swap chains may be used for, where their formats can be.
const USAGES: [vk::ImageUsageFlags; 6] = [
    vk::ImageUsageFlags::COLOR_ATTACHMENT,
    vk::ImageUsageFlags::TRANSFER_SRC,
    vk::ImageUsageFlags::TRANSFER_DST,
    vk::ImageUsageFlags::SAMPLED,
    vk::ImageUsageFlags::STORAGE,
    vk::ImageUsageFlags::INPUT_ATTACHMENT,
];

/// An image of a swap chain: what matters of it.
pub(super) const fn image(format: vk::Format, usage: vk::ImageUsageFlags) -> Image {
    Image {
        address: 0,
        size: 0,
        format: format.as_raw() as u32,
        kind: ImageKind::TWO,
        tiling: Tiling::LINEAR,
        usage: usage.as_raw(),
        flags: 0,
        samples: 1,
        extent: [1; 3],
        levels: 1,
        layers: 1,
        reserved: 0,
    }
}

/// What images of a format may be used for.
fn usages(caps: &Caps, format: vk::Format) -> vk::ImageUsageFlags {
    let is_there = |usage: &vk::ImageUsageFlags| caps.formats.may_have(&image(format, *usage));
    USAGES.into_iter().filter(is_there).fold(vk::ImageUsageFlags::empty(), |all, one| all | one)
}

/// The formats of a surface that the host makes images of.
fn formats(caps: &Caps, surface: &Surface) -> impl Iterator<Item = vk::SurfaceFormatKHR> {
    let is_there = |format: &&vk::Format| !usages(caps, **format).is_empty();
    let formats = surface.screen.formats().iter().filter(is_there);
    let color_space = vk::ColorSpaceKHR::SRGB_NONLINEAR;
    formats.map(move |format| vk::SurfaceFormatKHR { format: *format, color_space })
}

/// What swap chains of a surface may be.
///
/// # Errors
/// When the surface is not there any more.
pub(super) fn capabilities(
    caps: &Caps,
    surface: &Surface,
) -> Result<vk::SurfaceCapabilitiesKHR, vk::Result> {
    let extent = surface.screen.extent()?;
    let most = caps.limits.image_side();
    let one = vk::Extent2D { width: 1, height: 1 };
    let all = surface.screen.formats().iter().map(|format| usages(caps, *format));
    let usages = all.filter(|usages| !usages.is_empty()).reduce(|all, one| all & one);
    Ok(vk::SurfaceCapabilitiesKHR {
        min_image_count: LEAST_IMAGES,
        max_image_count: MOST_IMAGES,
        current_extent: extent.unwrap_or(ANY),
        min_image_extent: extent.unwrap_or(one),
        max_image_extent: extent.unwrap_or(vk::Extent2D { width: most, height: most }),
        max_image_array_layers: 1,
        supported_transforms: vk::SurfaceTransformFlagsKHR::IDENTITY,
        current_transform: vk::SurfaceTransformFlagsKHR::IDENTITY,
        supported_composite_alpha: vk::CompositeAlphaFlagsKHR::OPAQUE
            | vk::CompositeAlphaFlagsKHR::INHERIT,
        supported_usage_flags: usages.unwrap_or_default(),
    })
}

unsafe extern "system" fn support(
    device: vk::PhysicalDevice,
    _family: u32,
    surface: vk::SurfaceKHR,
    is_there: *mut vk::Bool32,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let caps = PhysicalDevice::get(device).caps();
        *is_there = formats(caps, Surface::get(surface)).next().is_some().into();
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn put_capabilities(
    device: vk::PhysicalDevice,
    surface: vk::SurfaceKHR,
    place: *mut vk::SurfaceCapabilitiesKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        match capabilities(PhysicalDevice::get(device).caps(), Surface::get(surface)) {
            Ok(capabilities) => *place = capabilities,
            Err(error) => return error,
        }
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn put_capabilities_2(
    device: vk::PhysicalDevice,
    information: *const vk::PhysicalDeviceSurfaceInfo2KHR<'_>,
    place: *mut vk::SurfaceCapabilities2KHR<'_>,
) -> vk::Result {
    type Protected<'a> = vk::SurfaceProtectedCapabilitiesKHR<'a>;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        if let Some(protected) = raw::find_mut::<Protected<'_>>((*place).p_next) {
            protected.supports_protected = vk::FALSE;
        }
        let surface = (*information).surface;
        put_capabilities(device, surface, &raw mut (*place).surface_capabilities)
    }
}

unsafe extern "system" fn put_formats(
    device: vk::PhysicalDevice,
    surface: vk::SurfaceKHR,
    count: *mut u32,
    places: *mut vk::SurfaceFormatKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let formats = formats(PhysicalDevice::get(device).caps(), Surface::get(surface));
        list::copy(formats, count, places)
    }
}

unsafe extern "system" fn put_formats_2(
    device: vk::PhysicalDevice,
    information: *const vk::PhysicalDeviceSurfaceInfo2KHR<'_>,
    count: *mut u32,
    places: *mut vk::SurfaceFormat2KHR<'_>,
) -> vk::Result {
    let put = |place: &mut vk::SurfaceFormat2KHR<'_>, format| place.surface_format = format;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let surface = Surface::get((*information).surface);
        let formats = formats(PhysicalDevice::get(device).caps(), surface);
        list::put(formats, count, places, put)
    }
}

unsafe extern "system" fn put_modes(
    _device: vk::PhysicalDevice,
    _surface: vk::SurfaceKHR,
    count: *mut u32,
    places: *mut vk::PresentModeKHR,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe { list::copy(MODES, count, places) }
}

unsafe extern "system" fn put_rectangles(
    _device: vk::PhysicalDevice,
    surface: vk::SurfaceKHR,
    count: *mut u32,
    places: *mut vk::Rect2D,
) -> vk::Result {
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        match Surface::get(surface).screen.extent() {
            Ok(extent) => {
                let extent = extent.unwrap_or(ANY);
                list::copy([vk::Rect2D { extent, ..Default::default() }], count, places)
            }
            Err(error) => error,
        }
    }
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceSurfaceSupportKHR = support,
    vkGetPhysicalDeviceSurfaceCapabilitiesKHR = put_capabilities,
    vkGetPhysicalDeviceSurfaceCapabilities2KHR = put_capabilities_2,
    vkGetPhysicalDeviceSurfaceFormatsKHR = put_formats,
    vkGetPhysicalDeviceSurfaceFormats2KHR = put_formats_2,
    vkGetPhysicalDeviceSurfacePresentModesKHR = put_modes,
    vkGetPhysicalDevicePresentRectanglesKHR = put_rectangles,
}
