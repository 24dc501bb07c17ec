// SPDX-License-Identifier: MIT OR Apache-2.0

//! Makes what a stream names, on a device.

use super::described::Description;
use super::described::Known;
use super::images::Made;
use super::pipelines::Pipelines;
use super::reader::Maker;
use super::wrong::Why;
use crate::serve::imports::Imports;
use crate::serve::memory::Memory;
use crate::vulkan::{Device, Image, Pipeline, Point, VulkanError};
use bellhop_protocol::vulkan as protocol;
use std::rc::Rc;

/// Makes a pipeline of a description that has been checked.
///
/// # Errors
/// When Vulkan fails.
pub fn make_pipeline<'d>(
    device: &'d Device<'d>,
    of: &Description<'_>,
) -> Result<Pipeline<'d>, VulkanError> {
    match of {
        Description::Compute(parts, module) => {
            device.pipeline(parts, module.spirv, &module.entry_point)
        }
        Description::Graphics(parts, modules) => device.graphics_pipeline(parts, modules),
    }
}

/// What makes pipelines and images on a device, and keeps them.
pub struct Making<'a, 'd> {
    /// The device.
    pub device: &'d Device<'d>,
    /// The pipelines that were made.
    pub pipelines: &'a mut Pipelines<Pipeline<'d>>,
    /// Whether others are made.
    pub makes: bool,
    /// The images that were made.
    pub made: &'a mut Made<'d>,
    /// The memory of images.
    pub imports: &'a mut Imports<'d>,
    /// The memory of descriptions.
    pub memory: &'a Memory,
}

impl<'d> Maker for Making<'_, 'd> {
    type Pipeline = Pipeline<'d>;
    type Image = Image<'d>;

    fn pipeline(&mut self, point: Point, address: u64) -> Result<Rc<Known<Pipeline<'d>>>, Why> {
        let device = self.device;
        let make = self.makes.then_some(|of: &Description<'_>| make_pipeline(device, of));
        self.pipelines.find(address, point, self.memory, device.bounds(), make)
    }

    fn image(&mut self, of: &protocol::Image) -> Result<Rc<Image<'d>>, Why> {
        self.made.image(of, self.imports)
    }
}
