// SPDX-License-Identifier: MIT OR Apache-2.0

//! Makes what a stream names, on a device.

use super::images::Made;
use super::pipelines::{Known, Pipelines};
use super::plan::Maker;
use super::wrong::Why;
use crate::serve::imports::Imports;
use crate::serve::memory::Memory;
use crate::vulkan::{Device, Image, Pipeline};
use bellhop_protocol::vulkan::{self as protocol, PipelineParts};
use std::ffi::CStr;
use std::rc::Rc;

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

    fn pipeline(&mut self, address: u64) -> Result<Rc<Known<Pipeline<'d>>>, Why> {
        let make = |parts: &PipelineParts<'_>, spirv: &[u32], entry_point: &CStr| {
            self.device.pipeline(parts, spirv, entry_point)
        };
        let make = self.makes.then_some(make);
        self.pipelines.find(address, self.memory, self.device.bounds(), make)
    }

    fn image(&mut self, of: &protocol::Image) -> Result<Rc<Image<'d>>, Why> {
        self.made.image(of, self.imports)
    }
}
