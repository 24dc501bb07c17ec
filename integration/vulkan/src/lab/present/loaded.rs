// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions of surfaces and swap chains, where instance and device have them.

use crate::lab::failure::Outcome;
use ash::ext::headless_surface;
use ash::khr::{display, present_id, present_wait, surface, swapchain};
use std::ffi::CStr;

/// What instances have for surfaces.
pub(in crate::lab) struct Surfaces {
    pub(super) asked: surface::Instance,
    pub(super) chains: swapchain::Instance,
    pub(super) headless: headless_surface::Instance,
    pub(super) displays: Option<display::Instance>,
}

impl Surfaces {
    /// Those of an instance that has the extensions, perhaps that of displays.
    pub(in crate::lab) fn new(
        entry: &ash::Entry,
        instance: &ash::Instance,
        displays: bool,
    ) -> Self {
        let asked = surface::Instance::new(entry, instance);
        let chains = swapchain::Instance::new(entry, instance);
        let headless = headless_surface::Instance::new(entry, instance);
        let displays = displays.then(|| display::Instance::new(entry, instance));
        Self { asked, chains, headless, displays }
    }
}

/// What devices have for swap chains.
pub(in crate::lab) struct Presents {
    pub(super) chains: swapchain::Device,
    pub(super) waits: Option<present_wait::Device>,
}

impl Presents {
    /// The extensions that a device can have of them.
    pub(in crate::lab) fn extensions(
        surfaces: Option<&Surfaces>,
        has: impl Fn(&'static CStr) -> Outcome<bool>,
    ) -> Outcome<Vec<&'static CStr>> {
        let mut all = Vec::new();
        if surfaces.is_none() {
            return Ok(all);
        }
        for name in [swapchain::NAME, present_id::NAME, present_wait::NAME] {
            if has(name)? {
                all.push(name);
            }
        }
        Ok(all)
    }

    pub(in crate::lab) fn new(
        instance: &ash::Instance,
        raw: &ash::Device,
        extensions: &[&CStr],
    ) -> Option<Self> {
        let has = |name| extensions.contains(&name);
        has(swapchain::NAME).then(|| Self {
            chains: swapchain::Device::new(instance, raw),
            waits: has(present_wait::NAME).then(|| present_wait::Device::new(instance, raw)),
        })
    }
}
