// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! Which formats and images a device offers.

use super::form::Form;
use super::{Failure, Lab, Outcome, require};
use ash::vk;

impl Lab {
    /// What may be done with a format.
    pub(crate) fn format(&self, format: vk::Format) -> vk::FormatProperties {
        // SAFETY: the device is this instance's.
        unsafe { self.instance.get_physical_device_format_properties(self.physical, format) }
    }

    /// The same, as Vulkan 1.1 and 1.3 say it.
    pub(crate) fn format_2(
        &self,
        format: vk::Format,
    ) -> (vk::FormatProperties, vk::FormatProperties3<'static>) {
        let mut wide = vk::FormatProperties3::default();
        let mut both = vk::FormatProperties2::default().push_next(&mut wide);
        // SAFETY: the device is this instance's. The structures live until the call returns.
        unsafe {
            self.instance.get_physical_device_format_properties2(self.physical, format, &mut both);
        }
        let first = both.format_properties;
        (first, wide)
    }

    /// Requires that formats can do this: optimal images of them, or what else `of` says.
    pub(crate) fn all_can(
        &self,
        formats: &[vk::Format],
        feature: vk::FormatFeatureFlags,
        of: impl Fn(&vk::FormatProperties) -> vk::FormatFeatureFlags,
    ) -> Outcome {
        for format in formats {
            let can = of(&self.format(*format));
            require!(can.contains(feature), "format {} can {:#x}", format.as_raw(), can.as_raw());
        }
        Ok(())
    }

    /// Says so unless optimal images of a format, or the buffers' views, can do this.
    pub(crate) fn needs_feature(
        &self,
        format: vk::Format,
        feature: vk::FormatFeatureFlags,
    ) -> Outcome {
        let has = self.format(format);
        if (has.optimal_tiling_features | has.buffer_features).contains(feature) {
            return Ok(());
        }
        Err(Failure::not_offered(format!(
            "format {} lacks some of the features {:#x}",
            format.as_raw(),
            feature.as_raw()
        )))
    }

    /// How large such images may be.
    pub(crate) fn most(&self, form: &Form) -> Result<vk::ImageFormatProperties, vk::Result> {
        let Form { kind, format, tiling, usage, flags, .. } = *form;
        // SAFETY: the device is this instance's.
        unsafe {
            self.instance.get_physical_device_image_format_properties(
                self.physical,
                format,
                kind,
                tiling,
                usage,
                flags,
            )
        }
    }

    /// The same, as Vulkan 1.1 says it.
    pub(crate) fn most_2(&self, form: &Form) -> Result<vk::ImageFormatProperties, vk::Result> {
        let information = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(form.format)
            .ty(form.kind)
            .tiling(form.tiling)
            .usage(form.usage)
            .flags(form.flags);
        let mut most = vk::ImageFormatProperties2::default();
        // SAFETY: the device is this instance's. The structures live until the call returns.
        unsafe {
            self.instance.get_physical_device_image_format_properties2(
                self.physical,
                &information,
                &mut most,
            )
        }?;
        Ok(most.image_format_properties)
    }

    /// Says so unless the device has such images.
    pub(crate) fn offers(&self, form: Form) -> Outcome {
        let refused = |why: &str| {
            let Form { format, extent, levels, layers, .. } = form;
            let (format, usage) = (format.as_raw(), form.usage.as_raw());
            Err(Failure::not_offered(format!(
                "{why}: format {format}, {extent:?}, {levels} levels, {layers} layers, usage {usage:#x}"
            )))
        };
        let most = match self.most(&form) {
            Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED) => return refused("no such images"),
            most => most?,
        };
        let vk::Extent3D { width, height, depth } = most.max_extent;
        let fits = [width, height, depth].iter().zip(form.extent).all(|(most, it)| it <= *most);
        let fits = fits && most.sample_counts.contains(form.samples);
        match fits && form.levels <= most.max_mip_levels && form.layers <= most.max_array_layers {
            true => Ok(()),
            false => refused("no images of this size"),
        }
    }

    /// Says so unless the device has a feature, by its name.
    pub(crate) fn needs(&self, name: &str, feature: vk::Bool32) -> Outcome {
        match feature == vk::TRUE {
            true => Ok(()),
            false => Err(Failure::not_offered(name)),
        }
    }

    /// Says so unless shaders reach buffers by addresses.
    pub(crate) fn needs_addresses(&self) -> Outcome {
        self.needs("bufferDeviceAddress", self.features().since_1_2.buffer_device_address)
    }
}
