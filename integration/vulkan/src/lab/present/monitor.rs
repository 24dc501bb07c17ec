// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Displays of the machine's own.

use super::chain::Chain;
use crate::lab::{Failure, Gpu, Lab, Outcome};
use ash::khr::display;
use ash::vk;

/// A display, and its modes.
pub(crate) struct Monitor {
    pub(crate) raw: vk::DisplayKHR,
    /// The size that it has itself.
    pub(crate) size: vk::Extent2D,
    pub(crate) modes: Vec<vk::DisplayModePropertiesKHR>,
}

impl Lab {
    fn displays(&self) -> Outcome<&display::Instance> {
        let displays = self.surfaces.as_ref().and_then(|surfaces| surfaces.displays.as_ref());
        displays.ok_or_else(|| Failure::not_offered("no displays"))
    }

    /// The displays of the device; none is not offered.
    pub(crate) fn monitors(&self) -> Outcome<Vec<Monitor>> {
        let displays = self.displays()?;
        // SAFETY: the device is this instance's.
        let all = unsafe { displays.get_physical_device_display_properties(self.physical) }?;
        if all.is_empty() {
            return Err(Failure::not_offered("no monitor"));
        }
        let monitor = |one: vk::DisplayPropertiesKHR<'_>| {
            let raw = one.display;
            // SAFETY: as above, and the display was listed just now.
            let modes = unsafe { displays.get_display_mode_properties(self.physical, raw) }?;
            Ok(Monitor { raw, size: one.physical_resolution, modes })
        };
        all.into_iter().map(monitor).collect()
    }

    /// The planes that a display can be on.
    pub(crate) fn planes_of(&self, monitor: &Monitor) -> Outcome<Vec<u32>> {
        let displays = self.displays()?;
        // SAFETY: the device is this instance's.
        let planes =
            unsafe { displays.get_physical_device_display_plane_properties(self.physical) }?;
        let mut fitting = Vec::new();
        for plane in 0..planes.len() as u32 {
            // SAFETY: as above; there are so many planes.
            let shown =
                unsafe { displays.get_display_plane_supported_displays(self.physical, plane) }?;
            if shown.contains(&monitor.raw) {
                fitting.push(plane);
            }
        }
        Ok(fitting)
    }
}

impl Gpu<'_> {
    /// A surface of a mode on a plane.
    pub(crate) fn surface_on(
        &self,
        mode: &vk::DisplayModePropertiesKHR,
        plane: u32,
    ) -> Outcome<vk::SurfaceKHR> {
        let displays = self.lab.displays()?;
        let information = vk::DisplaySurfaceCreateInfoKHR::default()
            .display_mode(mode.display_mode)
            .plane_index(plane)
            .transform(vk::SurfaceTransformFlagsKHR::IDENTITY)
            .alpha_mode(vk::DisplayPlaneAlphaFlagsKHR::OPAQUE)
            .image_extent(mode.parameters.visible_region);
        // SAFETY: the mode and the plane are the device's. The structure lives until the call returns.
        let raw = unsafe { displays.create_display_plane_surface(&information, None) }?;
        self.destroy_later(raw)?;
        Ok(raw)
    }

    /// A swap chain that fills a mode.
    pub(crate) fn chain_of(
        &self,
        surface: vk::SurfaceKHR,
        mode: &vk::DisplayModePropertiesKHR,
    ) -> Outcome<Chain<'_>> {
        let size = mode.parameters.visible_region;
        self.chain_of_size(surface, 3, vk::PresentModeKHR::FIFO, vk::SwapchainKHR::null(), size)
    }
}
