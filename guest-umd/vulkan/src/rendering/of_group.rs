// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "a program passes chains of structures")]

//! What a rendering is for the GPUs of a device, where a program says that.

use crate::device::DeviceMask;
use crate::raw;
use ash::vk;
use std::ffi::c_void;

/// The GPUs that execute a rendering.
pub(crate) struct OfGroup {
    pub(crate) devices: DeviceMask,
    /// The area of each, by device index; none where all have that of the rendering.
    pub(crate) areas: Vec<vk::Rect2D>,
}

impl OfGroup {
    /// What is in a chain, if anything.
    ///
    /// # Safety
    /// The chain is valid, as Vulkan demands it.
    pub(crate) unsafe fn of(next: *const c_void) -> Option<Self> {
        type Group<'a> = vk::DeviceGroupRenderPassBeginInfo<'a>;
        // SAFETY: the caller says that it is valid.
        unsafe {
            let Group { device_mask, p_device_render_areas, device_render_area_count, .. } =
                *raw::find::<Group<'_>>(next)?;
            let areas = raw::slice(p_device_render_areas, device_render_area_count).to_vec();
            Some(Self { devices: device_mask as DeviceMask, areas })
        }
    }
}
