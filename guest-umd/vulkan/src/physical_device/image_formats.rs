// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes pointers and handles")]

//! Which images of a format there can be. The host knows, and is asked unless the answer is certain.

use super::PhysicalDevice;
use crate::{list, raw};
use ash::vk;
use bellhop_protocol::vulkan::{Image, ImageFormat, ImageKind, Tiling};

/// A question about images: what matters of them.
fn question(
    information: &vk::PhysicalDeviceImageFormatInfo2<'_>,
    stencil_usage: vk::ImageUsageFlags,
) -> Image {
    Image {
        address: 0,
        size: 0,
        format: information.format.as_raw() as u32,
        kind: ImageKind(information.ty.as_raw() as u32),
        tiling: Tiling(information.tiling.as_raw() as u32),
        usage: (information.usage | stencil_usage).as_raw(),
        flags: information.flags.as_raw(),
        samples: 0,
        extent: [0; 3],
        levels: 0,
        layers: 0,
        reserved: 0,
    }
}

/// What a program is told of images that there can be.
fn properties(format: &ImageFormat) -> vk::ImageFormatProperties {
    let [width, height, depth] = format.extent;
    vk::ImageFormatProperties {
        max_extent: vk::Extent3D { width, height, depth },
        max_mip_levels: format.levels,
        max_array_layers: format.layers,
        sample_counts: vk::SampleCountFlags::from_raw(format.samples),
        // Vulkan demands 2 GiB at least, more than a piece of memory has: who creates a larger image hears that.
        max_resource_size: format.size,
    }
}

/// Finds out which images there can be: nothing with an error.
///
/// # Safety
/// The handle is valid, and the structure, as Vulkan demands it.
unsafe fn find(
    device: vk::PhysicalDevice,
    information: &vk::PhysicalDeviceImageFormatInfo2<'_>,
) -> Result<vk::ImageFormatProperties, vk::Result> {
    type External<'a> = vk::PhysicalDeviceExternalImageFormatInfo<'a>;
    type Stencils<'a> = vk::ImageStencilUsageCreateInfo<'a>;
    // SAFETY: as the caller says.
    let (gpu, external, stencils) = unsafe {
        let external = raw::find::<External<'_>>(information.p_next);
        let stencils = raw::find::<Stencils<'_>>(information.p_next);
        (&PhysicalDevice::get(device).gpu, external, stencils)
    };
    let stencil_usage = stencils.map(|of| of.stencil_usage).unwrap_or_default();
    let image = question(information, stencil_usage);
    let is_shared = external.is_some_and(|external| !external.handle_type.is_empty());
    if is_shared || !gpu.caps.formats.may_have(&image) {
        return Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED);
    }
    gpu.image_format(image).map(|format| properties(&format))
}

unsafe extern "system" fn image_format(
    device: vk::PhysicalDevice,
    format: vk::Format,
    kind: vk::ImageType,
    tiling: vk::ImageTiling,
    usage: vk::ImageUsageFlags,
    flags: vk::ImageCreateFlags,
    place: *mut vk::ImageFormatProperties,
) -> vk::Result {
    let information = vk::PhysicalDeviceImageFormatInfo2::default().format(format).ty(kind);
    let information = information.tiling(tiling).usage(usage).flags(flags);
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let found = find(device, &information);
        *place = found.unwrap_or_default();
        found.err().unwrap_or(vk::Result::SUCCESS)
    }
}

unsafe extern "system" fn image_format_2(
    device: vk::PhysicalDevice,
    information: *const vk::PhysicalDeviceImageFormatInfo2<'_>,
    place: *mut vk::ImageFormatProperties2<'_>,
) -> vk::Result {
    type Samplers<'a> = vk::SamplerYcbcrConversionImageFormatProperties<'a>;
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    unsafe {
        let found = find(device, &*information);
        (*place).image_format_properties = found.unwrap_or_default();
        let next = (*place).p_next;
        if let Some(samplers) = raw::find_mut::<Samplers<'_>>(next) {
            samplers.combined_image_sampler_descriptor_count = 1;
        }
        if let Some(external) = raw::find_mut::<vk::ExternalImageFormatProperties<'_>>(next) {
            external.external_memory_properties = vk::ExternalMemoryProperties::default();
        }
        found.err().unwrap_or(vk::Result::SUCCESS)
    }
}

unsafe extern "system" fn sparse_format(
    _device: vk::PhysicalDevice,
    _format: vk::Format,
    _kind: vk::ImageType,
    _samples: vk::SampleCountFlags,
    _usage: vk::ImageUsageFlags,
    _tiling: vk::ImageTiling,
    count: *mut u32,
    properties: *mut vk::SparseImageFormatProperties,
) {
    // A list of nothing fits.
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let _ = unsafe { list::copy([], count, properties) };
}

unsafe extern "system" fn sparse_format_2(
    _device: vk::PhysicalDevice,
    _information: *const vk::PhysicalDeviceSparseImageFormatInfo2<'_>,
    count: *mut u32,
    properties: *mut vk::SparseImageFormatProperties2<'_>,
) {
    // A list of nothing fits.
    // SAFETY: what a program passes is valid, as Vulkan demands it.
    let _ = unsafe { list::copy([], count, properties) };
}

crate::entry::entry_points! {
    vkGetPhysicalDeviceImageFormatProperties = image_format,
    vkGetPhysicalDeviceImageFormatProperties2 = image_format_2,
    vkGetPhysicalDeviceImageFormatProperties2KHR = image_format_2,
    vkGetPhysicalDeviceSparseImageFormatProperties = sparse_format,
    vkGetPhysicalDeviceSparseImageFormatProperties2 = sparse_format_2,
    vkGetPhysicalDeviceSparseImageFormatProperties2KHR = sparse_format_2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_host_s_numbers() {
        let extent = [16384, 8192, 1];
        let (levels, layers, samples, size) = (15, 2048, 5, 1 << 31);
        let told = properties(&ImageFormat {
            extent,
            levels,
            layers,
            samples,
            size,
            ..Default::default()
        });
        assert!(told.max_extent == vk::Extent3D { width: 16384, height: 8192, depth: 1 });
        assert_eq!((told.max_mip_levels, told.max_array_layers), (15, 2048));
        assert_eq!(told.sample_counts.as_raw(), 0b101);
        // Vulkan's least, which is more than a piece of memory has.
        assert_eq!(told.max_resource_size, 1 << 31);
    }
}
